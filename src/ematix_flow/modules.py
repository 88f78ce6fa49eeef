"""The modules of a project: imported anew for each load, from the project's own folder."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from .config import Settings
from .errors import ConfigError, FlowError, UserCodeError

__all__ = ["forget_modules", "import_module"]

_directories: set[Path] = set()
"""The folders from which this process has loaded projects."""


def forget_modules(named: Sequence[str], directory: Path) -> None:
    """Let the modules of projects be imported anew, whoever imports them: their declarations belong to this load."""
    for name in named:
        sys.modules.pop(name, None)
    _directories.add(directory.resolve())
    running = {"__main__"}  # what is being executed now must find itself again
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        running.add(str(frame.f_globals.get("__name__")))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if name not in running and isinstance(file, str) and _is_project_file(Path(file)):
            del sys.modules[name]


def _is_project_file(file: Path) -> bool:
    """Whether a module's file is a project's own: no library, not this package, nothing compiled."""
    file = file.resolve()
    libraries = (Path(__file__).resolve().parent, Path(sysconfig.get_path("stdlib")).resolve())
    return (
        file.suffix in (".py", "")
        and any(file.is_relative_to(directory) for directory in _directories)
        and not any(file.is_relative_to(library) for library in libraries)
        and not {"site-packages", "dist-packages", ".venv"} & set(file.parts)
    )


def import_module(module: str, settings: Settings) -> None:
    """Import a user's module, with the project's directory first on the path."""
    directory = settings.project_dir
    sys.path[:] = [str(directory), *(entry for entry in sys.path if entry != str(directory))]
    importlib.invalidate_caches()
    try:
        importlib.import_module(module)
    except FlowError:
        raise
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise UserCodeError(f"module {module!r} could not be imported: {error}") from error
        origin = settings.origins.get("modules", "the code")
        raise ConfigError(
            f"there is no module {module!r} in {directory}",
            hint=f"the modules come from {origin}; name them without .py",
        ) from error
    except Exception as error:  # user code is a boundary: its failure is named, its cause kept
        raise UserCodeError(
            f"module {module!r} failed while it was imported: {type(error).__name__}: {error}"
        ) from error
