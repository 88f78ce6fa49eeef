"""A declared table against the table that exists: what the load adds, what differs, what must change."""

from __future__ import annotations

from dataclasses import replace

from ..backends.base import Actual, ActualColumn, Backend, SchemaChange
from ..errors import DriftError
from ..spec.pipeline import DriftPolicy
from ..spec.table import Column, Table
from ..strategies.base import Strategy

__all__ = ["augment", "differences", "plan_schema"]


def augment(table: Table, strategy: Strategy) -> Table:
    """The table with the columns its strategy adds.

    A table that keeps history holds many versions of one row, so its unique groups cannot be constraints there.
    """
    added = [
        Column(added.type, nullable=added.nullable, primary_key=added.primary_key, name=added.name)
        for added in strategy.adds
    ]
    whole = table.with_columns(added)
    return replace(whole, unique=()) if strategy.keeps_history else whole


def plan_schema(
    table: Table, keys: tuple[str, ...], actual: Actual | None, backend: Backend, policy: DriftPolicy
) -> tuple[SchemaChange | None, tuple[str, ...]]:
    """The change to make before rows fit and the differences to report, or DriftError where `policy` refuses them."""
    if actual is None:
        return SchemaChange(table, create=True, indexes=_lookups(table, keys)), ()
    found = differences(table, actual, backend)
    if not found:
        return None, ()
    missing = [name for name in table.column_names if name not in actual.column_names]
    addable = [name for name in missing if table.column(name).nullable]
    rest = [line for line in found if line not in {_missing_line(name) for name in addable}]
    if policy == "evolve" and not rest:
        return SchemaChange(table, add=tuple(addable)), tuple(f"added column {name!r}" for name in addable)
    if policy == "warn" and not missing:
        return None, tuple(found)
    raise DriftError(
        f"table {table.qualified_name!r} is not what was declared:",
        found,
        hint=_hint(policy, missing, addable, rest),
        declared_at=table.declared_at,
    )


def differences(table: Table, actual: Actual, backend: Backend) -> list[str]:
    """One line for each way in which the existing table is not the declared one."""
    existing = {column.name: column for column in actual.columns}
    lines = [_missing_line(name) for name in table.column_names if name not in existing]
    lines += [
        f"column {name!r} is in the table but not declared" for name in existing if name not in table.column_names
    ]
    for column in table.columns:
        if column.name in existing:
            lines += _column_differences(column, existing[column.name], backend)
    if actual.unique is not None:
        declared, found = set(table.unique), set(actual.unique)
        lines += [f"unique constraint ({', '.join(group)}) is missing" for group in sorted(declared - found)]
        lines += [f"unique constraint ({', '.join(group)}) is not declared" for group in sorted(found - declared)]
    return lines


def _missing_line(name: str) -> str:
    return f"column {name!r} is declared but not in the table"


def _lookups(table: Table, keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Columns that need an index of their own because no constraint begins with them."""
    constraints = (table.primary_key, *table.unique)
    covered = any(constraint[: len(keys)] == keys for constraint in constraints)
    return () if covered else (keys,)


def _hint(policy: DriftPolicy, missing: list[str], addable: list[str], rest: list[str]) -> str:
    if addable and not rest:
        return "pass on_drift='evolve' to add the missing columns, or change the table"
    if policy == "warn" and missing:
        return "rows cannot be written into columns that do not exist: add them, or pass on_drift='evolve'"
    return "change the declaration or the table; on_drift='warn' loads into a table that differs otherwise"


def _column_differences(column: Column, actual: ActualColumn, backend: Backend) -> list[str]:
    lines = []
    stored = backend.stored_type(column.type)
    if actual.type is None:
        lines.append(f"column {column.name!r} has type {actual.declared}, which no declared type matches")
    elif actual.type != stored:
        lines.append(f"column {column.name!r} has type {actual.type}, declared is {column.type}")
    if column.nullable != actual.nullable:
        lines.append(
            f"column {column.name!r} {'allows' if actual.nullable else 'refuses'} NULL, "
            f"declared is {'nullable' if column.nullable else 'not null'}"
        )
    if backend.can.enforces_keys and column.primary_key != actual.primary_key:
        lines.append(f"column {column.name!r} is {'' if actual.primary_key else 'not '}part of the primary key")
    return lines
