"""Normalizers that read a value out of a text: instants, days, numbers, truth."""
# ruff: noqa: N801 - markers are written in lower case, as the functions they read like

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import ClassVar, Literal

from ..errors import SpecError, SpecTypeError
from ..types import Numeric
from .base import Marker, in_utc, literal

__all__ = [
    "DATE_FORMATS",
    "TIMESTAMP_FORMATS",
    "OnFailure",
    "parse_bool",
    "parse_date",
    "parse_int",
    "parse_numeric",
    "parse_timestamp",
]

OnFailure = Literal["null", "default", "error"]
"""What becomes of a value that cannot be parsed: NULL, a given value, or an error that ends the load."""

TIMESTAMP_FORMATS = (
    "YYYY-MM-DD HH24:MI:SS.MS",
    "YYYY-MM-DDTHH24:MI:SSOF",
    "YYYY-MM-DDTHH24:MI:SS",
    "YYYY-MM-DD HH24:MI:SS",
    "YYYY-MM-DD",
    "MM/DD/YYYY",
    "YYYY-MM-DDTHH24:MI:SS.MSOF",
    "YYYY-MM-DDTHH24:MI:SS.MS",
    "YYYY-MM-DD HH24:MI:SS.MSOF",
    "YYYY-MM-DD HH24:MI:SSOF",
)
"""The formats that `parse_timestamp` tries in order when none is named."""

DATE_FORMATS = ("YYYY-MM-DD", "YYYYMMDD", "MM/DD/YYYY")
"""The formats that `parse_date` tries in order when none is named."""


class _Attempt(Marker):
    """What the parsers with `on_failure` share; a NULL counts as a value that cannot be parsed."""

    on_failure: OnFailure
    default: object
    hook: ClassVar[str]
    example: ClassVar[str]

    def check_failure(self) -> None:
        """Refuse an `on_failure` that does not exist, or that does not go with the default."""
        name = type(self).__name__
        if self.on_failure not in ("null", "default", "error"):
            raise SpecError(f"{name}: on_failure cannot be {self.on_failure!r}", hint="use null, default or error")
        if (self.default is not None) != (self.on_failure == "default"):
            raise SpecError(
                f'{name}: on_failure="default" and a default belong together',
                hint=f'give both, for example on_failure="default", default={self.example}',
            )
        if self.default is not None:
            self.default_sql()

    def attempt_sql(self, col: str, *arguments: str) -> str:
        """The call of the hook, and what its failure becomes."""
        given = ", ".join((col, *arguments))
        if self.on_failure == "error":
            return f"{self.hook}_STRICT({given})"
        parsed = f"{self.hook}({given})"
        return parsed if self.on_failure == "null" else f"COALESCE({parsed}, {self.default_sql()})"

    @abstractmethod
    def default_sql(self) -> str:
        """The default as SQL text; SpecError where it is none for this parser."""


@dataclass(frozen=True)
class _Moment(_Attempt):
    """What `parse_timestamp` and `parse_date` share."""

    format: str | None = None
    _: KW_ONLY
    formats: Sequence[str] | None = None
    on_failure: OnFailure = "null"
    default: object = None

    example: ClassVar[str] = "date(1970, 1, 1)"
    usual_formats: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", self._chosen_formats())
        self.check_failure()
        if self.on_failure == "error" and len(self._templates) != 1:
            name = type(self).__name__
            raise SpecError(f'{name}: on_failure="error" needs exactly one format', hint='name it: format="YYYY-MM-DD"')

    def to_sql(self, col: str) -> str:
        return self.attempt_sql(col, *map(literal, self._templates))

    @property
    def _templates(self) -> tuple[str, ...]:
        if self.format is not None:
            return (self.format,)
        return self.usual_formats if self.formats is None else tuple(self.formats)

    def _chosen_formats(self) -> tuple[str, ...] | None:
        name = type(self).__name__
        if self.format is not None and self.formats is not None:
            raise SpecError(f"{name} takes format or formats, not both")
        if self.formats is not None and (isinstance(self.formats, str) or not self.formats):
            raise SpecError(f"{name}: formats is a list of at least one format, not {self.formats!r}")
        for template in self._templates:
            _check_template(name, template)
        return None if self.formats is None else tuple(self.formats)


@dataclass(frozen=True)
class parse_timestamp(_Moment):
    """The instant that the text names, read with ``format``, the first of ``formats`` that fits, or the usual ones.

    A format is made of YYYY, MM, DD, HH24, MI, SS, MS (the digits of a fraction), OF (an offset or ``Z``) and the
    characters between them; a text without an offset is in UTC. Impossible dates do not parse. Instants pass through.
    """

    hook: ClassVar[str] = "PARSE_TIMESTAMP"
    usual_formats: ClassVar[tuple[str, ...]] = TIMESTAMP_FORMATS

    def default_sql(self) -> str:
        return literal(_instant(type(self).__name__, self.default))


@dataclass(frozen=True)
class parse_date(_Moment):
    """The day that the text names, read as `parse_timestamp` reads an instant."""

    hook: ClassVar[str] = "PARSE_DATE"
    usual_formats: ClassVar[tuple[str, ...]] = DATE_FORMATS

    def default_sql(self) -> str:
        return literal(_instant(type(self).__name__, self.default).date())


@dataclass(frozen=True)
class parse_int(_Attempt):
    """The whole number that digits with or without a minus sign make; one of more than 64 bits does not parse.

    Numbers pass through where they are whole.
    """

    on_failure: OnFailure = "null"
    default: object = None

    hook: ClassVar[str] = "PARSE_INT"
    example: ClassVar[str] = "0"

    def __post_init__(self) -> None:
        self.check_failure()

    def to_sql(self, col: str) -> str:
        return self.attempt_sql(col)

    def default_sql(self) -> str:
        value = self.default
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise SpecError(f"parse_int: the default {value!r} is not a whole number of 64 bits")
        return literal(value)


@dataclass(frozen=True)
class parse_numeric(_Attempt):
    """The decimal that a text such as ``-12.50`` names, rounded to ``scale``; one with more digits does not parse.

    Numbers are rounded too, half away from zero.
    """

    precision: int
    scale: int
    on_failure: OnFailure = "null"
    default: object = None

    hook: ClassVar[str] = "PARSE_DECIMAL"
    example: ClassVar[str] = "0"

    def __post_init__(self) -> None:
        Numeric(self.precision, self.scale)
        if self.precision > 38:
            raise SpecError(f"parse_numeric: no engine has decimals of {self.precision} digits", hint="at most 38")
        self.check_failure()

    def to_sql(self, col: str) -> str:
        return self.attempt_sql(col, str(self.precision), str(self.scale))

    def default_sql(self) -> str:
        value = self.default
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
                raise InvalidOperation
            number = Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation:
            raise SpecError(f"parse_numeric: the default {value!r} is not a number") from None
        if not number.is_finite() or number.copy_abs() >= Decimal(10) ** (self.precision - self.scale):
            raise SpecError(f"parse_numeric: the default {value!r} does not fit {self.precision}, {self.scale}")
        return f"{self.hook}('{number:f}', {self.precision}, {self.scale})"


@dataclass(frozen=True)
class parse_bool(Marker):
    """True for a word of ``truthy``, false for one of ``falsy``, NULL for others; capitals do not matter."""

    truthy: Sequence[str] = ("true", "1", "yes", "y")
    falsy: Sequence[str] = ("false", "0", "no", "n")

    def __post_init__(self) -> None:
        for word in ("truthy", "falsy"):
            words = getattr(self, word)
            if isinstance(words, str) or not all(isinstance(each, str) for each in words):
                raise SpecTypeError(f"parse_bool: {word} is a list of words, not {words!r}")
            object.__setattr__(self, word, tuple(words))
        both = {each.lower() for each in self.truthy} & {each.lower() for each in self.falsy}
        if both or not (self.truthy or self.falsy):
            problem = f"{min(both)!r} is truthy and falsy" if both else "there are no words"
            raise SpecError(f"parse_bool: {problem}", hint="name each word once")

    def to_sql(self, col: str) -> str:
        words = [literal(f"+{each.lower()}") for each in self.truthy]
        words += [literal(f"-{each.lower()}") for each in self.falsy]
        return f"PARSE_BOOL({', '.join((col, *words))})"


def _instant(marker: str, value: object) -> datetime:
    """The moment that a parser's default means; a day means its midnight in UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, datetime):
        return in_utc(moment)
    if isinstance(moment, date):
        return datetime.combine(moment, time(), UTC)
    raise SpecError(f"{marker}: the default {value!r} is not a date or time", hint="use a date, a datetime or ISO text")


_TEMPLATE_PART = re.compile(r'(?P<field>YYYY|HH24|MM|DD|MI|SS|MS|OF)|"[^"]*"|[TZ]|[^A-Za-z"]')


def _check_template(marker: str, template: object) -> None:
    if not isinstance(template, str):
        raise SpecTypeError(f"{marker}: a format is text, not {template!r}", hint='write "YYYY-MM-DD"')
    fields, position = list[str](), 0
    while position < len(template):
        part = _TEMPLATE_PART.match(template, position)
        if part is None:
            raise SpecError(
                f"{marker}: the format {template!r} has an unknown part at {template[position:]!r}",
                hint="use YYYY MM DD HH24 MI SS MS OF, and put other letters in double quotes",
            )
        if field := part["field"]:
            fields.append(field)
        position = part.end()
    if len(set(fields)) < len(fields):
        raise SpecError(f"{marker}: the format {template!r} repeats a part", hint="name each part once")
    if not {"YYYY", "MM", "DD"} <= set(fields):
        raise SpecError(f"{marker}: the format {template!r} does not name a day", hint="name YYYY, MM and DD")
