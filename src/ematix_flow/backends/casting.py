"""Casts, texts and parsing in the words of engines that have CAST, TRY_CAST and TYPEOF: `CastingDialect`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from sqlglot import exp

from ..types import (
    BigInt,
    Boolean,
    Bytes,
    ColumnType,
    Date,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInt,
    String,
    Text,
    TimestampTZ,
)
from .dialect import Dialect, utc_text
from .expression import call, cast_to, choose, one_of, text_literal
from .hooks import KIND
from .template import TRUE_WORDS, Template, text_shape

__all__ = ["CastingDialect"]


class CastingDialect(Dialect):
    """An engine with CAST, TRY_CAST and TYPEOF, which the planner knows, so that branches for other types are free."""

    text_type: ClassVar[str]
    whole_types: ClassVar[tuple[str, ...]]
    """What TYPEOF says of integers and booleans."""
    time_types: ClassVar[tuple[str, ...]]
    """What TYPEOF says of days and instants."""

    text_kinds: ClassVar[tuple[str, ...]]
    """What TYPEOF says of texts."""
    float_kinds: ClassVar[tuple[str, ...]]
    """What TYPEOF says of numbers of single and of double precision."""

    def is_text(self, value: exp.Expr) -> bool:
        return self.known_kind(value) in self.text_kinds or super().is_text(value)

    @abstractmethod
    def matches(self, text: exp.Expr, shape: str) -> exp.Expression:
        """Whether the whole text has the shape of a regular expression."""

    def concat(self, parts: Sequence[exp.Expr]) -> exp.Expression:
        # Flat: Spark's parser takes time and memory without bound for parentheses inside parentheses.
        return call("CONCAT", *parts)

    @abstractmethod
    def reshape(self, text: exp.Expr, template: Template, iso: str) -> exp.Expression:
        """The text in ISO form; NULL where it has not the template's shape."""

    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        typed = self.cast_typed(value, type)
        shape = text_shape(type)
        if shape is None:
            return typed
        text = call("TRIM", self.convert(value, self.text_type))
        alien = exp.Not(this=self.matches(text, shape))
        read = choose((alien, self.misfit(value, type)), default=self.cast_text(text.copy(), type))
        return choose((self.is_kind(value, self.text_kinds), read), default=typed)

    def cast_text(self, text: exp.Expr, type: ColumnType) -> exp.Expression:
        """The value that a text of the type's shape means."""
        match type:
            case SmallInt() | Integer() | BigInt():
                return self.convert(self.convert(text, "DECIMAL(38, 9)"), self.type_name(type))
            case Float() | Double():
                return self._bounded(text, type)
            case Boolean():
                return exp.Paren(this=one_of(call("LOWER", text.copy()), TRUE_WORDS))
            case Date():
                day = call("SUBSTR", text.copy(), exp.Literal.number(1), exp.Literal.number(10))
                return self.convert(day, self.type_name(type))
            case _:
                return self.convert(text, self.type_name(type))

    def cast_typed(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """The value in a declared type, where it is no text or any text will do."""
        plain = self.convert(value, self.type_name(type))
        match type:
            case SmallInt() | Integer() | BigInt():
                # A float becomes a decimal only roughly, and some types become no float: so by way of its text.
                number = self.convert(self.convert(value, self.text_type), "DOUBLE")
                exact = self.convert(value, "DECIMAL(38, 9)")
                return choose(
                    (self.is_kind(value, self.whole_types), plain),
                    (self.is_kind(value, self.float_kinds), self._whole(number, plain, value, type)),
                    default=self._whole(exact, self.convert(exact, self.type_name(type)), value, type),
                )
            case Float():
                wide = self.is_kind(value, self.float_kinds[1:])
                return choose((wide, self._bounded(value, type)), default=plain)
            case Text():
                return self.shown(value)
            case String(length):
                text = self.shown(value)
                too_long = exp.GT(this=call("LENGTH", text), expression=exp.Literal.number(length))
                return choose((too_long, self.misfit(value, type)), default=text.copy())
            case _:
                return plain

    def shown(self, value: exp.Expr) -> exp.Expression:
        """The value as text, in the form that all engines share."""
        return self.convert(value, self.text_type)

    def instant(self, value: datetime) -> exp.Expression:
        return self.convert(text_literal(utc_text(value) + "+00:00"), self.type_name(TimestampTZ()))

    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        plain = self.convert(value, self.text_type)
        match type:
            case Bytes():
                return call("LOWER", call("HEX", value.copy()))
            case Float() | Double():
                zero = exp.EQ(this=value.copy(), expression=exp.Literal.number(0))
                nan = call("ISNAN", value.copy())
                return choose((nan, text_literal("nan")), (zero, text_literal("0")), default=plain)
            case Numeric():
                return self.convert(self.convert(value, self.type_name(type)), self.text_type)
            case _:
                return plain

    def parse_timestamp(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        templates = [Template.of(template) for template in formats]
        return self._parse(value, [(template, template.timestamp) for template in templates], TimestampTZ())

    def parse_date(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        templates = [Template.of(template) for template in formats]
        return self._parse(value, [(template, template.date) for template in templates], Date())

    def convert(self, value: exp.Expr, type_name: str, *, attempt: bool = False) -> exp.Expression:
        """A CAST to one of the engine's own types; `attempt` gives NULL where it fails."""
        plain = cast_to(value, type_name)
        # Without `safe`, sqlglot writes a plain CAST for Spark.
        return exp.TryCast(this=plain.this, to=plain.to, safe=True) if attempt else plain

    def kind(self, value: exp.Expr) -> exp.Expression:
        """The name of the value's own type."""
        return call("TYPEOF", value.copy())

    def is_kind(self, value: exp.Expr, kinds: Sequence[str]) -> exp.Expr:
        """Whether the value's own type is one of these: asked of the engine only where it is not known."""
        known = self.known_kind(value)
        if known is None:
            return one_of(self.kind(value), kinds)
        return exp.true() if known in kinds else exp.false()

    def known_kind(self, value: exp.Expr) -> str | None:
        """What TYPEOF would say, where that is known."""
        while isinstance(value, exp.Paren):
            value = value.this
        is_literal = isinstance(value, exp.Literal) and value.is_string
        return self.text_kinds[0] if is_literal else value.meta.get(KIND)

    def misfit(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """Refuses a value that does not fit a declared type."""
        message = self.concat([text_literal(f"a value does not fit {type}: "), self.convert(value, self.text_type)])
        return self.convert(self.refuse(message), self.type_name(type))

    def _whole(self, number: exp.Expr, whole: exp.Expr, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """`whole`, where the number has no fraction."""
        fraction = exp.NEQ(this=number.copy(), expression=call("FLOOR", number.copy()))
        return choose((fraction, self.misfit(value, type)), default=whole.copy())

    def _bounded(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """The value as a float, infinite only where the value says so itself."""
        number = self.convert(value, self.type_name(type))
        infinity = self.convert(text_literal("inf"), self.type_name(type))
        infinite = exp.EQ(this=call("ABS", number), expression=infinity)
        meant = self.matches(self.convert(value, self.text_type), "[+-]?[iI].*")
        checked = choose((meant, number.copy()), default=self.misfit(value, type))
        return choose((infinite, checked), default=number.copy())

    def _parse(self, value: exp.Expr, templates: Sequence[tuple[Template, str]], type: ColumnType) -> exp.Expression:
        name = self.type_name(type)
        text = self.convert(value, self.text_type)
        attempts = [self.convert(self.reshape(text, template, iso), name, attempt=True) for template, iso in templates]
        typed = self.is_kind(value, self.time_types)
        return choose((typed, self.convert(value, name, attempt=True)), default=call("COALESCE", *attempts))
