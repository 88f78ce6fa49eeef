"""A TOML file that knows the line of each of its keys, so that errors can point at it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConfigError, nearest
from .origin import Origin

__all__ = ["TomlFile", "read_toml"]

_HEADER = re.compile(r"\s*(\[{1,2})\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w.\-]+)\s*=""")
_QUOTES = str.maketrans("", "", "\"'")


@dataclass(frozen=True)
class TomlFile:
    """The parsed file: its data, and where each key stands."""

    path: Path
    data: Mapping[str, object] = field(default_factory=dict, repr=False)
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)

    def origin(self, key: str = "") -> Origin:
        """The place of a dotted key, or of the nearest table around it; an entry of a list is ``list[0]``."""
        while key not in self.lines and "." in key:
            key = key.rpartition(".")[0]
        return Origin(str(self.path), self.lines.get(key, 1))

    def table(self, key: str) -> Mapping[str, object]:
        """The table under a top-level key; empty where there is none, ConfigError where it is something else."""
        found = self.data.get(key, {})
        if not isinstance(found, dict):
            hint = f"write a section that begins with [{key}]"
            raise ConfigError(f"{key!r} in {self.path} is not a table", hint=hint, declared_at=self.origin(key))
        return found

    def check_keys(self, known: Iterable[str], within: str = "") -> None:
        """Raise ConfigError if the file, or its table `within`, has a key that is not `known`."""
        known = tuple(known)
        word, prefix = ("key", f"{within}.") if within else ("section", "")
        for key in self.table(within) if within else self.data:
            if key not in known:
                owner = f"[{within}] of {self.path}" if within else str(self.path)
                message = f"{owner} has an unknown {word} {key!r}"
                raise ConfigError(message, hint=nearest(word, key, known), declared_at=self.origin(prefix + key))


def read_toml(path: Path) -> TomlFile:
    """The file at `path`, empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return TomlFile(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="check its permissions and encoding") from None
    try:
        return TomlFile(path, tomllib.loads(text), _line_numbers(text))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = Origin(str(path), int(line[1]) if line else len(text.splitlines()))
        raise ConfigError(f"{path} is not valid TOML: {error}", hint="see toml.io", declared_at=place) from None


def _line_numbers(text: str) -> dict[str, int]:
    """The line of each header and key; good enough to point at, since the values come from the real parser."""
    numbers: dict[str, int] = {}
    lists: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = header[2].translate(_QUOTES)
            if header[1] == "[[":
                lists[table] = lists.get(table, -1) + 1
                table = f"{table}[{lists[table]}]"
            path = table
        elif key := _KEY.match(line):
            path = f"{table}.{key[1].translate(_QUOTES)}".removeprefix(".")
        else:
            continue
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            numbers.setdefault(".".join(parts[:length]), number)
    return numbers
