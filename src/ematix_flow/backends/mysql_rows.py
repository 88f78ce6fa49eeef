"""Rows of MySQL as Arrow: packets are taken as the server sends them, and no value becomes an object of Python."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BackendError, CheckError
from ..types import Numeric
from .arrow_types import arrow_type
from .base import QueryColumn
from .dialect import Dialect
from .optional import optional

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Packets", "carried_sql", "copy_out", "packets", "split"]

CHUNK_BYTES = 4 * 2**20
"""How much of a result is in memory at a time; a single row may be larger."""
READ_BYTES = 2**18
MOST_DIGITS = 38


def carried_sql(columns: Sequence[QueryColumn], dialect: Dialect, sql: str) -> str:
    """The query with every column in a form that loses nothing on the way."""
    # The server writes single precision with six digits; as a double it is exact.
    shown = [
        f"CAST({name} AS DOUBLE) AS {name}" if column.type == "float" else name
        for name, column in ((dialect.quote(column.name), column) for column in columns)
    ]
    return f"SELECT {', '.join(shown)} FROM (\n{sql}\n) AS _source"


def copy_out(
    cursor: Any,
    file: Path,
    columns: Sequence[QueryColumn],
    dialect: Dialect,
    written: Callable[[pa.RecordBatch], object],
) -> None:
    """Write the rows that an unbuffered cursor has asked for, as Parquet in the types of the columns.

    Each batch that is in the file is handed to `written`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(column.name, _carried_type(column, dialect)) for column in columns])
    with (
        pq.ParquetWriter(str(file), schema, compression="zstd", compression_level=1) as writer,
        closing(packets(cursor)) as parts,
    ):
        for part in parts:
            arrays = [_read(values, field) for values, field in zip(split(part, len(schema)), schema, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            writer.write_batch(batch)
            written(batch)


@dataclass(frozen=True)
class Packets:
    """A part of a result: whole packets with one row each."""

    data: bytes
    starts: array[int]
    """Where each row begins, behind the four bytes that every packet has in front."""


def packets(cursor: Any) -> Generator[Packets]:
    """The packets of the rows that an unbuffered cursor has asked for, in parts of a few MiB.

    Afterwards, and after an error, the driver knows that nothing is left to read.
    """
    result, waiting = cursor._result, _Waiting()
    try:
        while True:
            waiting.add(_received(cursor.connection))
            if waiting.is_over():
                _raise_if_error(waiting.take_last())
                yield from waiting.parts()
                return
            if waiting.whole >= CHUNK_BYTES:
                yield from waiting.parts()
    finally:
        result.unbuffered_active, result.connection = False, None


class _Waiting:
    """What came from the server and was not handed on."""

    def __init__(self) -> None:
        self.data, self.whole = bytearray(), 0
        """All bytes, and how many of them are whole packets."""
        self.starts = array("q")

    def add(self, received: bytes) -> None:
        """Note the packets that are whole now."""
        self.data += received
        data, at, end = self.data, self.whole, len(self.data)
        header, note = _HEADER.unpack_from, self.starts.append
        while at + 4 <= end:
            size = header(data, at)[0] & _LONGEST
            if size == _LONGEST:
                size = self._join(at)
                end = len(data)
            if size < 0 or at + 4 + size > end:
                break
            note(at + 4)
            at += 4 + size
        self.whole = at

    def is_over(self) -> bool:
        """Whether the last packet is no row: the end of the result, or an error. Nothing comes behind it."""
        if not self.starts:
            return False
        first = self.data[self.starts[-1]]
        # The byte of an end also says that a length of eight bytes follows: of a value larger than any end.
        return first == _ERROR or (first == _END and self.whole - self.starts[-1] < _LONGEST)

    def take_last(self) -> bytes:
        """The last packet, which is none of the rows any more."""
        start = self.starts.pop()
        last = bytes(self.data[start : self.whole])
        self.whole = start - 4
        return last

    def parts(self) -> Iterator[Packets]:
        """Hand on the rows that are whole."""
        if self.starts:
            yield Packets(bytes(memoryview(self.data)[: self.whole]), self.starts)
        self.data, self.whole, self.starts = self.data[self.whole :], 0, array("q")

    def _join(self, at: int) -> int:
        """Make one of the packets that a row of 16 MiB or more came in; gives its size, -1 while some are missing."""
        pieces, begin, size = [], at, _LONGEST
        while size == _LONGEST:
            if begin + 4 > len(self.data):
                return -1
            size = _HEADER.unpack_from(self.data, begin)[0] & _LONGEST
            pieces.append((begin + 4, begin + 4 + size))
            begin += 4 + size
        if begin > len(self.data):
            return -1
        whole = b"".join(self.data[start:end] for start, end in pieces)
        self.data[at + 4 : begin] = whole
        return len(whole)


_HEADER = struct.Struct("<I")
_LONGEST = 0xFFFFFF
_NULL, _TWO_BYTES, _THREE_BYTES, _END, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_LOST = 2013


def _received(driver: Any) -> bytes:
    errors = optional("pymysql.err", extra="mysql")
    try:
        received: bytes = driver._rfile.read1(READ_BYTES)
    except OSError as error:
        raise errors.OperationalError(_LOST, f"Lost connection to MySQL server during query ({error})") from error
    if not received:
        raise errors.OperationalError(_LOST, "Lost connection to MySQL server during query")
    return received


def _raise_if_error(last: bytes) -> None:
    if last[0] == _ERROR:
        optional("pymysql.err", extra="mysql").raise_mysql_exception(last)


def split(part: Packets, columns: int) -> list[pa.Array]:
    """The values of each column as bytes, by their lengths, which stand in front of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = len(part.starts)
    data = pa.py_buffer(part.data)
    signs = pa.Array.from_buffers(pa.uint8(), len(part.data), [None, data])
    starts = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(part.starts)])
    values_at = pc.subtract(pc.cumulative_sum(pa.repeat(2, rows)), 2)
    found, at = [], starts
    for _ in range(columns):
        begin, end, is_null = _bounds(signs, at)
        # Begin and end of each value by turns are the bounds of all values and of what is between them.
        pairs = pc.add(begin, pc.shift_left(end, 32))
        pieces = pa.Array.from_buffers(pa.binary(), max(0, 2 * rows - 1), [None, pairs.buffers()[1], data])
        chosen = values_at if is_null is None else pc.if_else(is_null, pa.scalar(None, pa.int64()), values_at)
        found.append(pieces.take(chosen))
        at = end
    ends = pa.concat_arrays([pc.subtract(starts.slice(1), 4), pa.array([len(part.data)])])
    if not at.equals(ends):
        raise BackendError("the server sent rows that are not as the protocol says")
    return found


def _bounds(signs: pa.Array, at: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array | None]:
    """Where the values begin and end whose lengths are at these places, and which are NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = signs.take(at).cast(pa.int64())
    largest = pc.max(first).as_py()
    if largest < _NULL:
        begin = pc.add(at, 1)
        return begin, pc.add(begin, first), None
    is_null = pc.equal(first, _NULL)
    size, ahead = pc.if_else(is_null, 0, first), pa.scalar(1)
    if largest > _NULL:
        last = len(signs) - 1
        near = [signs.take(pc.min_element_wise(pc.add(at, step), last)).cast(pa.int64()) for step in range(1, 5)]
        two = pc.add(near[0], pc.shift_left(near[1], 8))
        three = pc.add(two, pc.shift_left(near[2], 16))
        # No row is longer than 1 GiB, so four of the eight bytes say it all.
        four = pc.add(three, pc.shift_left(near[3], 24))
        size = pc.case_when(_which(first), two, three, four, size)
        ahead = pc.case_when(_which(first), 3, 4, 9, 1)
    begin = pc.add(at, ahead)
    return begin, pc.add(begin, size), is_null


def _which(first: pa.Array) -> pa.StructArray:
    import pyarrow.compute as pc

    return pc.make_struct(*(pc.equal(first, sign) for sign in (_TWO_BYTES, _THREE_BYTES, _END)))


def _carried_type(column: QueryColumn, dialect: Dialect) -> pa.DataType:
    import pyarrow as pa

    kind = dialect.column_type(column.type)
    if column.type.startswith("bit"):
        return pa.binary()
    if kind is None or (isinstance(kind, Numeric) and kind.precision > MOST_DIGITS):
        return pa.string()
    return arrow_type(kind)


def _read(values: pa.Array, field: pa.Field) -> pa.Array:
    """What the server has written, in the type of the column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_binary(field.type):
        return values
    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CheckError(
            f"column {field.name!r} holds bytes that are no text in UTF-8",
            hint=f"say in the source query what they are, for example HEX({field.name})",
        ) from error
    if pa.types.is_temporal(field.type):
        return _moments(text, field)
    if not pa.types.is_boolean(field.type):
        return text.cast(field.type)
    truth = pc.equal(text, "1")
    if not pc.all(pc.or_(truth, pc.equal(text, "0")), min_count=0).as_py():
        raise CheckError(
            f"column {field.name!r} is TINYINT(1), a truth value, and holds other numbers than 0 and 1",
            hint=f"say in the source query that it is a number: CAST({field.name} AS SIGNED)",
        )
    return truth


def _moments(text: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_day = pa.types.is_date(field.type)
    try:
        moments = text.cast(field.type if is_day else pa.timestamp("us"))
        earliest = pc.min(moments).cast(pa.int32() if is_day else pa.int64()).as_py()
        is_none = earliest is not None and earliest < _YEAR_ONE * (1 if is_day else 86_400_000_000)
    except pa.ArrowInvalid:
        is_none = True
    if is_none:
        raise CheckError(
            f"column {field.name!r} holds a date that is none, such as 0000-00-00",
            hint=f"make it NULL in the source query: NULLIF({field.name}, 0)",
        )
    return moments.cast(field.type)


_YEAR_ONE = -719_162
"""The first day of the year 1, counted from 1970."""
