r"""Regular expressions that every engine reads alike: a pattern is read here and spelled out in words they share.

Java, RE2 and Python agree on groups, classes, alternatives and repetitions. They do not agree on what ``.``, ``$``,
``\w`` and capitals mean, so these are replaced by what they shall mean; anything else they disagree on is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import SpecError

__all__ = ["END", "Pattern", "Replacement"]

END = r"(?:\z)"
"""How the end of the text is spelled; Python says it in another way."""

_MOST = 1000
_HINT = (
    "use characters, ., [classes], ^, $, (groups), (?:groups), |, repetitions (* + ? {n,m}, also with ? behind them), "
    r"\d \w \s and their opposites, and \ before signs"
)
_CLASSES = {"d": [("0", "9")], "w": [("A", "Z"), ("_", "_"), ("a", "z"), ("0", "9")], "s": [("\t", "\r"), (" ", " ")]}
_POSIX = {
    "alpha": [("A", "Z"), ("a", "z")],
    "digit": [("0", "9")],
    "alnum": [("0", "9"), ("A", "Z"), ("a", "z")],
    "upper": [("A", "Z")],
    "lower": [("a", "z")],
    "space": [("\t", "\r"), (" ", " ")],
    "punct": [("!", "/"), (":", "@"), ("[", "`"), ("{", "~")],
    "xdigit": [("0", "9"), ("A", "F"), ("a", "f")],
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_REPEAT = re.compile(r"[*+?]|\{(\d+)(?:(,)(\d*))?\}")


@dataclass(frozen=True)
class Pattern:
    """A pattern in words that all engines share, how many groups it has, and whether it matches the empty text."""

    text: str
    groups: int
    can_be_empty: bool

    @staticmethod
    def read(pattern: str, *, any_case: bool = False) -> Pattern:
        """The pattern that a user wrote; SpecError where engines would read it in different ways."""
        reader = _Reader(pattern, any_case)
        part = reader.alternatives()
        if reader.position < len(pattern):
            raise reader.error("a closing parenthesis without an opening one")
        return Pattern(part.text, reader.groups, part.can_be_empty)


@dataclass(frozen=True)
class Replacement:
    r"""What stands in place of a match: ``\0`` for the match, ``\1`` for a group, ``\\`` for a backslash."""

    text: str

    @staticmethod
    def read(replacement: str, *, groups: int) -> Replacement:
        r"""The replacement that a user wrote, with ``\1`` … ``\9``, ``\&`` and ``\\``."""

        def part(found: re.Match[str]) -> str:
            sign = found[1]
            if sign == "&":
                return r"\0"
            if sign != "\\" and (not sign.isdecimal() or int(sign) not in range(1, groups + 1)):
                raise SpecError(
                    f"regex_replace: the replacement {replacement!r} has {found[0]!r}, and the pattern has "
                    f"{groups} group{'' if groups == 1 else 's'}",
                    hint=r"use \1 to \9 for groups, \& for the whole match, \\ for a backslash",
                )
            return found[0]

        return Replacement(re.sub(r"\\(.?)", part, replacement, flags=re.DOTALL))


@dataclass(frozen=True)
class _Part:
    """A piece of a pattern, whether it matches the empty text, and how often its inside can be repeated by counts."""

    text: str
    can_be_empty: bool
    weight: int = 1
    fixed: bool = False
    """It is a place in the text and cannot be repeated."""


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, any_case: bool) -> None:
        self.pattern, self.any_case = pattern, any_case
        self.position = 0
        self.groups = 0

    def error(self, problem: str) -> SpecError:
        """What is wrong at this place."""
        rest = self.pattern[self.position :]
        place = f" at {rest!r}" if rest else " at its end"
        return SpecError(f"regex_replace: the pattern {self.pattern!r} has {problem}{place}", hint=_HINT)

    def alternatives(self) -> _Part:
        """Sequences with bars between them, up to a closing parenthesis or the end."""
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        text = "|".join(part.text for part in parts)
        return _Part(text, any(part.can_be_empty for part in parts), max(part.weight for part in parts))

    def _sequence(self) -> _Part:
        parts = []
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            parts.append(self._repeated(self._atom()))
        weight = max((part.weight for part in parts), default=1)
        return _Part("".join(part.text for part in parts), all(part.can_be_empty for part in parts), weight)

    def _repeated(self, atom: _Part) -> _Part:
        found = _REPEAT.match(self.pattern, self.position)
        if found is None:
            if self.pattern[self.position : self.position + 1] == "{":
                raise self.error("a brace that counts nothing")
            return atom
        if atom.fixed:
            raise self.error("a repetition of a place")
        least, most = _bounds(found)
        if atom.can_be_empty and most != 1:
            raise self.error("a repetition of what may be nothing")
        weight = atom.weight * max(least, most or 1, 1)
        if weight > _MOST or (most is not None and most < least):
            raise self.error(f"a repetition that no engine counts (at most {_MOST})")
        self.position = found.end()
        lazy = "?" if self._take("?") else ""
        if self.pattern[self.position : self.position + 1] in ("*", "+", "?", "{"):
            raise self.error("a repetition of a repetition")
        return _Part(atom.text + found[0] + lazy, atom.can_be_empty or least == 0, weight)

    def _atom(self) -> _Part:
        sign = self.pattern[self.position]
        match sign:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise self.error("a repetition of nothing")
        self.position += 1
        if sign in _PLACES:
            return _Part(_PLACES[sign], True, fixed=True)
        return _Part("(?s:.)" if sign == "." else self._spelled([(sign, sign)]), False)

    def _group(self) -> _Part:
        opening = "(?:" if self.pattern.startswith("(?:", self.position) else "("
        if opening == "(" and self.pattern.startswith("(?", self.position):
            raise self.error("a group of a kind that not all engines have")
        start, self.position = self.position, self.position + len(opening)
        if opening == "(":
            self.groups += 1
        inner = self.alternatives()
        if not self._take(")"):
            self.position = start
            raise self.error("a parenthesis that is not closed")
        return _Part(f"{opening}{inner.text})", inner.can_be_empty, inner.weight)

    def _escape(self) -> _Part:
        word = self.pattern[self.position + 1 : self.position + 2]
        if word.lower() in _CLASSES and word:
            self.position += 2
            return _Part(self._spelled(_CLASSES[word.lower()], negated=word.isupper()), False)
        sign = self._escaped_sign()
        return _Part(self._spelled([(sign, sign)]), False)

    def _escaped_sign(self) -> str:
        """The character that a backslash and a sign mean."""
        word = self.pattern[self.position + 1 : self.position + 2]
        if not word or (word.isascii() and word.isalnum() and word not in _CONTROLS):
            raise self.error("a backslash that not all engines read alike")
        self.position += 2
        return _CONTROLS.get(word, word)

    def _class(self) -> _Part:
        start = self.position
        self.position += 1
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        first = True
        while first or not self._take("]"):
            first = False
            if self.position >= len(self.pattern):
                self.position = start
                raise self.error("a bracket that is not closed")
            ranges += self._class_item()
        return _Part(self._spelled(ranges, negated=negated), False)

    def _class_item(self) -> list[tuple[str, str]]:
        if named := re.compile(r"\[:(\w+):\]").match(self.pattern, self.position):
            if named[1] not in _POSIX:
                raise self.error("a class that is not known")
            self.position = named.end()
            return _POSIX[named[1]]
        if self.pattern.startswith(("[:", "[.", "[="), self.position):
            raise self.error("a class that is not known")
        word = self.pattern[self.position + 1 : self.position + 2]
        if self.pattern[self.position] == "\\" and word in _CLASSES:
            self.position += 2
            return _CLASSES[word]
        low = self._class_sign()
        rest = self.pattern[self.position : self.position + 2]
        if not rest.startswith("-") or rest == "-]":
            return [(low, low)]
        self.position += 1
        if self.position >= len(self.pattern):
            raise self.error("a bracket that is not closed")
        high = self._class_sign()
        if high < low:
            raise self.error(f"the range {low}-{high}, which goes backwards,")
        return [(low, high)]

    def _class_sign(self) -> str:
        if self.pattern[self.position] == "\\":
            return self._escaped_sign()
        self.position += 1
        return self.pattern[self.position - 1]

    def _spelled(self, ranges: list[tuple[str, str]], *, negated: bool = False) -> str:
        """A character, or a class of characters, in which capitals are named where they do not matter."""
        if self.any_case:
            ranges = [*ranges, *self._other_cases(ranges)]
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not negated:
            return _sign(ranges[0][0])
        shown = (_sign(low) if low == high else f"{_sign(low)}-{_sign(high)}" for low, high in ranges)
        return f"[{'^' if negated else ''}{''.join(shown)}]"

    def _other_cases(self, ranges: list[tuple[str, str]]) -> list[tuple[str, str]]:
        others = set()
        for low, high in ranges:
            if ord(high) - ord(low) > _MOST:
                raise self.error("a range too long to be read without regard to capitals")
            signs = [chr(code) for code in range(ord(low), ord(high) + 1)]
            swapped = {each for sign in signs for each in (sign.lower(), sign.upper()) if len(each) == 1}
            others |= swapped - set(signs)
        return [(sign, sign) for sign in sorted(others)]

    def _take(self, sign: str) -> bool:
        if not self.pattern.startswith(sign, self.position):
            return False
        self.position += len(sign)
        return True


_PLACES = {"^": r"(?:\A)", "$": END}


def _bounds(repeat: re.Match[str]) -> tuple[int, int | None]:
    """How often a repetition repeats at least, and at most unless there is no limit."""
    if repeat[0] in "*+?":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[repeat[0]]
    least = int(repeat[1])
    if repeat[2] is None:
        return least, least
    return least, int(repeat[3]) if repeat[3] else None


def _sign(sign: str) -> str:
    """One character, such that no engine takes it for anything else."""
    if sign.isascii() and not sign.isalnum() and sign not in " _":
        return f"\\{sign}" if sign.isprintable() else f"\\x{ord(sign):02X}"
    return sign
