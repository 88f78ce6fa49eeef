"""What every normalizer shares: the protocol, values as SQL text, and the rules of a chain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import ClassVar, Protocol, TypeGuard

from ..errors import SpecError, SpecTypeError
from ..types import ColumnType

__all__ = [
    "Marker",
    "Normalizer",
    "applied",
    "check_chain",
    "check_whole",
    "compose_chain",
    "in_utc",
    "is_native",
    "is_normalizer",
    "literal",
]


class Normalizer(Protocol):
    """Turns one SQL expression into another."""

    def to_sql(self, col: str, /) -> str:
        """Postgres SQL text for the normalized value of the expression ``col``."""


class Marker(ABC):
    """What the normalizers of this package share, and what they say of themselves."""

    light: ClassVar[bool] = False
    """Mentions its value only once, so that it can be put around any expression."""
    native: ClassVar[bool] = False
    """Holds the user's own SQL, in the words of the source."""
    derives: ClassVar[bool] = False
    """Takes no value: it makes one."""

    @abstractmethod
    def to_sql(self, col: str) -> str:
        """SQL text for the normalized value of the expression ``col``."""

    def check_place(self, before: tuple[object, ...], type: ColumnType | None) -> None:
        """Refuse a place in which the marker cannot work: behind others, or on a column of some type."""


def check_whole(marker: str, word: str, value: object) -> None:
    """Refuse an argument that is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecTypeError(f"{marker}: {word} is a whole number, not {value!r}")


def is_normalizer(value: object) -> TypeGuard[Normalizer]:
    """Whether ``value`` can normalize a column: it has a ``to_sql`` method and is not a class that was not called."""
    return not isinstance(value, type) and callable(getattr(value, "to_sql", None))


def is_native(marker: object) -> bool:
    """Whether the marker's text is the user's own, in the words of the source, and not Postgres SQL."""
    return bool(getattr(marker, "native", False))


def check_chain(markers: Iterable[object], type: ColumnType | None = None) -> None:
    """Refuse a chain that cannot work; ``type`` is the declared type of the column, where there is one."""
    chain = tuple(markers)
    for position, marker in enumerate(chain):
        if not is_normalizer(marker):
            raise SpecTypeError(f"{marker!r} is not a normalizer", hint="call the marker, for example trim()")
        if position > 0 and getattr(marker, "derives", False):
            raise SpecError(
                f"{marker!r} must be the first normalizer: it would discard what the ones before it did",
                hint="move it to the front",
            )
        if isinstance(marker, Marker):
            marker.check_place(chain[:position], type)


def compose_chain(markers: Iterable[object], col: str) -> str:
    """SQL text that applies ``markers`` to the expression ``col``, the left-most first."""
    chain = tuple(markers)
    check_chain(chain)
    for marker in chain:
        if is_normalizer(marker):
            col = applied(marker, col)
    return col


def literal(value: object) -> str:
    """``value`` as Postgres SQL text; times without a zone are in UTC."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return float.__repr__(value)
        case str() if "\0" not in value:
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"CAST('{in_utc(value).isoformat(sep=' ')}' AS TIMESTAMPTZ)"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
    raise SpecError(
        f"{value!r} cannot be written as an SQL value",
        hint="use text, a finite number, True, False, a date or a datetime",
    )


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC; without a zone it is in UTC already."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def applied(marker: Normalizer, col: str) -> str:
    """What the marker makes of the expression ``col``; SpecTypeError where that is no text."""
    sql: object = marker.to_sql(col)
    if not isinstance(sql, str) or not sql.strip():
        raise SpecTypeError(f"{marker!r}.to_sql() gave {sql!r}", hint="return an SQL expression as text")
    return sql
