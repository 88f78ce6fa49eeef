"""Normalizers in the words of engines that have CAST, TRY_CAST and TYPEOF: `CleaningDialect`.

Every branch must be sound for every type, because an engine reads all of them before it knows which one it takes: so
numbers are reached by way of their text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp

from ..types import (
    BigInt,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    Timestamp,
    TimestampTZ,
)
from .casting import CastingDialect
from .expression import call, choose, literal_text, one_of, plain_text, text_literal
from .hooks import DECLARED, INSTANT, Hook
from .template import FALSE_WORDS, TRUE_WORDS, Template, text_shape

__all__ = ["PLAIN_INTEGER", "PLAIN_NUMBER", "CleaningDialect", "working_type"]

PLAIN_INTEGER = "-?[0-9]+"
PLAIN_NUMBER = r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_OFFSET = r".*[0-9][0-9]:[0-9][0-9].*(?:Z|[+-][0-9][0-9](?::?[0-9][0-9])?) *"


class CleaningDialect(CastingDialect):
    """An engine that can say every normalizer exactly."""

    boolean_kind: str
    """What TYPEOF says of truth."""
    instant_kind: str
    """What TYPEOF says of instants."""

    lower_call: ClassVar[str | None] = None
    upper_call: ClassVar[str | None] = None
    """Functions that know the letters of all of Unicode, where the engine's own LOWER and UPPER do not."""

    def regex_replace(self, text: exp.Expr, pattern: str, replacement: str, *, everywhere: bool) -> exp.Expression:
        """The text with its matches replaced, by the pattern and replacement of `normalize.regex`."""
        flags = [text_literal("g")] if everywhere else []
        return call("REGEXP_REPLACE", text.copy(), text_literal(pattern), text_literal(replacement), *flags)

    def reshape(self, text: exp.Expr, template: Template, iso: str) -> exp.Expression:
        iso_text = call("REGEXP_REPLACE", text.copy(), text_literal(f"^{template.shape}$"), text_literal(iso))
        return choose((self.matches(text, template.shape), iso_text))

    @abstractmethod
    def round_float(self, number: exp.Expr, digits: int) -> exp.Expression:
        """A double rounded as it is written, half away from zero."""

    @abstractmethod
    def to_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        """The local time in a zone, of an instant that is given as its time in UTC."""

    @abstractmethod
    def from_local(self, moment: exp.Expr, zone: exp.Expr) -> exp.Expression:
        """The time in UTC, of a local time in a zone."""

    def random(self) -> exp.Expression:
        """A number from 0 up to, not including, 1, new for each row."""
        return call("RANDOM")

    def replacement(
        self, node: exp.Expr, values: Mapping[str, object], types: Mapping[str, ColumnType]
    ) -> exp.Expression | None:
        if isinstance(node, exp.Lower) and self.lower_call is not None:
            return self.lowered(node.this)
        if isinstance(node, exp.Upper) and self.upper_call is not None:
            return call(self.upper_call, node.this.copy())
        return super().replacement(node, values, types)

    def default_to(self, node: exp.Expr) -> exp.Expression:
        # A text in quotes takes the type of the column.
        value, given = node.expressions
        return call("COALESCE", value.copy(), text_literal(plain_text(given)))

    def hooks(self) -> Mapping[str, Hook]:
        return {
            **super().hooks(),
            "REGEX_REPLACE": self._regex_replace,
            "NULL_WHERE": self._null_where,
            "PARSE_INT": lambda node: self._parse_int(node.expressions[0]),
            "PARSE_INT_STRICT": self._strict_int,
            "PARSE_DECIMAL": lambda node: self._parse_numeric(*node.expressions),
            "PARSE_DECIMAL_STRICT": self._strict_numeric,
            "PARSE_BOOL": self._parse_bool,
            "ROUND_NUMBER": self._round,
            "CLAMP": self._clamp,
            "AT_ZONE": self._at_zone,
            "TRUNCATE_TIME": self._truncate_time,
            "RANDOM_FRACTION": lambda _: self.random(),
        }

    def text_of(self, value: exp.Expr) -> exp.Expression:
        """The value as text, in the form that all engines share."""
        return exp.Paren(this=value.copy()) if self.is_text(value) else self.shown(value)

    def lowered(self, text: exp.Expr) -> exp.Expression:
        """The text in lower case."""
        return exp.Lower(this=text.copy()) if self.lower_call is None else call(self.lower_call, text.copy())

    def _regex_replace(self, node: exp.Expr) -> exp.Expression:
        text, pattern, replacement, flags = node.expressions
        return self.regex_replace(text, pattern.name, replacement.name, everywhere=flags.name == "g")

    def _null_where(self, node: exp.Expr) -> exp.Expression:
        value, given = node.expressions
        return choose((self._says(value, given), exp.null()), default=value.copy())

    def _says(self, value: exp.Expr, given: exp.Expr) -> exp.Expr:
        """Whether the value, or what its text says, is the given one."""
        text = self.text_of(value)
        match given:
            case exp.Boolean():
                words = TRUE_WORDS if given.this else FALSE_WORDS
                return one_of(self.lowered(text), words)
            case exp.Cast():
                moment = self.parse_timestamp(value, _MOMENTS)
                return exp.EQ(this=moment, expression=self.convert(given.this, self.type_name(TimestampTZ())))
            case _:
                return self._equals(text, literal_text(given))

    def _equals(self, text: exp.Expr, number: str) -> exp.Expr:
        """Whether a text says a number: as a double, and to 18 digits behind the point where there is room for them."""
        shaped = self.matches(text, str(text_shape(Double())))
        same = [self._same(text, number, "DOUBLE")]
        if abs(float(number)) < 10**19:
            same.append(self._same(text, number, "DECIMAL(38, 18)"))
        return choose((shaped, exp.and_(*same)), default=exp.false())

    def _same(self, text: exp.Expr, number: str, kind: str) -> exp.Expr:
        said = self.convert(text, kind, attempt=True)
        return exp.EQ(this=said, expression=self.convert(text_literal(number), kind))

    def _parse_int(self, value: exp.Expr) -> exp.Expression:
        text = self.text_of(value)
        number = self.convert(self.convert(value, self.text_type), "DOUBLE", attempt=True)
        is_whole = exp.EQ(this=number, expression=call("FLOOR", number.copy()))
        of_float = choose((is_whole, self.convert(number, "BIGINT", attempt=True)))
        digits = call("REGEXP_REPLACE", text, text_literal(r"[.]0*$"), text_literal(""))
        of_number = choose((self.matches(digits, PLAIN_INTEGER), self.convert(digits, "BIGINT", attempt=True)))
        of_text = choose((self.matches(text, PLAIN_INTEGER), self.convert(text, "BIGINT", attempt=True)))
        if self.is_text(value):
            return of_text
        return choose(
            (self.is_kind(value, self.float_kinds), of_float),
            (self.is_kind(value, self.text_kinds), of_text),
            default=of_number,
        )

    def _strict_int(self, node: exp.Expr) -> exp.Expression:
        value = node.expressions[0]
        return self.strict(value, self._parse_int(value), "is not a whole number of 64 bits")

    def _parse_numeric(self, value: exp.Expr, precision: exp.Expr, scale: exp.Expr) -> exp.Expression:
        text = self.text_of(value)
        attempt = self.convert(text, f"DECIMAL({precision.name}, {scale.name})", attempt=True)
        of_text = choose((self.matches(text, PLAIN_NUMBER), attempt))
        if self.is_text(value):
            return of_text
        return choose((self.is_kind(value, self.text_kinds), of_text), default=attempt.copy())

    def _strict_numeric(self, node: exp.Expr) -> exp.Expression:
        value, precision, scale = node.expressions
        parsed = self._parse_numeric(value, precision, scale)
        return self.strict(value, parsed, f"is not a decimal of {precision.name} digits, {scale.name} behind the point")

    def _parse_bool(self, node: exp.Expr) -> exp.Expression:
        value, *words = node.expressions
        text = self.text_of(value)
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        if not self.is_text(value):
            typed = self.is_kind(value, (self.boolean_kind,))
            branches.append((typed, exp.EQ(this=text, expression=text_literal("true"))))
        for sign, truth in (("+", exp.true()), ("-", exp.false())):
            meant = [word.name[1:] for word in words if word.name.startswith(sign)]
            if meant:
                branches.append((one_of(self.lowered(text), meant), truth))
        return choose(*branches)

    def _round(self, node: exp.Expr) -> exp.Expression:
        value, digits = node.expressions[0], int(literal_text(node.expressions[1]))
        kind = working_type(node.meta.get(DECLARED))
        number = self.cast(value, kind)
        if isinstance(kind, Double):
            return self.round_float(number, digits)
        return call("ROUND", number, exp.Literal.number(digits))

    def _clamp(self, node: exp.Expr) -> exp.Expression:
        value, low, high = node.expressions
        kind = working_type(node.meta.get(DECLARED))
        number, least, most = (self.cast(each, kind) for each in (value, low, high))
        return choose(
            (exp.LT(this=number, expression=least), least.copy()),
            (exp.GT(this=number.copy(), expression=most), most.copy()),
            default=number.copy(),
        )

    def _at_zone(self, node: exp.Expr) -> exp.Expression:
        value, zone = node.expressions
        moment = self.convert(self.cast(value, TimestampTZ()), self.type_name(Timestamp()))
        local = self.to_local(moment, zone)
        if node.meta.get(INSTANT):
            return local
        text = self.convert(value, self.text_type)
        has_offset = exp.and_(self.is_kind(value, self.text_kinds), self.matches(text, _OFFSET))
        is_instant = self.is_kind(value, (self.instant_kind,))
        return choose((is_instant, local), (has_offset, local.copy()), default=self.from_local(moment, zone))

    def _truncate_time(self, node: exp.Expr) -> exp.Expression:
        value, period = node.expressions
        return call("DATE_TRUNC", period.copy(), self.cast(value, TimestampTZ()))


_MOMENTS = ("YYYY-MM-DD HH24:MI:SS.MSOF", "YYYY-MM-DDTHH24:MI:SS.MSOF", "YYYY-MM-DD HH24:MI:SSOF",
    "YYYY-MM-DDTHH24:MI:SSOF", "YYYY-MM-DD HH24:MI:SS.MS", "YYYY-MM-DDTHH24:MI:SS.MS", "YYYY-MM-DD HH24:MI:SS",
    "YYYY-MM-DDTHH24:MI:SS", "YYYY-MM-DD")  # fmt: skip


def working_type(declared: ColumnType | None) -> ColumnType:
    """The type in which numbers and times of a column are compared and rounded: wider than the declared one."""
    match declared:
        case Float() | Double():
            return Double()
        case Numeric(precision, scale):
            return Numeric(38, min(18, 38 - (precision - scale)))
        case Text() | String():
            return Text()
        case Date() | Timestamp() | TimestampTZ():
            return TimestampTZ()
        case SmallInt() | Integer() | BigInt() | None:
            return Numeric(38, 18)
        case _:
            return declared
