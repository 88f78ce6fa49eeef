"""Runs the quickstart from beginning to end, with the real commands, in the folder `.demo` of the project.

The folder is made anew each time; nothing is written elsewhere.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / ".demo"
FLOW = Path(sys.executable).with_name("flow")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)

Customer = tuple[int, str | None, str, str | None, str | None]

CUSTOMERS: list[Customer] = [
    (1, "Ada.Lovelace@Example.com ", "Ada Lovelace", "UK", "2023-12-10"),
    (2, "grace@navy.example", "  Grace Hopper", "US", "12/09/2023"),
    (3, " ALAN@BLETCHLEY.EXAMPLE", "Alan Turing ", "uk", "2024-06-23T09:30:00Z"),
    (4, "", "Katherine Johnson", "us", "2024-08-26 14:05:00"),
    (5, "Margaret@Apollo.example", "Margaret Hamilton", " US ", "2024-08-17T08:00:00+02:00"),
    (6, "edsger@tue.example", "Edsger Dijkstra", "NL", "05/11/2024"),
    (7, "barbara@mit.example ", "Barbara Liskov", "us", "2024-11-07"),
    (8, None, "Donald Knuth", "US", "long ago"),
    (9, "Radia@Spanning.Tree.example", "Radia Perlman", "", "2025-01-18 07:45:12.250"),
    (10, "tim@cern.example", " Tim Berners-Lee ", "CH", "2025-03-12"),
    (11, "frances@ibm.example", "Frances Allen", "us", ""),
    (12, "Ken@Bell-Labs.example", "Ken Thompson", "US", "02/04/2025"),
]

CHANGES = (
    (
        "Grace Hopper has a new address",
        "UPDATE customers SET email = 'Grace.Hopper@Yale.example' WHERE customer_id = 2",
    ),
    ("Tim Berners-Lee moves to the US", "UPDATE customers SET country = 'us' WHERE customer_id = 10"),
    (
        "Ada Lovelace is typed again, with other capitals and spaces: the same customer",
        "UPDATE customers SET email = '  ada.lovelace@EXAMPLE.com', full_name = 'Ada Lovelace  ' WHERE customer_id = 1",
    ),
    (
        "Hedy Lamarr is new",
        "INSERT INTO customers VALUES (13, 'Hedy@Spectrum.example', ' Hedy Lamarr', 'AT', '2025-11-09')",
    ),
)

RETURNING = (2, 10)
"""The customers that the changes give a second version."""

NEXT_STEPS = """\
[bold]What to try next[/bold]
  . .venv/bin/activate && cd .demo         the project of this demo: its pipeline is in pipelines.py
  flow dry-run sync_customers              exact counts of a run that leaves nothing behind
  flow run sync_customers                  again: nothing changed, so nothing is written
  flow runs list                           every run, also the failed ones
  flow connections check warehouse         does the system answer?

  [dim]docs/tutorial.md builds a pipeline like this one step by step.[/dim]"""


def main() -> int:
    """Run the demo; the exit code is 0 only if every step worked."""
    started = time.monotonic()
    prepare()
    say("A table of raw customers", "SQLite, crm.db: twelve rows as people typed them")
    show_rows(CUSTOMERS)
    say("What the pipeline would do", "a preview opens nothing and writes nothing")
    flow("preview", "sync_customers")
    say("The first run", "Spark reads SQLite, cleans the rows and loads them into DuckDB")
    flow("run", "sync_customers", "--format", "text")
    say("The source changes")
    change_source()
    say("The second run", "only what changed becomes a new version")
    flow("run", "sync_customers", "--format", "text")
    say("The runs so far")
    flow("runs", "list")
    say("The history", "analytics.customer_dim in DuckDB, warehouse.duckdb; what the second run changed is highlighted")
    show_history()
    console.print()
    console.print(NEXT_STEPS)
    console.print(f"\nThe demo took {time.monotonic() - started:.0f} s.")
    return 0


def prepare() -> None:
    """A fresh folder with the quickstart's files and the raw table."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name in ("pipelines.py", ".ematix-flow.toml"):
        shutil.copy(HERE / name, FOLDER / name)
    with crm() as database:
        database.execute(
            'CREATE TABLE "raw.customers" '
            "(customer_id INTEGER, email TEXT, full_name TEXT, country TEXT, signed_up_at TEXT)"
        )
        database.executemany('INSERT INTO "raw.customers" VALUES (?, ?, ?, ?, ?)', CUSTOMERS)


def crm() -> sqlite3.Connection:
    """The source; SQLite has no schemas, so `raw.customers` is the whole name of the table."""
    return sqlite3.connect(FOLDER / "crm.db")


def change_source() -> None:
    """Let a day pass in the CRM."""
    with crm() as database:
        for story, statement in CHANGES:
            database.execute(statement.replace(" customers ", ' "raw.customers" ', 1))
            console.print(f"  • {story}")


def flow(*arguments: str) -> None:
    """Run a command of `flow` as anybody would; it shares this terminal, so its progress display works."""
    console.print(f"[bold green]$[/bold green] [bold]flow {shlex.join(arguments)}[/bold]")
    sys.stdout.flush()
    code = subprocess.run([FLOW, *arguments], cwd=FOLDER, env=environment(), check=False).returncode
    if code:
        raise StepFailedError(f"flow {shlex.join(arguments)} ended with exit code {code}; its message is above")


def environment() -> dict[str, str]:
    """The caller's variables without connections of theirs: a `warehouse` of the user must never be written to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EMATIX_FLOW_DSN", *OWN))}
    caches = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return {**kept, "HOME": str(FOLDER), "XDG_CACHE_HOME": caches}


OWN = ("EMATIX_FLOW_MODULES", "EMATIX_FLOW_STAGING_DIR")


class StepFailedError(Exception):
    """A step of the demo did not work."""


def say(title: str, explanation: str = "") -> None:
    """Begin a step."""
    console.print()
    console.rule(f"[bold]{title}[/bold]", align="left")
    if explanation:
        console.print(f"[dim]{explanation}[/dim]")


def show_rows(rows: list[Customer]) -> None:
    """The raw rows with their quotes, so that spaces can be seen."""
    table = Table("customer_id", "email", "full_name", "country", "signed_up_at", box=None, header_style="bold")
    for row in rows:
        table.add_row(str(row[0]), *(repr(value) for value in row[1:]))
    console.print(table)


def show_history() -> None:
    """Every version of every customer, oldest first."""
    table = Table(box=None, header_style="bold")
    for name in ("customer_id", "full_name", "email", "country", "valid_from", "valid_to", "is_current", ""):
        table.add_column(name, no_wrap=True)
    found = versions()
    for *values, is_current, is_changed in found:
        # The words say the same as the colours, for those who see none.
        word, style = ("", "") if not is_changed else ("← opened", "bold green") if is_current else ("← closed", "red")
        cells = ["—" if value is None else str(value) for value in values]
        table.add_row(*cells, "yes" if is_current else "", word, style=style)
    console.print(table)
    if sorted(row[0] for row in found) != sorted([*range(1, 14), *RETURNING]):
        raise StepFailedError(f"customers {RETURNING} should have two versions, and all others one")


def versions() -> list[tuple[object, ...]]:
    """The rows of the dimension; the last value says whether the newest load opened or closed the version."""
    import duckdb

    newest = "(SELECT max(loaded_at) FROM ematix_flow.loads)"
    try:
        with duckdb.connect(str(FOLDER / "warehouse.duckdb"), read_only=True) as database:
            return database.execute(
                "SELECT customer_id, full_name, email, country, strftime(valid_from, '%H:%M:%S'), "
                "strftime(valid_to, '%H:%M:%S'), is_current, "
                f"valid_from = {newest} OR valid_to IS NOT DISTINCT FROM {newest} "
                "FROM analytics.customer_dim ORDER BY customer_id, valid_from"
            ).fetchall()
    except duckdb.Error as error:
        raise StepFailedError(f"warehouse.duckdb cannot be read: {error}") from error


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (StepFailedError, OSError, sqlite3.Error) as error:
        console.print(f"\n[bold red]The demo stopped:[/bold red] {error}")
        console.print(f"Its files are in {FOLDER} for you to look at.")
        sys.exit(1)
