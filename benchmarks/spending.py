"""What our side of a load spends its time on, said in plain words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

READ = "read the rows from the source: `COPY … TO STDOUT`"
WRITE = "write the rows into the target: `COPY … FROM STDIN`"
REST = "everything that is no statement: planning, checks in Python"


@contextmanager
def watched_statements() -> Iterator[dict[str, float]]:
    """What psycopg spends on each statement inside the block, in seconds; connecting is one of them.

    Statements that differ only in their values are one. A COPY into the target takes its pieces from the source, so
    the time between two pieces is the time of the source.
    """
    spent: dict[str, float] = {}
    plain = psycopg.Connection.execute, psycopg.connect, psycopg.Cursor.copy

    def add(key: str, seconds: float) -> None:
        spent[key] = spent.get(key, 0.0) + seconds

    psycopg.Connection.execute = _timed(add, lambda _, sql, *__: _bare(sql), plain[0])  # type: ignore[method-assign]
    psycopg.connect = _timed(add, lambda *_: "connect", plain[1])
    psycopg.Cursor.copy = _timed_copy(add, plain[2])  # type: ignore[method-assign,assignment]
    try:
        yield spent
    finally:
        psycopg.Connection.execute, psycopg.connect, psycopg.Cursor.copy = plain  # type: ignore[method-assign]


def spending(figures: dict[str, Any], times: int = 1, *, read: str = READ, rest: str = REST) -> list[str]:
    """The table of what the time of ours goes to, the longest first; small things are one line.

    `read` is what happens between two pieces of a COPY, `rest` what is left when all statements are counted.
    """
    spent: dict[str, float] = {}
    for sql, seconds in figures["statements"].items():
        words = read if sql == READ else in_words(sql)
        spent[words] = spent.get(words, 0.0) + seconds / times
    whole = figures.get("mean", figures["seconds"])
    known = sorted(((seconds, words) for words, seconds in spent.items()), reverse=True)
    shown = [(seconds, words) for seconds, words in known if seconds >= whole / 100]
    small = [(seconds, words) for seconds, words in known if seconds < whole / 100]
    lines = ["| Ours spends on | Milliseconds |", "|---|--:|"]
    lines += [f"| {words} | {seconds * 1000:.1f} |" for seconds, words in shown]
    if small:
        lines.append(f"| other statements, which are short | {sum(seconds for seconds, _ in small) * 1000:.1f} |")
    left = whole - sum(seconds for seconds, _ in known)
    return [*lines, f"| {rest} | {left * 1000:.1f} |", ""]


def in_words(sql: str) -> str:
    """What a statement is for; a statement that is not known stays as it is, with its beginning."""
    text = " ".join(sql.split())
    for pattern, words in WORDS.items():
        if re.match(pattern, text):
            return words
    shown = text.replace("|", "\\|")
    return f"`{shown[:90]}{'…' if len(shown) > 90 else ''}`"


WORDS = {
    re.escape(READ): READ,
    re.escape(WRITE): WRITE,
    "connect$|SET TimeZone": "connect and set up the connections",
    r".*\b(pg_attribute|pg_index|pg_class|pg_namespace)\b|.* LIMIT 0$": "look up columns, keys and sizes",
    r'.*"ematix_flow"\.': "keep and look up the records of runs and loads",
    "(BEGIN|COMMIT|SAVEPOINT|RELEASE|SELECT pg_advisory|SET LOCAL)": "begin, take turns, commit",
    "CREATE TEMPORARY TABLE _ematix_incoming": "bring the incoming rows into a temporary table",
    "CREATE TEMPORARY VIEW _ematix_incoming": "name the incoming rows",
    "CREATE TEMPORARY TABLE _ematix_change": "find the rows that differ from the target",
    "DROP (TABLE|VIEW) _ematix": "drop what was temporary",
    "ANALYZE": "let the server look at the incoming values: `ANALYZE`",
    'ALTER TABLE "mart"': "make the keys of a new table",
    r'SELECT COUNT\(\*\) FROM "?_ematix': "count the incoming rows",
    'SELECT "_change", COUNT': "count the changes of each kind",
    'SELECT .* FROM "_ematix_incoming" AS i (GROUP BY|WHERE)': "check that no key is missing or comes twice",
    r"SELECT COUNT\(\*\), COUNT\(CASE": "look at some rows, whether most of them are news",
    "SELECT pg_stat_get_xact": "ask what the change did",
    r'INSERT INTO "mart".* ON CONFLICT': "add new rows and overwrite changed ones: `INSERT … ON CONFLICT`",
    'INSERT INTO "mart"': "add rows to the target: `INSERT`",
    'UPDATE "mart"': "change rows of the target: `UPDATE`",
    'DELETE FROM "mart"': "remove rows from the target: `DELETE`",
}
"""How the beginning of a statement tells what it is for; the first that fits counts."""


def _bare(sql: object) -> str:
    return re.sub(r"'[^']*'", "'…'", str(sql))


def _timed(
    add: Callable[[str, float], None], label: Callable[..., str], call: Callable[..., Any]
) -> Callable[..., Any]:
    def run(*words: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return call(*words, **options)
        finally:
            add(label(*words), time.perf_counter() - begin)

    return run


def _timed_copy(add: Callable[[str, float], None], call: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def copy(*words: Any, **options: Any) -> Iterator[Any]:
        begin, inside = time.perf_counter(), 0.0
        writing: dict[str, float] = {}
        with call(*words, **options) as copied:
            opened = time.perf_counter()
            copied.write = _timed(
                lambda key, seconds: writing.update({key: writing.get(key, 0.0) + seconds}),
                lambda *_: WRITE,
                copied.write,
            )
            yield copied
            inside = time.perf_counter() - opened
        wrote = writing.get(WRITE, 0.0)
        add(READ, inside - wrote)
        add(WRITE, time.perf_counter() - begin - inside + wrote)

    return copy
