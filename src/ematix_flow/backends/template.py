"""What texts must look like, as regular expressions, so that every engine reads them alike: formats and types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..errors import SpecError
from ..types import (
    UUID,
    BigInt,
    Boolean,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    Timestamp,
    TimestampTZ,
)

__all__ = ["FALSE_WORDS", "TRUE_WORDS", "Template", "text_shape"]

TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")


@dataclass(frozen=True)
class Template:
    """A format such as ``YYYY-MM-DD HH24:MI:SS`` as the shape that texts must have and as what they mean in ISO form.

    ``shape`` is a regular expression with one group per part, as RE2, Java and Python read it; the other two
    are replacements over its groups. A text without offset is in UTC; a final ``Z`` may follow seconds.
    """

    shape: str
    timestamp: str
    date: str

    @staticmethod
    @lru_cache(maxsize=256)
    def of(template: str) -> Template:
        """The template that a format describes."""
        shape, groups, position = "", dict[str, int](), 0
        while position < len(template):
            part = _PART.match(template, position)
            if part is None or part["field"] in groups:
                raise SpecError(
                    f"the format {template!r} cannot be read at {template[position:]!r}",
                    hint="use YYYY MM DD HH24 MI SS MS OF, each once, and put other letters in double quotes",
                )
            if field := part["field"]:
                groups[field] = len(groups) + 1
                shape += _SHAPES[field]
            else:
                shape += re.escape(part[0].strip('"') if part[0].startswith('"') else part[0])
            position = part.end()
        if not {"YYYY", "MM", "DD"} <= set(groups):
            raise SpecError(f"the format {template!r} does not name a day", hint="name YYYY, MM and DD")
        if "SS" in groups and "OF" not in groups:
            shape += "Z?"
        return Template(shape, *_iso(groups))


_PART = re.compile(r'(?P<field>YYYY|HH24|MM|DD|MI|SS|MS|OF)|"[^"]*"|[TZ]|[^A-Za-z"]')
_SHAPES = {
    "YYYY": "([0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})",
    "MM": "(0[1-9]|1[0-2])",
    "DD": "(0[1-9]|[12][0-9]|3[01])",
    "HH24": "([01][0-9]|2[0-3])",
    "MI": "([0-5][0-9])",
    "SS": "([0-5][0-9])",
    "MS": "([0-9]{1,6})[0-9]*",
    "OF": "(Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)",
}


def _iso(groups: Mapping[str, int]) -> tuple[str, str]:
    """What the groups mean, in the order of ISO; parts that are missing are zero."""

    def part(field: str, missing: str) -> str:
        return f"\\{groups[field]}" if field in groups else missing

    date = f"{part('YYYY', '')}-{part('MM', '')}-{part('DD', '')}"
    time = f"{part('HH24', '00')}:{part('MI', '00')}:{part('SS', '00')}.{part('MS', '0')}"
    return f"{date} {time}{part('OF', 'Z')}", date


def text_shape(type: ColumnType) -> str | None:
    """What a text must look like to be read as a value of the type, spaces at its ends aside; None if all texts are."""
    return _TEXTS.get(type.kind)


_DAY = "-".join(_SHAPES[part] for part in ("YYYY", "MM", "DD"))
_MOMENT = f"{_DAY}(?:[ T]{_SHAPES['HH24']}:{_SHAPES['MI']}(?::{_SHAPES['SS']}(?:\\.[0-9]{{1,9}})?)?{_SHAPES['OF']}?)?"
_WHOLE = r"[+-]?[0-9]+(?:\.0*)?(?:[eE]\+?[0-9]{1,2})?"
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_FLOAT = rf"{_NUMBER}|(?i:[+-]?inf(?:inity)?|nan)"
_TEXTS = {
    **dict.fromkeys((SmallInt.kind, Integer.kind, BigInt.kind), _WHOLE),
    Numeric.kind: _NUMBER,
    **dict.fromkeys((Float.kind, Double.kind), _FLOAT),
    Boolean.kind: f"(?i:{'|'.join((*TRUE_WORDS, *FALSE_WORDS))})",
    **dict.fromkeys((Date.kind, Timestamp.kind, TimestampTZ.kind), _MOMENT),
    UUID.kind: "-".join(f"[0-9a-fA-F]{{{count}}}" for count in (8, 4, 4, 4, 12)),
}
