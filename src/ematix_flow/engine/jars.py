"""The jars that Spark is given: which ones, by a lock file, and where they are, fetched once and checked each time.

A group of jars belongs together, such as `jdbc` or `delta`; a backend names the groups it needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ..config import Settings
from ..errors import JarError, UnknownNameError
from .ivy import run_ivy

__all__ = [
    "EXTENSIONS",
    "LOCK",
    "Fetching",
    "Jar",
    "JarStore",
    "State",
    "add_conf",
    "fetching",
    "group_class",
    "group_conf",
    "group_names",
    "locked_jars",
]

LOCK = Path(__file__).with_name("jars.toml")
"""The lock file."""

EXTENSIONS = "spark.sql.extensions"
"""The setting that several groups may add to."""

State = Literal["present", "missing", "damaged"]


@dataclass(frozen=True)
class Jar:
    """One published jar, and what its bytes must be."""

    group: str
    coordinate: str
    """``group:artifact:version``, and the classifier where it has one."""
    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Fetching:
    """A fetch of this process that is under way."""

    jars: tuple[Jar, ...]
    folder: Path

    @property
    def size(self) -> int:
        """How many bytes will come."""
        return sum(jar.size for jar in self.jars)

    def received(self) -> int:
        """About how many bytes are here."""
        seen: dict[str, int] = {}
        for path in self.folder.rglob("*.jar*"):
            with contextlib.suppress(OSError):  # it has its final name now, or is gone
                # A jar is in Ivy's own folder, with a name of its own until it is whole, and later beside it too.
                name = path.name.removesuffix(".part")
                seen[name] = max(seen.get(name, 0), path.stat().st_size)
        return min(sum(seen.values()), self.size)


def group_names() -> tuple[str, ...]:
    """Every group of the lock."""
    return tuple(sorted(_lock()))


def locked_jars(groups: Iterable[str]) -> tuple[Jar, ...]:
    """The jars of some groups, in the order of the lock, whatever the order of the groups.

    Raises:
        UnknownNameError: there is no such group.
    """
    wanted = set(groups)
    for name in sorted(wanted):
        _group(name)
    return tuple(jar for name in group_names() if name in wanted for jar in _lock()[name].jars)


def group_class(group: str) -> str:
    """A class by which a session shows that it has the jars of a group."""
    return _group(group).proof


def group_conf(groups: Iterable[str], *, tuned: bool = False) -> dict[str, str]:
    """What Spark must be told to use the jars of some groups; `tuned`, with what makes them quick too."""
    conf: dict[str, str] = {}
    for group in map(_group, sorted(set(groups))):
        add_conf(conf, {**group.conf, **group.tuning} if tuned else group.conf)
    return conf


def add_conf(conf: dict[str, str], more: Mapping[str, str]) -> None:
    """Put settings over those that are there; extensions stand beside each other."""
    for key, value in more.items():
        known = [each for each in conf.get(key, "").split(",") if each] if key == EXTENSIONS else []
        conf[key] = ",".join(dict.fromkeys([*known, *value.split(",")])) if key == EXTENSIONS else value


def fetching() -> Fetching | None:
    """What this process is fetching at this moment, for a display to ask."""
    return _now[-1] if _now else None


@dataclass(frozen=True)
class JarStore:
    """Where jars are kept: a cache that is filled when needed, or a folder that somebody else fills."""

    cache: Path
    folder: Path | None = None
    """Where all jars are; nothing is fetched then."""
    ivy_settings: Path | None = None
    """What Ivy reads instead of its own settings, to fetch from a mirror."""

    @classmethod
    def of(cls, settings: Settings) -> JarStore:
        """The store that the settings describe."""
        return cls(settings.cache_dir / "jars", settings.jars_folder, settings.jars_ivy_settings)

    def path(self, jar: Jar) -> Path:
        """Where a jar is, or will be."""
        return (self.folder or self.cache) / jar.file

    def state(self, jar: Jar) -> State:
        """Whether a jar is there, with the bytes that the lock knows."""
        try:
            return "present" if _sha256(self.path(jar)) == jar.sha256 else "damaged"
        except OSError:
            return "missing"

    def paths(self, groups: Iterable[str]) -> tuple[Path, ...]:
        """The files of some groups, all of them checked; what the cache has not is fetched first.

        Raises:
            JarError: a jar cannot be had, or is not the one that the lock knows.
        """
        jars = locked_jars(groups)
        absent = self._absent(jars)
        if absent and self.folder is not None:
            raise self._refused(absent, self.folder)
        if absent:
            with self._turn():
                self._fetch(self._absent(jars))  # another process may have fetched them in the meantime
        return tuple(self.path(jar) for jar in jars)

    def _absent(self, jars: Sequence[Jar]) -> tuple[Jar, ...]:
        return tuple(jar for jar in jars if self.state(jar) != "present")

    def _fetch(self, jars: tuple[Jar, ...]) -> None:
        """Bring jars into the cache; each gets its name there when it is whole and checked."""
        if not jars:
            return
        if self.ivy_settings is not None and not self.ivy_settings.is_file():
            raise JarError(
                f"jars.ivy_settings is {self.ivy_settings}, and there is no such file",
                hint="correct the setting, or remove it to fetch from the public repository",
            )
        part = Path(tempfile.mkdtemp(prefix=_PART, dir=self.cache))
        now = Fetching(jars, part)
        _now.append(now)
        try:
            complaints = run_ivy([jar.coordinate for jar in jars], part, self.ivy_settings)
            for jar in jars:
                self._check(jar, part / jar.file, complaints)
            for jar in jars:
                (part / jar.file).replace(self.path(jar))
        finally:
            _now.remove(now)
            shutil.rmtree(part, ignore_errors=True)

    def _check(self, jar: Jar, file: Path, complaints: Sequence[str]) -> None:
        where = f"from the repositories of {self.ivy_settings}" if self.ivy_settings else "from the public repository"
        hint = (
            "set jars.ivy_settings to Ivy settings that name a repository you can reach, "
            "or put the jar into a folder and set jars.folder to it"
        )
        if not file.is_file():
            about = [each for each in complaints if jar.coordinate.split(":")[1] in each] or complaints
            said = f": {'; '.join(about[-2:])}" if about else ""
            raise JarError(f"the jar {jar.file} ({jar.coordinate}) could not be fetched {where}{said}", hint=hint)
        if (found := _sha256(file)) != jar.sha256:
            message = f"the jar {jar.file} ({jar.coordinate}) that came {where} is not the one of the lock"
            raise JarError(f"{message}: its sha256 is {found}, not {jar.sha256}", hint=hint)

    def _refused(self, absent: Sequence[Jar], folder: Path) -> JarError:
        jar, others = absent[0], [each.file for each in absent[1:]]
        hint = f"put the jar with the sha256 {jar.sha256} there, or remove the setting jars.folder to let it be fetched"
        if others:
            hint += f"; `flow jars list {jar.group}` shows all of them"
        if not folder.is_dir():
            return JarError(
                f"jars.folder, {folder}, is no folder, so the jar {jar.file} ({jar.coordinate}) is not there", hint=hint
            )
        if self.state(jar) == "missing":
            more = f", nor are {', '.join(others)}" if others else ""
            return JarError(f"the jar {jar.file} ({jar.coordinate}) is not in jars.folder, {folder}{more}", hint=hint)
        found = _sha256(self.path(jar))
        message = f"the jar {jar.file} ({jar.coordinate}) in jars.folder, {folder}, is not the one of the lock"
        return JarError(f"{message}: its sha256 is {found}", hint=hint)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Processes that fetch take turns, so that the second one finds what the first one brought."""
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            lock = (self.cache / ".lock").open("w")
        except OSError as error:
            hint = "allow it, set project.cache_dir to another folder, or jars.folder to one that has the jars"
            raise JarError(f"the folder of fetched jars cannot be written: {error}", hint=hint) from error
        with lock:
            if sys.platform != "win32":  # elsewhere both fetch, and the last one gives the files their names
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
                self._sweep()
            yield

    def _sweep(self) -> None:
        """Remove what processes left that were killed while they fetched; whoever holds the lock is alone."""
        for left in self.cache.glob(f"{_PART}*"):
            shutil.rmtree(left, ignore_errors=True)


@dataclass(frozen=True)
class _Group:
    proof: str
    jars: tuple[Jar, ...]
    conf: Mapping[str, str]
    tuning: Mapping[str, str]


_PART = ".fetching-"
_now: list[Fetching] = []


@cache
def _lock() -> dict[str, _Group]:
    read = tomllib.loads(LOCK.read_text(encoding="utf-8"))
    return {
        name: _Group(
            group["class"],
            tuple(Jar(name, jar["coordinate"], jar["file"], jar["sha256"], jar["bytes"]) for jar in group["jars"]),
            group.get("conf", {}),
            group.get("tuning", {}),
        )
        for name, group in read.items()
    }


def _group(name: str) -> _Group:
    found = _lock().get(name)
    if found is None:
        raise UnknownNameError("group of jars", name, known=group_names())
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
