"""How SQL engines spell types, casts, instants, hashes and parsing: `Dialect`, one file per engine.

A query is written once without a dialect; `Dialect.render` fills in the values of the run and replaces the calls that
no two engines share (`ROW_HASH`, and the hooks of normalizers such as `PARSE_TIMESTAMP`) before it renders the text.
What an engine cannot say exactly it does not say: `Dialect.missing` names it, and the planner lets Spark do the work.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Self

from sqlglot import exp

from ..errors import UnsupportedError
from ..types import (
    UUID,
    BigInt,
    ColumnType,
    Numeric,
    String,
    Text,
)
from .expression import call, choose, first_characters, joined, text_literal
from .hooks import HOOKS, IS_TEXT, KIND, TEXT_CALLS, Hook

__all__ = ["Dialect", "KnownTypes", "utc_text"]

KnownTypes = Mapping[str, ColumnType | type[Numeric] | type[String]]
"""Types by the name an engine reports; a class takes the parameters of the name."""


class Dialect(ABC):
    """How one SQL engine spells things; subclasses state facts."""

    name: ClassVar[str]
    """What sqlglot calls the engine."""
    type_names: ClassVar[Mapping[str, str]]
    """Per kind of type, the name in DDL."""
    known_types: ClassVar[KnownTypes]
    max_precision: ClassVar[int | None] = 38
    _kinds: Mapping[str, str] = {}

    def knowing(self, kinds: Mapping[str, str]) -> Self:
        """This dialect for rows whose columns have these types, in the engine's own words."""
        knowing = copy.copy(self)
        knowing._kinds = {name.casefold(): kind for name, kind in kinds.items()}
        return knowing

    def source_column(self, name: str) -> exp.Column:
        """A column of the source's rows, with its type where that is known."""
        column = exp.column(name, quoted=True)
        column.meta[KIND] = self._kinds.get(name.casefold()) or None
        return column

    def quote(self, *parts: str) -> str:
        """A name, or a dotted path of names, as an identifier."""
        return ".".join(exp.Identifier(this=part, quoted=True).sql(self.name) for part in parts)

    def type_name(self, type: ColumnType) -> str:
        """The type in DDL."""
        if isinstance(type, Numeric) and self.max_precision is not None and type.precision > self.max_precision:
            raise UnsupportedError(
                f"{self.name} has no decimals of {type.precision} digits", hint=f"at most {self.max_precision}"
            )
        parameters = {key: value for key, value in type.to_spec().items() if key != "kind"}
        return self.type_names[type.kind].format(**parameters)

    def stored_type(self, type: ColumnType) -> ColumnType:
        """The type as reflection reports it once a column was created with it."""
        return self.column_type(self.type_name(type)) or type

    def column_type(self, declared: str) -> ColumnType | None:
        """The type that the engine's own name for it means; None outside the catalogue."""
        match = re.fullmatch(r"\s*([^()]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", declared.upper())
        if match is None:
            return None
        name, first, second = match.groups()
        known = self.known_types.get(name)
        if isinstance(known, ColumnType) or known is None:
            return known
        if first is None:
            return None
        return Numeric(int(first), int(second or 0)) if known is Numeric else String(int(first))

    @abstractmethod
    def cast(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """The value in a declared type: a value that does not fit is an error, never NULL and never cut.

        A number is rounded to the declared scale, half away from zero, and a timestamp gives its day; an integer
        refuses a fraction and ``String`` a longer text.
        """

    @abstractmethod
    def instant(self, value: datetime) -> exp.Expression:
        """A moment in time as a typed literal."""

    def compared_type(self, type: ColumnType) -> ColumnType:
        """The type in which values are compared: another where the engine cannot compare its own."""
        return type

    def compared(self, value: exp.Expression, type: ColumnType) -> exp.Expression:
        """A value of a declared type, in the type that it is compared in."""
        return value

    def literal(self, text: str, type: ColumnType) -> exp.Expression:
        """A value that is given as its canonical text."""
        return self.cast(text_literal(text), type)

    @abstractmethod
    def text(self, value: exp.Expr, type: ColumnType) -> exp.Expression:
        """The canonical text of a value of a declared type, for hashing; NULL stays NULL."""

    @abstractmethod
    def sha256(self, text: exp.Expr) -> exp.Expression:
        """The 32 bytes of the digest."""

    @abstractmethod
    def parse_timestamp(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        """The instant that a text means by the first format that fits; NULL where none does. Instants pass through."""

    @abstractmethod
    def parse_date(self, value: exp.Expr, formats: Sequence[str]) -> exp.Expression:
        """The day that a text means by the first format that fits; NULL where none does. Days pass through."""

    @abstractmethod
    def refuse(self, message: exp.Expr) -> exp.Expression:
        """An expression that ends the query with an error when it is evaluated."""

    def misses(self, value: exp.Expr, type: ColumnType) -> exp.Expr | None:
        """Whether the value does not fit a type; None where the engine names such a value itself. May be slow."""
        return None

    def concat(self, parts: Sequence[exp.Expr]) -> exp.Expression:
        """Texts one after the other; none of them is NULL."""
        return joined(parts)

    def row_hash(self, columns: Iterable[exp.Expr], types: Mapping[str, ColumnType]) -> exp.Expression:
        """SHA-256 over the columns: `N` for NULL, else length and canonical text, so that none can run together."""
        return self.sha256(self.concat([self._hashed(column, types[column.name]) for column in columns]))

    def render(self, query: exp.Expr, values: Mapping[str, object], types: Mapping[str, ColumnType]) -> str:
        """The query as text, with the run's values and every hook in this engine's words; `query` is left as it is."""
        root = query.copy()
        # The deepest first: a hook may stand inside the argument of another.
        for node in reversed(list(root.find_all(exp.Placeholder, exp.Func))):
            new = self.replacement(node, values, types)
            if new is None:
                continue
            if node is root:
                root = new
            else:
                node.replace(new)
        return root.sql(self.name, copy=False)

    def replacement(
        self, node: exp.Expr, values: Mapping[str, object], types: Mapping[str, ColumnType]
    ) -> exp.Expression | None:
        """What this engine says in place of a value or a function; None where it says the same."""
        if isinstance(node, exp.Placeholder):
            if node.name in values:
                return self._value(node.name, values[node.name], types)
            return exp.Var(this=f":{node.name}")  # one spelling for a value that only a run knows
        if not isinstance(node, exp.Anonymous):
            return None
        name = node.name.upper()
        hooks: dict[str, Hook] = {
            "ROW_HASH": lambda node: self.row_hash(node.expressions, types),
            "PARSE_TIMESTAMP": lambda node: self.parse_timestamp(*_parse_arguments(node)),
            "PARSE_DATE": lambda node: self.parse_date(*_parse_arguments(node)),
            "PARSE_TIMESTAMP_STRICT": lambda node: self._strict_moment(self.parse_timestamp, node),
            "PARSE_DATE_STRICT": lambda node: self._strict_moment(self.parse_date, node),
            **self.hooks(),
        }
        if name in HOOKS and name not in hooks:
            raise UnsupportedError(f"{self.name} has no exact form of {HOOKS[name]}", hint="let Spark do it")
        return hooks[name](node) if name in hooks else None

    def hooks(self) -> Mapping[str, Hook]:
        """The hooks of normalizers that this engine can say, each with what it says."""
        return {"TEXT_OF": self._text_of, "DEFAULT_TO": self.default_to, "FIRST_CHARACTERS": first_characters}

    def missing(self, query: exp.Expr) -> tuple[str, ...]:
        """What normalizers and transforms in a query ask for and this engine has no exact form of."""
        called = {node.name.upper() for node in query.find_all(exp.Anonymous)}
        return tuple({HOOKS[name]: None for name in HOOKS if name in called and name not in self.hooks()})

    def default_to(self, node: exp.Expr) -> exp.Expression:
        """A value in place of NULL."""
        return call("COALESCE", *(each.copy() for each in node.expressions))

    def _text_of(self, node: exp.Expr) -> exp.Expression:
        value = node.expressions[0]
        return exp.Paren(this=value.copy()) if self.is_text(value) else self.cast(value, Text())

    def is_text(self, value: exp.Expr) -> bool:
        """Whether the expression is known to give text."""
        match value:
            case exp.Literal():
                return bool(value.is_string)
            case exp.Trim() | exp.Lower() | exp.Upper() | exp.Replace():
                return True
            case exp.Paren() | exp.Nullif() | exp.Coalesce():
                return self.is_text(value.this)
            case exp.Case():
                return value.args.get("default") is not None and self.is_text(value.args["default"])
            case exp.Anonymous():
                name = value.name.upper()
                inner = name in ("DEFAULT_TO", "NULL_WHERE") and self.is_text(value.expressions[0])
                return name in TEXT_CALLS or inner
            case _:
                return bool(value.meta.get(IS_TEXT))

    def _value(self, name: str, value: object, types: Mapping[str, ColumnType]) -> exp.Expression:
        if value is None:
            return exp.null()
        if isinstance(value, exp.Expression):
            return value.copy()
        if isinstance(value, datetime):
            return self.instant(value)
        if name == "run_id":
            return self.literal(str(value), types.get("_batch_id", UUID()))
        return exp.Literal.number(value) if isinstance(value, int) else text_literal(str(value))

    def _hashed(self, column: exp.Expr, type: ColumnType) -> exp.Expression:
        text = self.text(column, type)
        sized = self.concat([self.text(call("LENGTH", text.copy()), BigInt()), text_literal(":"), text])
        return choose((exp.Is(this=column.copy(), expression=exp.null()), text_literal("N")), default=sized)

    def strict(self, value: exp.Expr, parsed: exp.Expr, problem: str) -> exp.Expression:
        """What was parsed of the value, which is refused where that is NULL and the value is not."""
        message = self.concat([text_literal(f"{problem}: "), self.cast(value, Text())])
        is_null = exp.Is(this=value.copy(), expression=exp.null())
        return choose((is_null, exp.null()), default=call("COALESCE", parsed, self.refuse(message)))

    def _strict_moment(
        self, parse: Callable[[exp.Expr, Sequence[str]], exp.Expression], node: exp.Expr
    ) -> exp.Expression:
        value, formats = _parse_arguments(node)
        return self.strict(value, parse(value.copy(), formats), f"does not fit the format {formats[0]}")


def utc_text(value: datetime) -> str:
    """An instant as fixed-width text in UTC."""
    if value.tzinfo is None:
        raise ValueError(f"an instant needs a time zone: {value!r}")
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")


def _parse_arguments(node: exp.Expr) -> tuple[exp.Expr, tuple[str, ...]]:
    value, *formats = node.expressions
    return value, tuple(literal.name for literal in formats)
