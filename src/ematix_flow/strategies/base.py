"""What a strategy is given (`Intent`) and what it answers (`Change`, `Guard`, `Counts`); `strategy_for` finds one.

Queries are sqlglot expressions over the bare names `incoming` and `target`. Values of the run are the placeholders
`:now`, `:run_id`, `:expired_before` and `:bookmark`; a backend binds names and values and renders its own dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

from ..errors import SpecError, UnknownNameError, UnsupportedError, nearest
from ..spec.modes import ModeFacts
from ..spec.table import DELETED
from ..types import UUID, Boolean, ColumnType, TimestampTZ

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "CHANGE_LABEL",
    "DELETE_MARK",
    "EVENT_TIME",
    "INCOMING",
    "META_COLUMNS",
    "TARGET",
    "Added",
    "Append",
    "Arrival",
    "Change",
    "Counts",
    "Guard",
    "Intent",
    "Replace",
    "Strategy",
    "Upsert",
    "strategy_for",
]

INCOMING, TARGET, CHANGE_LABEL = "incoming", "target", "_change"

EVENT_TIME = "_event_time"
"""The column of `incoming` that carries the event time, as an instant, where the intent asks for event time."""


@dataclass(frozen=True)
class Added:
    """A column that the framework adds to a declared table and fills itself."""

    name: str
    type: ColumnType
    nullable: bool = False
    primary_key: bool = False


META_COLUMNS = (Added("_loaded_at", TimestampTZ()), Added("_batch_id", UUID()))
"""When a row was last written, and by which run."""

DELETE_MARK = Added(DELETED, Boolean())
"""Whether the source no longer shows the row's key; the load adds it where deletes are soft."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What one load asks for, every default already resolved."""

    columns: tuple[str, ...]
    """The declared columns, in order."""
    types: Mapping[str, ColumnType]
    """The type of every column, added ones included."""
    keys: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    """merge: the columns that are compared and set."""
    compare: tuple[str, ...] = ()
    """scd2: the columns whose change makes a new version."""
    deletes: Literal["hard", "soft"] | None = None
    event_time: bool = False
    event_column: str = "event_ts"
    """What the user calls the event time; for messages."""
    late: Literal["error", "ignore", "insert"] = "error"
    ttl: timedelta | None = None
    allow_empty_source: bool = False
    primary_key: tuple[str, ...] = ()
    """append and truncate: what may not occur twice where `check_keys` is set."""
    check_keys: bool = True
    """False where the target itself refuses duplicate keys."""
    required: tuple[str, ...] = ()
    """Columns that may not be NULL, beside the keys."""
    incremental: str | None = None
    """The column that a bookmark stands on."""
    resume: bool = False
    """There is a bookmark: the load goes on at `:bookmark`, which earlier loads have seen."""
    on_duplicate: Literal["error", "last", "first"] = "error"
    """merge and scd2: which of several rows for one key counts."""
    order_by: str | None = None
    """The column that decides that."""


@dataclass(frozen=True)
class Append:
    """Rows to add: all target columns, in order."""

    rows: exp.Query


@dataclass(frozen=True)
class Replace:
    """Rows that take the place of everything the target holds: all target columns, in order."""

    rows: exp.Query


@dataclass(frozen=True)
class Arrival:
    """What each incoming row does by itself: it is added where its key is new, or meets the row of its key."""

    rows: exp.Query
    """The rows that arrive: all target columns, in order."""
    updates: tuple[str, ...]
    """The columns that a row which is met takes over."""
    is_news: exp.Expr
    """Whether it does, over the row `i` that arrives and the row `t` that is met."""


@dataclass(frozen=True)
class Upsert:
    """Complete after-images, each with a label in `_change`; the label `remove` asks for a physical delete."""

    rows: exp.Query
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool = False
    arrival: Arrival | None = None
    """The same change, row by row, where no other row has a part in it: labels are `insert` and `update` alone."""


Change = Append | Replace | Upsert

_SHOWN = 5


@dataclass(frozen=True)
class Guard:
    """An offence that the load refuses: the query yields up to six offending rows, as text; no row means fine."""

    code: str
    query: exp.Query
    text: str
    hint: str
    names_rows: bool = True
    """Whether the offending rows say more than that there are some."""

    def message(self, offences: Sequence[Sequence[object]], columns: Sequence[str] | None = None) -> str:
        """What is wrong, with the offending rows; ``columns`` names their values (by default as the query does)."""
        if not self.names_rows:
            return self.text
        names = tuple(columns) if columns is not None else tuple(self.query.named_selects)
        shown = [_described(names, offence) for offence in offences[:_SHOWN]]
        return f"{self.text}: {'; '.join(shown)}{'; …' if len(offences) > _SHOWN else ''}"


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a load did, in rows."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    closed_changed: int = 0
    closed_missing: int = 0
    closed_ttl: int = 0
    corrected: int = 0
    late: int = 0

    @property
    def closed(self) -> int:
        """Versions that were current before the load and are not afterwards."""
        return self.closed_changed + self.closed_missing + self.closed_ttl


class Strategy(ABC):
    """One way to bring incoming rows into a table; pure: it only writes queries."""

    name: ClassVar[str]
    change_type: ClassVar[type[Change]]
    """What the strategy asks of a table; a system that cannot take it refuses the mode while planning."""
    adds: tuple[Added, ...] = META_COLUMNS
    facts: ClassVar[ModeFacts]
    """What the mode does, as declarations know it too."""
    marks_deletes: ClassVar[bool] = False
    """Soft deletes need a column of their own."""
    fills_gaps: ClassVar[bool] = False
    """A nullable column that the source has not becomes NULL: no row that is there could lose a value by it."""
    label: ClassVar[str]
    """What is done to the table, in the words that a preview prints."""

    def check(self, intent: Intent) -> None:
        """Refuse an intent that this strategy cannot mean."""
        self._check_options(intent)
        if self.facts.needs_keys and not intent.keys:
            raise SpecError(f"mode {self.name!r} needs keys", hint="give keys=[…] or mark the primary key with pk()")
        for word, names in (("key", intent.keys), ("update column", intent.update), ("compare column", intent.compare)):
            _check_names(word, names, intent.columns)
            if word != "key" and (shared := sorted(set(names) & set(intent.keys))):
                raise SpecError(f"{shared[0]!r} is a key and a {word}", hint="a key identifies a row and never changes")

    @abstractmethod
    def guards(self, intent: Intent) -> tuple[Guard, ...]:
        """The offences to look for before the change, in this order."""

    @abstractmethod
    def change(self, intent: Intent) -> Change:
        """What the target is asked to take."""

    def null_guards(self, intent: Intent) -> tuple[Guard, ...]:
        """The offence of NULL where a column must have a value; for systems that do not name the row themselves."""
        from .guard import null_value

        wanted = tuple(name for name in intent.required if name not in intent.keys)
        return (null_value(intent, wanted),) if intent.check_keys and wanted else ()

    def late(self, intent: Intent) -> exp.Query | None:
        """A query that counts the late rows which the load drops; None where it drops none."""
        return None

    def counts(self, labels: Mapping[str, int], *, read: int, late: int = 0) -> Counts:
        """What the labels of the change rows add up to."""
        return Counts(read=read, inserted=labels.get("insert", read))

    def columns(self, intent: Intent) -> tuple[str, ...]:
        """All columns of the target: the declared ones, then the added ones that were not declared."""
        return (*intent.columns, *(added.name for added in self.adds if added.name not in intent.columns))

    def user_columns(self, intent: Intent) -> tuple[str, ...]:
        """The columns whose values come from the source; a declared column of an added name is filled by the load."""
        ours = {added.name for added in self.adds}
        return tuple(name for name in intent.columns if name not in ours)

    def _check_options(self, intent: Intent) -> None:
        if intent.deletes is not None and intent.deletes not in self.facts.deletes:
            forms = " or ".join(map(repr, self.facts.deletes))
            allowed = f"deletes={forms} is the form it has" if self.facts.deletes else "use merge or scd2"
            raise UnsupportedError(f"mode {self.name!r} cannot do deletes={intent.deletes!r}", hint=allowed)
        if not self.facts.keeps_history:
            asked = {"event time": intent.event_time, "ttl": intent.ttl is not None}
            for word in (word for word, wanted in asked.items() if wanted):
                raise UnsupportedError(
                    f"mode {self.name!r} keeps no history, so {word} has no meaning", hint="use scd2"
                )
        if intent.on_duplicate != "error" and (intent.order_by is None or intent.event_time):
            raise SpecError(
                f"on_duplicate={intent.on_duplicate!r} needs a column to order by, and no event time",
                hint="name on_duplicate_order_by=; with event time every event of a key applies",
            )
        if intent.late != "error" and not intent.event_time:
            raise SpecError(f"late={intent.late!r} needs event time", hint="name the event_timestamp_column")
        if intent.ttl is not None and intent.ttl <= timedelta(0):
            raise SpecError(f"ttl must be above zero, not {intent.ttl}")


def strategy_for(mode: str, *, stamps: bool = True, deletes: str | None = None) -> Strategy:
    """The strategy that a mode names, with the columns that it adds for its kind of `deletes`.

    Without `stamps` it leaves out `_loaded_at` and `_batch_id` where it can.
    """
    from .append import AppendRows
    from .merge import Merge
    from .scd2 import Scd2
    from .truncate import Truncate

    modes: dict[str, type[Strategy]] = {
        "append": AppendRows, "truncate": Truncate, "merge": Merge, "scd1": Merge, "scd2": Scd2,
    }  # fmt: skip
    if mode not in modes:
        raise UnsupportedError(f"unknown mode {mode!r}", hint=nearest("mode", mode, modes))
    strategy = modes[mode]()
    if not stamps and strategy.adds == META_COLUMNS:
        strategy.adds = ()
    if deletes == "soft" and strategy.marks_deletes:
        strategy.adds = (*strategy.adds, DELETE_MARK)
    return strategy


def _check_names(word: str, names: Iterable[str], known: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name not in known:
            raise UnknownNameError(word, name, known=known, where="the table")
        if name in seen:
            raise SpecError(f"the {word} {name!r} is named twice")
        seen.add(name)


def _described(names: Sequence[str], offence: Sequence[object]) -> str:
    return ", ".join(
        f"{name}={'NULL' if value is None else value}" for name, value in zip(names, offence, strict=False)
    )
