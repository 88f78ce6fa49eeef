"""The one way a command fails: type and code, message, place and hint on stderr, and the documented exit code."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from ..errors import FlowError, StepError, UserCodeError
from ..spec.origin import Origin
from ..spec.redaction import without_secrets

if TYPE_CHECKING:
    from rich.text import Text

FAILED = 1
WRONG_CALL = 2
INTERRUPTED, TERMINATED = 130, 143

_PACKAGE = Path(__file__).resolve().parents[1]


@contextmanager
def reported(*, verbose: bool = False, code: int = FAILED) -> Iterator[None]:
    """Turn an error inside the block into its report and an exit with `code`; warnings become one line each."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except (typer.Exit, typer.BadParameter):
            raise
        except KeyboardInterrupt as error:
            raise typer.Exit(interrupted(error)) from None
        # The outermost door: nothing may pass it without a report, not even a module that calls sys.exit.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            fail(error, code, verbose=verbose)


def fail(error: BaseException, code: int, *, about: str = "error", verbose: bool = False) -> NoReturn:
    """Report an error and leave with `code`."""
    report(error, about=about, verbose=verbose)
    raise typer.Exit(code) from error


def report(error: BaseException, *, about: str = "error", verbose: bool = False) -> None:
    """Print an error on stderr: what it is, where, what to do next; with `verbose`, how it came about."""
    from rich.text import Text

    title, message = f"{_title(error)}: ", without_secrets(_message(error))
    lines = [Text.assemble((f"{about}: ", "bold red"), (title, "bold"), message), *_details(error)]
    if verbose or not isinstance(error, FlowError):
        # What is not an error of ours is a defect, and its traceback is the only thing that can explain it.
        lines.insert(0, Text(without_secrets("".join(traceback.format_exception(error)).rstrip()), "dim"))
    _tell(*lines)


def interrupted(error: KeyboardInterrupt) -> int:
    """Say that somebody pressed Ctrl-C or ended the process, and give the exit code for it."""
    from rich.text import Text

    said = str(error)
    _tell(Text(f"{said or 'interrupted'}: what was not committed is undone"))
    return TERMINATED if said else INTERRUPTED


def _tell(*lines: Text) -> None:
    from .screen import notices, show

    show(notices(), *lines)


def _title(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name} [{error.code}]" if isinstance(error, FlowError) else name


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the project's code called sys.exit({error.code!r})"
    return error.message if isinstance(error, FlowError) else str(error)


def _details(error: BaseException) -> list[Text]:
    from rich.text import Text

    found: list[tuple[str, str]] = []
    if isinstance(error, FlowError) and error.declared_at is not None:
        found.append(("declared at", _place(error.declared_at)))
    cause = error.__cause__.__cause__ if isinstance(error, StepError) and error.__cause__ else error.__cause__
    if isinstance(error, UserCodeError | StepError) and (raised := _raised_at(cause)):
        found.append(("raised at", raised))
    found += [("note", note) for note in getattr(error, "__notes__", ())]
    if isinstance(error, FlowError) and error.hint:
        found.append(("hint", error.hint))
    return [Text.assemble((f"  {label}: ", "cyan"), without_secrets(text)) for label, text in found]


def _place(place: object) -> str:
    if not isinstance(place, Origin):
        return str(place)
    path = Path(place.file)
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{short}:{place.line}"


def _raised_at(cause: BaseException | None) -> str | None:
    """The line of the user's own code that raised, or called what raised."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return _place(Origin(cause.filename, cause.lineno or 1))
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    for frame in reversed(frames):
        if _is_users(frame.filename):
            return f"{_place(Origin(frame.filename, frame.lineno or 1))} in {frame.name}"
    return None


def _is_users(file: str) -> bool:
    path = Path(file)
    is_library = "site-packages" in path.parts or path.is_relative_to(Path(traceback.__file__).parent)
    return not (file.startswith("<") or is_library or path.is_relative_to(_PACKAGE))


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    from rich.text import Text

    kind = "" if category is UserWarning else f"{category.__name__}: "
    _tell(Text.assemble(("warning: ", "bold yellow"), without_secrets(f"{kind}{message}")))
