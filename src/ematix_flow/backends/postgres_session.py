"""An open PostgreSQL connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .optional import optional
from .postgres_functions import needed
from .sql_connection import SqlCursor

__all__ = ["PostgresSession"]

PIECE_BYTES = 2**19


class PostgresSession:
    """An open connection, which makes the functions of the dialect for itself when a statement needs them."""

    def __init__(self, psycopg: Any, settings: str) -> None:
        self.psycopg = psycopg
        # Documents stay the texts that they are.
        for kind in ("json", "jsonb"):
            psycopg.adapters.register_loader(kind, optional("psycopg.types.string", extra="postgres").TextLoader)
        psycopg.execute(settings)
        self._made: set[str] = set()

    def execute(self, sql: str, /) -> SqlCursor:
        """Run one statement."""
        self.make(sql)
        if sql.startswith("ROLLBACK"):
            self._made.clear()
        cursor: SqlCursor = self.psycopg.execute(sql)
        return cursor

    def make(self, sql: str) -> None:
        """Make the functions of the dialect that a statement calls."""
        for name, make in needed(sql).items():
            if name not in self._made:
                self.psycopg.execute(make)
                self._made.add(name)

    def analyse(self, sql: str) -> None:
        """Let the server look at a statement; raises what it says of it, with the statement's own lines."""
        psycopg = optional("psycopg", extra="postgres")
        self.make(sql)
        answer = self.psycopg.pgconn.prepare(b"", sql.encode())
        if answer.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(answer)

    def send(self, sql: str) -> Iterator[bytes]:
        """What COPY of a query sends, in large pieces. By a cursor's own `copy` each row would cost several steps."""
        psycopg = optional("psycopg", extra="postgres")
        self.make(sql)
        server = self.psycopg.pgconn
        answer = server.exec_(f"COPY ({sql}) TO STDOUT (FORMAT binary)".encode())
        if answer.status != psycopg.pq.ExecStatus.COPY_OUT:
            raise psycopg.errors.error_from_result(answer)
        rows, size = list[bytes](), 0
        while True:
            length, row = server.get_copy_data(0)
            if length <= 0:
                break
            rows.append(bytes(row))
            size += length
            if size >= PIECE_BYTES:
                yield b"".join(rows)
                rows, size = [], 0
        answer = server.get_result()
        if answer is not None and answer.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(answer)
        yield b"".join(rows)

    def close(self) -> None:
        """Let go of the database."""
        self.psycopg.close()
