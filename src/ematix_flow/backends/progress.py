"""How far a long copy is: counted where rows move, told now and then to whoever watches the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Doing", "Moved", "Tally"]

TOLD_EVERY_SECONDS = 0.5

Doing = Literal["reading", "writing"]
"""Rows leave their source, or go into their target."""


@dataclass(frozen=True)
class Moved:
    """What a copy has moved so far."""

    doing: Doing
    rows: int | None = 0
    """None where the rows travel in a form that nobody looks into."""
    bytes: int = 0
    """In the form in which they travel, which is not what they take on disk."""
    parts_done: int = 0
    parts: int = 1


class Tally:
    """Counts one copy, from any thread, and tells of it at most twice a second and once more at its end."""

    def __init__(
        self, tell: Callable[[Moved], None], begun: Moved, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.moved = begun
        self._tell, self._clock = tell, clock
        self._told_at = clock()
        self._lock = threading.Lock()

    def add(self, *, rows: int = 0, bytes: int = 0, parts: int = 0) -> None:
        """Count what has moved."""
        with self._lock:
            before = self.moved
            self.moved = replace(
                before,
                rows=None if before.rows is None else before.rows + rows,
                bytes=before.bytes + bytes,
                parts_done=before.parts_done + parts,
            )
            if self._clock() - self._told_at >= TOLD_EVERY_SECONDS:
                self._tell(self.moved)
                self._told_at = self._clock()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        self.add(rows=batch.num_rows, bytes=batch.nbytes)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they are, each counted when the next one is asked for."""
        for batch in batches:
            yield batch
            self.add_batch(batch)

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes as they are, each piece counted when the next one is asked for."""
        for piece in pieces:
            yield piece
            self.add(bytes=len(piece))

    def end(self, rows: int | None = None) -> None:
        """Tell that all has moved; `rows` is their number where it was not counted on the way."""
        with self._lock:
            known = self.moved.rows if rows is None else rows
            self.moved = replace(self.moved, rows=known, parts_done=self.moved.parts)
            self._tell(self.moved)
