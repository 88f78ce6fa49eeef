"""Normalizers as a query: every column's chain applied to the rows called `_source`.

A chain that mentions its value more than once, or holds the user's own SQL, is cut into steps, each a query over the
one before: expressions inside expressions would double with every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from ..backends.dialect import Dialect
from ..backends.hooks import DECLARED, INSTANT, IS_TEXT
from ..errors import SpecError
from ..normalize import Normalizer, check_chain, is_native, is_normalizer, parse_timestamp
from ..normalize.base import applied
from ..spec.table import Column

__all__ = ["SOURCE", "cleaned_rows", "named", "native_sql"]

SOURCE = "_source"
STEP = "_step"


def cleaned_rows(
    columns: Sequence[Column], names: Mapping[str, str], carried: Sequence[str], dialect: Dialect
) -> exp.Select:
    """The columns, cleaned, and what else is `carried` of the source; `names` are the source's for the columns."""
    chains = [_chain(column, names.get(column.name), at, dialect) for at, column in enumerate(columns)]
    depth = max((len(chain.steps) for chain in chains), default=0)
    raw = list(dict.fromkeys((*names.values(), *carried)))
    rows: exp.Expr = exp.table_(SOURCE, quoted=True)
    for layer in range(depth):
        shown: list[exp.Expr] = [exp.column(name, quoted=True) for name in raw]
        shown += [chain.at(layer) for chain in chains if chain.steps]
        rows = exp.select(*shown, copy=False).from_(rows, copy=False).subquery(f"{STEP}_{layer + 1}", copy=False)
    declared = {column.name.casefold() for column in columns}
    kept = [exp.column(name, quoted=True) for name in carried if name.casefold() not in declared]
    final = [named(chain.last, column.name) for chain, column in zip(chains, columns, strict=True)]
    return exp.select(*final, *kept, copy=False).from_(rows, copy=False)


def named(value: exp.Expr, name: str) -> exp.Expr:
    """The value under a name; a column never under its own, which Spark cannot always resolve."""
    return value if isinstance(value, exp.Column) and value.name == name else exp.alias_(value, name, quoted=True)


def native_sql(columns: Sequence[Column]) -> list[tuple[Column, object]]:
    """The columns whose value is the user's own SQL, each with the marker that says so."""
    return [(column, marker) for column in columns for marker in column.normalizers if is_native(marker)]


@dataclass(frozen=True)
class _Chain:
    """A column's value: what each step makes, and what the last one does."""

    working_name: str
    steps: tuple[exp.Expr, ...]
    last: exp.Expr

    def at(self, layer: int) -> exp.Expr:
        """What the column is in a layer; a chain that ended before passes its value on."""
        if layer >= len(self.steps):
            return exp.column(self.working_name, quoted=True)
        return exp.alias_(self.steps[layer], self.working_name, quoted=True)


def _chain(column: Column, source_name: str | None, at: int, dialect: Dialect) -> _Chain:
    check_chain(column.normalizers, column.type)
    working_name = f"_value_{at + 1}"
    value: exp.Expr = exp.cast(exp.null(), "text") if source_name is None else dialect.source_column(source_name)
    steps: list[exp.Expr] = []
    is_instant = False
    for marker in column.normalizers:
        assert is_normalizer(marker)
        starts_anew = getattr(marker, "derives", False)
        if not isinstance(value, exp.Column) and not getattr(marker, "light", False) and not starts_anew:
            steps.append(value)
            is_text = dialect.is_text(value)
            value = exp.column(working_name, quoted=True)
            value.meta[IS_TEXT] = is_text
        value = _own(marker, value, dialect) if is_native(marker) else _translated(marker, value)
        for hook in value.find_all(exp.Anonymous):
            hook.meta[DECLARED] = column.type
            hook.meta[INSTANT] = is_instant
        is_instant = is_instant or isinstance(marker, parse_timestamp)
    return _Chain(working_name, tuple(steps), value)


def _own(marker: Normalizer, value: exp.Expr, dialect: Dialect) -> exp.Expr:
    """The user's own SQL, to the letter; on lines of its own, so that a comment ends with it."""
    return exp.Paren(this=exp.Var(this=f"\n{applied(marker, value.sql(dialect.name))}\n"))


def _translated(marker: Normalizer, value: exp.Expr) -> exp.Expr:
    tree = _parsed(applied(marker, f'"{_HOLE}"')).copy()
    holes = [node for node in tree.find_all(exp.Column) if node.name == _HOLE]
    for hole in holes:
        if hole is tree:
            return value
        hole.replace(value.copy())
    return tree


_HOLE = "_normalized_value"


@lru_cache(maxsize=512)
def _parsed(text: str) -> exp.Expr:
    try:
        return parse_one(text, read="postgres")
    except SqlglotError as error:
        raise SpecError(f"a normalizer gave SQL that cannot be read: {text}", hint="return Postgres SQL") from error
