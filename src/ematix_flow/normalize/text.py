"""Normalizers of text. Each reads its value as text first, whatever type the source gives it."""
# ruff: noqa: N801 - markers are written in lower case, as the functions they read like

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import SpecError, SpecTypeError
from .base import Marker, check_whole, literal
from .regex import Pattern, Replacement

__all__ = [
    "email_normalize",
    "empty_to_null",
    "lower",
    "phone_normalize",
    "regex_replace",
    "replace",
    "trim",
    "truncate",
    "upper",
    "whitespace_to_null",
]


@dataclass(frozen=True)
class trim(Marker):
    """The text without the spaces at both ends; other white space stays."""

    light = True

    def to_sql(self, col: str) -> str:
        # The characters are named because a bare TRIM takes away more than spaces on some systems.
        return f"TRIM(BOTH ' ' FROM {_text_of(col)})"


@dataclass(frozen=True)
class lower(Marker):
    """The text in lower case."""

    light = True

    def to_sql(self, col: str) -> str:
        return f"LOWER({_text_of(col)})"


@dataclass(frozen=True)
class upper(Marker):
    """The text in upper case."""

    light = True

    def to_sql(self, col: str) -> str:
        return f"UPPER({_text_of(col)})"


@dataclass(frozen=True)
class empty_to_null(Marker):
    """NULL in place of the empty text."""

    light = True

    def to_sql(self, col: str) -> str:
        return f"NULLIF({_text_of(col)}, '')"


@dataclass(frozen=True)
class whitespace_to_null(Marker):
    """The trimmed text, and NULL where nothing is left of it."""

    light = True

    def to_sql(self, col: str) -> str:
        return empty_to_null().to_sql(trim().to_sql(col))


@dataclass(frozen=True)
class replace(Marker):
    """The text with ``new`` in place of every ``old``; both are taken as they are."""

    old: str
    new: str
    light = True

    def __post_init__(self) -> None:
        for word, value in (("old", self.old), ("new", self.new)):
            _check_text("replace", word, value)
        if not self.old:
            raise SpecError("replace: old is empty", hint="name the text that is replaced")

    def to_sql(self, col: str) -> str:
        return f"REPLACE({_text_of(col)}, {literal(self.old)}, {literal(self.new)})"


@dataclass(frozen=True)
class regex_replace(Marker):
    r"""The text with ``replacement`` in place of what ``pattern`` matches: everywhere, or with ``flags=""`` once.

    The flags are ``g`` (everywhere) and ``i`` (capitals do not matter). ``\1`` in the replacement is what the first
    group matched, ``\&`` the whole match. The pattern keeps to what all engines read alike: characters, ``.``, classes,
    ``^`` and ``$`` (the ends of the text), groups, ``|`` and repetitions, also lazy ones.
    """

    pattern: str
    replacement: str
    flags: str = "g"
    _spelled: Pattern = field(init=False, repr=False, compare=False)
    _filled: Replacement = field(init=False, repr=False, compare=False)
    light = True

    def __post_init__(self) -> None:
        for word in ("pattern", "replacement", "flags"):
            _check_text("regex_replace", word, getattr(self, word))
        if unknown := set(self.flags) - {"g", "i"}:
            raise SpecError(
                f"regex_replace: there is no flag {min(unknown)!r}", hint="use g (everywhere) and i (any capitals)"
            )
        spelled = Pattern.read(self.pattern, any_case="i" in self.flags)
        filled = Replacement.read(self.replacement, groups=spelled.groups)
        if spelled.can_be_empty and "g" in self.flags and self.replacement:
            raise SpecError(
                f"regex_replace: {self.pattern!r} also matches where there is nothing, and there engines disagree",
                hint='demand at least one character, or replace once with flags=""',
            )
        object.__setattr__(self, "_spelled", spelled)
        object.__setattr__(self, "_filled", filled)

    def to_sql(self, col: str) -> str:
        arguments = (self._spelled.text, self._filled.text, "g" if "g" in self.flags else "")
        return f"REGEX_REPLACE({', '.join((_text_of(col), *map(literal, arguments)))})"


@dataclass(frozen=True)
class truncate(Marker):
    """The first ``n`` characters; with a negative ``n`` all but the last ``-n``."""

    n: int

    def __post_init__(self) -> None:
        check_whole("truncate", "n", self.n)

    def to_sql(self, col: str) -> str:
        return f"FIRST_CHARACTERS({_text_of(col)}, {self.n})"


@dataclass(frozen=True)
class email_normalize(Marker):
    """The text in lower case, without the spaces at both ends."""

    light = True

    def to_sql(self, col: str) -> str:
        return lower().to_sql(trim().to_sql(col))


@dataclass(frozen=True)
class phone_normalize(Marker):
    """The digits 0 to 9 and the plus signs of the text, and nothing else of it."""

    light = True

    def to_sql(self, col: str) -> str:
        return regex_replace("[^0-9+]", "").to_sql(col)


def _text_of(col: str) -> str:
    """The value as text, in the form that all engines share."""
    return f"TEXT_OF({col})"


def _check_text(marker: str, word: str, value: object) -> None:
    if not isinstance(value, str):
        raise SpecTypeError(f"{marker}: {word} is text, not {value!r}")
    if "\0" in value:
        raise SpecError(f"{marker}: {word} holds a NUL character, which SQL text cannot")
