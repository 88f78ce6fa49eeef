"""Transforms of whole rows between cleaning and loading, as users declare them in ``transforms_pre=``."""
# ruff: noqa: N801 - transforms are written in lower case, as the functions they read like

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from ..errors import SpecError, SpecTypeError

__all__ = [
    "OrderTerm",
    "RowTransform",
    "deduplicate_by",
    "filter_where",
    "is_pipeline_transform",
    "limit",
    "sample_pct",
]


@dataclass(frozen=True)
class OrderTerm:
    """One term of an order: an SQL expression, its direction, and where NULL goes."""

    expression: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, init=False)
class deduplicate_by:
    """The first row for each combination of the key columns, in the order of ``order_by``.

    ``order_by`` is SQL in the words of the source, for example ``"updated_at DESC, id"``. NULL counts as the largest
    value unless ``NULLS FIRST`` or ``NULLS LAST`` is written. All columns break what ties are left, so that the same
    rows give the same result.
    """

    keys: tuple[str, ...]
    order_by: str | None = None
    is_random: ClassVar[bool] = False

    def __init__(self, *names: str, keys: Iterable[str] | None = None, order_by: str | None = None) -> None:
        if names and keys is not None:
            raise SpecTypeError("deduplicate_by: keys= and names say the same thing", hint="keep one of them")
        found = names if keys is None else ((keys,) if isinstance(keys, str) else tuple(keys))
        if not found:
            raise SpecError("deduplicate_by names no column", hint='write deduplicate_by("customer_id")')
        given: tuple[object, ...] = tuple(found)
        for name in given:
            if not isinstance(name, str) or not name.strip():
                raise SpecTypeError(f"deduplicate_by takes names of columns, not {name!r}")
        if len(set(found)) < len(found):
            raise SpecError(f"deduplicate_by: the keys {found!r} repeat a column", hint="name each column once")
        if order_by is not None:
            _check_sql("deduplicate_by", "order_by", order_by)
        object.__setattr__(self, "keys", tuple(found))
        object.__setattr__(self, "order_by", order_by)
        tuple(self.terms)

    @property
    def terms(self) -> tuple[OrderTerm, ...]:
        """The terms of the order."""
        return () if self.order_by is None else tuple(_term(part) for part in _split(self.order_by))

    @property
    def native(self) -> tuple[str, ...]:
        """The SQL that is the user's own."""
        return tuple(term.expression for term in self.terms)


@dataclass(frozen=True)
class filter_where:
    """The rows for which an SQL condition, in the words of the source, is true."""

    expr: str
    is_random: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_sql("filter_where", "the condition", self.expr)

    @property
    def native(self) -> tuple[str, ...]:
        """The SQL that is the user's own."""
        return (self.expr,)


@dataclass(frozen=True)
class limit:
    """At most ``n`` rows, whichever come first."""

    n: int
    native: ClassVar[tuple[str, ...]] = ()
    is_random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int):
            raise SpecTypeError(f"limit takes a whole number, not {self.n!r}")
        if self.n < 0:
            raise SpecError(f"limit: there are no {self.n} rows", hint="give 0 or more")


@dataclass(frozen=True)
class sample_pct:
    """Each row with probability ``p``, a fraction from 0 to 1, whatever happens to the others."""

    p: float
    native: ClassVar[tuple[str, ...]] = ()
    is_random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, int | float):
            raise SpecTypeError(f"sample_pct takes a number, not {self.p!r}")
        if not 0 <= self.p <= 1:
            raise SpecError(f"sample_pct: {self.p!r} is no fraction", hint="give 0.1 for a tenth of the rows")


RowTransform = deduplicate_by | filter_where | limit | sample_pct


def is_pipeline_transform(value: object) -> TypeGuard[RowTransform]:
    """Whether ``value`` can stand in ``transforms_pre=``."""
    return isinstance(value, RowTransform)


_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`""")
_DIRECTION = re.compile(r"(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$", re.IGNORECASE)


def _term(text: str) -> OrderTerm:
    found = _DIRECTION.search(text)
    assert found is not None
    expression = text[: found.start()].strip()
    if not expression:
        raise SpecError("deduplicate_by: order_by has an empty term", hint='write "updated_at DESC, id"')
    descending = (found[1] or "").lower() == "desc"
    return OrderTerm(expression, descending, found[2].lower() == "first" if found[2] else descending)


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no parentheses and no quotes."""
    start = depth = position = 0
    while position < len(text):
        if quoted := _QUOTED.match(text, position):
            position = quoted.end()
            continue
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(text[position], 0)
        if text[position] == "," and depth == 0:
            yield text[start:position]
            start = position + 1
        position += 1
    yield text[start:]


def _check_sql(transform: str, what: str, text: object) -> None:
    if not isinstance(text, str):
        raise SpecTypeError(f"{transform}: {what} is SQL text, not {text!r}")
    if not text.strip():
        raise SpecError(f"{transform}: {what} is empty", hint="write an SQL expression over the columns")
