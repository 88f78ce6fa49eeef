"""A declared table against the table that exists: what the load adds, what differs, what must change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..backends.base import Actual, ActualColumn, Backend, SchemaChange
from ..errors import DriftError, SpecError, nearest
from ..spec.pipeline import DriftPolicy, Mode
from ..spec.place import TableRef
from ..spec.table import DELETED, METADATA_NAMES, Column, Table
from ..strategies.base import Strategy, strategy_for
from ..types import BigInt, ColumnType, Double, Float, Integer, Numeric, SmallInt, String, Text

__all__ = ["Difference", "augment", "differences", "ensure_table", "is_wider", "plan_schema", "warn_of_drift"]

Kind = Literal[
    "missing column", "extra column", "type", "length", "nullability", "primary key", "unique constraint"
]  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One way in which a table is not what was declared."""

    kind: Kind
    name: str
    """The column, or the columns of the constraint."""
    text: str

    def __str__(self) -> str:
        return self.text


def augment(table: Table, strategy: Strategy) -> Table:
    """The table with the columns its strategy adds.

    A table that keeps history holds many versions of one row, so its unique groups cannot be constraints there.
    """
    added = [
        Column(added.type, nullable=added.nullable, primary_key=added.primary_key, name=added.name)
        for added in strategy.adds
    ]
    whole = table.with_columns(added)
    return replace(whole, unique=()) if strategy.facts.keeps_history else whole


def plan_schema(
    table: Table, keys: tuple[str, ...], actual: Actual | None, backend: Backend, policy: DriftPolicy
) -> tuple[SchemaChange | None, tuple[str, ...]]:
    """The change to make before rows fit and the differences to report, or DriftError where `policy` refuses them."""
    if actual is None:
        return SchemaChange(table, create=True, indexes=_lookups(table, keys)), ()
    if actual.partitions not in (None, table.partition_columns):
        raise DriftError(
            f"table {table.qualified_name!r} is partitioned in another way than declared:",
            [f"declared by {_listed(table.partition_columns)}, kept by {_listed(actual.partitions or ())}"],
            hint="declare the partition columns that it has, or load into a new table: partitions never change",
            declared_at=table.declared_at,
        )
    found = differences(table, actual, backend)
    if not found:
        return None, ()
    missing = [each.name for each in found if each.kind == "missing column"]
    # A delete mark begins as false, so that it may be added though it is never NULL.
    addable = tuple(name for name in missing if table.column(name).nullable or name == DELETED)
    wider = {each.name: each.type for each in actual.columns if each.type is not None and _widens(table, each)}
    widenable = tuple(each.name for each in found if each.kind in ("type", "length") and each.name in wider)
    rest = [each for each in found if not _is_mended(each, addable, widenable if backend.can.widens else ())]
    if policy == "evolve" and not rest:
        widened = [f"widened column {name!r} from {wider[name]} to {table.column(name).type}" for name in widenable]
        change = SchemaChange(table, add=addable, widen=widenable)
        return change, (*(f"added column {name!r}" for name in addable), *widened)
    if policy in ("warn", "ignore") and not missing:
        return None, tuple(each.text for each in found)
    raise DriftError(
        f"table {table.qualified_name!r} is not what was declared:",
        [each.text for each in found],
        hint=_hint(policy, missing, rest, stuck=widenable if not backend.can.widens else ()),
        declared_at=table.declared_at,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def differences(table: Table, actual: Actual, backend: Backend) -> list[Difference]:
    """Each way in which the existing table is not the declared one."""
    existing = {column.name: column for column in actual.columns}
    found = [
        Difference("missing column", name, f"column {name!r} is declared but not in the table")
        for name in table.column_names
        if name not in existing
    ]
    found += [
        Difference("extra column", name, f"column {name!r} is in the table but not declared")
        for name in existing
        if name not in table.column_names
    ]
    for column in table.columns:
        if column.name in existing:
            found += _column_differences(column, existing[column.name], backend, keyed=actual.keyed)
    if actual.unique is not None:
        declared, kept = set(table.unique), set(actual.unique)
        for words, groups in (("is missing", declared - kept), ("is not declared", kept - declared)):
            found += [
                Difference("unique constraint", ", ".join(group), f"unique constraint ({', '.join(group)}) {words}")
                for group in sorted(groups)
            ]
    return found


def is_wider(old: ColumnType, new: ColumnType) -> bool:
    """Whether every value of the old type is one of the new type, unchanged."""
    match old, new:
        case (SmallInt(), Integer() | BigInt()) | (Integer(), BigInt()) | (Float(), Double()) | (String(), Text()):
            return True
        case String(length), String(more):
            return more > length
        case Numeric(precision, scale), Numeric(digits, behind):
            return behind >= scale and digits - behind >= precision - scale and old != new
        case _:
            return False


def warn_of_drift(table: Table, lines: Sequence[str]) -> None:
    """Tell the user of differences that were accepted."""
    text = f"table {table.qualified_name} is not what was declared: {'; '.join(lines)}"
    warnings.warn(text, UserWarning, stacklevel=3)


def ensure_table(
    backend: Backend, table: Table, on_drift: DriftPolicy = "error", *, mode: Mode | None = None
) -> dict[str, object]:
    """Create the table where it is missing, compare it where it is not, in one unit of work.

    Gives `action` (`created`, `matched`, `drift` or `evolved`) and `differences`, one line each. With `mode` the table
    has the columns that loads of that mode add; without, such columns are no difference.
    """
    if on_drift not in get_args(DriftPolicy):
        hint = nearest("policy", on_drift, get_args(DriftPolicy))
        raise SpecError(f"on_drift={on_drift!r} is not possible", hint=hint, declared_at=table.declared_at)
    policy: DriftPolicy = "evolve" if on_drift == "add_columns" else on_drift
    strategy = None if mode is None else strategy_for(mode)
    whole = table if strategy is None else augment(table, strategy)
    # The mark of soft deletes is a pipeline's own choice, so a table may have it or not.
    ours = METADATA_NAMES if strategy is None else (DELETED,) if strategy.marks_deletes else ()
    outcome: dict[str, object] = {}

    def decide(actual: Actual | None) -> SchemaChange | None:
        shown = None if actual is None else _without(actual, set(ours) - set(table.column_names))
        change, lines = plan_schema(whole, whole.primary_key, shown, backend, policy)
        created = change is not None and change.create
        kept = "drift" if lines else "matched"
        outcome["action"] = "created" if created else "evolved" if change is not None else kept
        outcome["differences"] = list(lines)
        return change

    backend.change_schema(TableRef(table.schema, table.name), decide)
    if outcome["action"] == "drift" and policy == "warn":
        warn_of_drift(table, [str(line) for line in outcome["differences"]])  # type: ignore[attr-defined]
    return outcome


def _without(actual: Actual, names: set[str]) -> Actual:
    return replace(actual, columns=tuple(each for each in actual.columns if each.name not in names))


def _widens(table: Table, actual: ActualColumn) -> bool:
    declared = {column.name: column.type for column in table.columns}
    return actual.name in declared and actual.type is not None and is_wider(actual.type, declared[actual.name])


def _is_mended(difference: Difference, added: Sequence[str], widened: Sequence[str]) -> bool:
    """Whether the change that evolving makes takes the difference away."""
    if difference.kind == "missing column":
        return difference.name in added
    return difference.kind in ("type", "length") and difference.name in widened


def _lookups(table: Table, keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Columns that need an index of their own because no constraint begins with them."""
    constraints = (table.primary_key, *table.unique)
    covered = any(constraint[: len(keys)] == keys for constraint in constraints)
    return () if covered else (keys,)


def _hint(policy: DriftPolicy, missing: list[str], rest: list[Difference], *, stuck: tuple[str, ...]) -> str:
    if not rest:
        return "pass on_drift='evolve' to add or widen these columns, or change the table"
    if policy in ("warn", "ignore") and missing:
        return "rows cannot be written into columns that do not exist: add them, or pass on_drift='evolve'"
    if policy == "evolve" and stuck:
        names = ", ".join(map(repr, stuck))
        return f"this system cannot change the type of {names}: make the table anew, or pass on_drift='warn'"
    return "change the declaration or the table; on_drift='warn' loads into a table that differs otherwise"


def _column_differences(column: Column, actual: ActualColumn, backend: Backend, *, keyed: bool) -> Iterator[Difference]:
    name = f"column {column.name!r}"
    if actual.type is None:
        yield Difference("type", column.name, f"{name} has type {actual.declared}, which no declared type matches")
    elif actual.type not in (backend.stored_type(column.type), column.type):
        kind: Kind = "length" if _differ_in_size(actual.type, column.type) else "type"
        yield Difference(kind, column.name, f"{name} has type {actual.type}, declared is {column.type}")
    if column.nullable != actual.nullable:
        text = (
            f"{name} {'allows' if actual.nullable else 'refuses'} NULL, "
            f"declared is {'nullable' if column.nullable else 'not null'}"
        )
        yield Difference("nullability", column.name, text)
    if keyed and column.primary_key != actual.primary_key:
        text = f"{name} is {'' if actual.primary_key else 'not '}part of the primary key"
        yield Difference("primary key", column.name, text)


def _differ_in_size(one: ColumnType, other: ColumnType) -> bool:
    texts, numbers = (Text, String), Numeric
    return all(isinstance(each, texts) for each in (one, other)) or all(
        isinstance(each, numbers) for each in (one, other)
    )
