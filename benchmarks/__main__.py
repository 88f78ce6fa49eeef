"""Runs every case in a process of its own and prints the tables of `docs/benchmarks.md`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from . import data
from .mysql import mysql_section
from .peers import PEERS
from .postgres import PARTS, postgres_section

ROOT = Path(__file__).resolve().parent.parent
MODES = ("append", "truncate", "merge", "scd2")
CONTENDERS = {
    "pushed": "ours, inside the database",
    "sql": "the database's own SQL",
    "spark": "ours, files through Spark",
    "pyspark": "PySpark by hand: collect, insert, SQL",
}


def main() -> None:
    """Measure, print, and with --write keep the page."""
    arguments = _arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it: every contender's modules are compiled once
    only = ["start"] if arguments.quick else arguments.only
    lines = []
    for name, section in SECTIONS.items():
        if not only or name in only:
            lines += section(arguments)
    print("\n".join(lines))
    if arguments.write:
        head = [] if only else _head(arguments)
        _write(head, lines)


def _head(arguments: argparse.Namespace) -> list[str]:
    return [
        "# Benchmarks",
        "",
        (
            f"Each figure comes from one run of `{' '.join(['python -m benchmarks', *sys.argv[1:]])}` on one machine; "
            "compare within a table, not across machines. `make bench` measures with more rows."
        ),
        (
            f"This run: {os.cpu_count()} cores, Python {platform.python_version()}, {arguments.rows:,} rows "
            f"of six columns per load, best of {arguments.repeat}."
        ),
        "",
    ]


def _write(head: list[str], lines: list[str]) -> None:
    """Put the sections into the page: over those of the same titles, or at the end; a head begins a new page."""
    page = ROOT / "docs" / "benchmarks.md"
    kept = _by_title(head or page.read_text(encoding="utf-8").splitlines())
    sections = kept | _by_title(lines)
    page.write_text("\n".join(line for each in sections.values() for line in each) + "\n", encoding="utf-8")


def _by_title(lines: list[str]) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if line.startswith("## "):
            title = line
        sections.setdefault(title, []).append(line)
    return sections


def start_table() -> list[str]:
    """Import time, and a session's start with and without the class-data archive."""
    bare = _seconds([sys.executable, "-c", "pass"])
    package = _seconds([sys.executable, "-c", "import ematix_flow"])
    help_ = _seconds([sys.executable, "-c", "from ematix_flow.cli import main; main()", "--help"])
    starts = {
        flag: _seconds([sys.executable, "-m", "benchmarks.start", flag], times=3) for flag in ("plain", "archive")
    }
    return [
        "## Start",
        "",
        "| What | Seconds |",
        "|---|--:|",
        f"| `import ematix_flow`, beyond Python itself | {max(package - bare, 0):.3f} |",
        f"| `flow --help`, whole | {help_:.2f} |",
        f"| Spark session to first result, plain | {starts['plain']:.1f} |",
        f"| the same with the class-data archive | {starts['archive']:.1f} |",
        f"| ratio | {starts['plain'] / starts['archive']:.2f} |",
        "",
    ]


def strategy_tables(rows: int, repeat: int) -> list[str]:
    """Every strategy on both databases, ours beside the alternatives."""
    lines = []
    for system in ("duckdb", "sqlite"):
        lines += [f"## Strategies on {system}", ""]
        lines += [
            "| Mode | Contender | Rows/s | Ratio to its rival | Python MiB | Java MiB |",
            "|---|---|--:|--:|--:|--:|",
        ]
        for mode in MODES:
            figures = {name: _best(name, system, mode, rows, repeat) for name in CONTENDERS}
            rivals = {"pushed": "sql", "spark": "pyspark"}
            for name, label in CONTENDERS.items():
                mine = figures[name]
                rival = rivals.get(name)
                ratio = f"{figures[rival]['seconds'] / mine['seconds']:.2f}×" if rival else ""
                lines.append(
                    f"| {mode} | {label} | {rows / mine['seconds']:,.0f} | {ratio} "
                    f"| {mine['python_mib']:,.0f} | {mine['java_mib']:,.0f} |"
                )
        lines.append("")
    lines += ["A ratio above 1 means that ours took less time than the line below it.", ""]
    return lines


def memory_table(rows: int) -> list[str]:
    """A large append through Spark with a heap of 1 GiB: memory must not grow with the data."""
    lines = ["## Memory", "", "An append of files through Spark, driver heap 1 GiB.", ""]
    lines += ["| Rows | Target | Seconds | Python MiB | Java MiB |", "|--:|---|--:|--:|--:|"]
    for size in (rows // 10, rows):
        for system in ("duckdb", "sqlite"):
            got = _best("spark", system, "append", size, 1)
            lines.append(
                f"| {size:,} | {system} | {got['seconds']:.1f} | {got['python_mib']:,.0f} | {got['java_mib']:,.0f} |"
            )
    lines.append("")
    return lines


SECTIONS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "start": lambda _: start_table(),
    "strategies": lambda arguments: strategy_tables(arguments.rows, arguments.repeat),
    "memory": lambda arguments: memory_table(arguments.large),
    "postgres": postgres_section,
    "mysql": mysql_section,
}


def _best(contender: str, system: str, mode: str, rows: int, repeat: int) -> dict[str, float]:
    runs = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="flow-bench-") as folder:
            _make(Path(folder), contender, system, rows)
            runs.append(_case(contender, system, mode, folder))
    return min(runs, key=lambda run: run["seconds"])


def _make(folder: Path, contender: str, system: str, rows: int) -> None:
    if contender in ("spark", "pyspark"):
        data.make_parquet(folder / "files", rows)
    elif system == "duckdb":
        data.make_duckdb(folder / "bench.duckdb", rows)
    else:
        data.make_sqlite(folder / "bench.sqlite", rows)


def _case(*words: str) -> dict[str, float]:
    print(f"… {' '.join(words[:3])}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.case", *words]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{answer.stderr}")
    figures: dict[str, float] = json.loads(answer.stdout.strip().splitlines()[-1])
    return figures


def _seconds(command: list[str], times: int = 7) -> float:
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        took.append(time.perf_counter() - begin)
    return median(took)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, help="rows of every large load; by default each section has its own number")
    parser.add_argument("--large", type=int, default=20_000_000, help="rows of the memory table's larger load")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each case; the best one counts")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="only this section; may be repeated")
    parser.add_argument("--quick", action="store_true", help="only the start-up table")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md too")
    group = parser.add_argument_group("postgres")
    group.add_argument(
        "--pg-rows", type=_sizes, help="rows of the bulk loads; several sizes with commas, peers run with the first"
    )
    group.add_argument("--wide", action="store_true", help="thirty columns instead of six in the bulk loads")
    group.add_argument("--pg-held", type=int, default=1_000_000, help="rows of the table that changes are merged into")
    group.add_argument("--pg-changes", type=int, default=100_000, help="rows that are merged")
    group.add_argument("--pg-small", type=int, default=10_000, help="rows of the small load")
    group.add_argument(
        "--pg-part", action="append", choices=PARTS, help="only this part of the section; may be repeated"
    )
    group.add_argument("--no-spark", action="store_true", help="leave out who needs Spark")
    group.add_argument(
        "--peers", help=f"other tools to measure: all, none or some of {', '.join(PEERS)}; by default those installed"
    )
    group = parser.add_argument_group("mysql")
    group.add_argument("--my-rows", type=int, help="rows of the bulk loads")
    group.add_argument("--my-held", type=int, default=1_000_000, help="rows of the table that changes are merged into")
    group.add_argument("--my-changes", type=int, default=100_000, help="rows that are merged")
    arguments = parser.parse_args()
    if arguments.write and (len({"frame", "copy"} & {*(arguments.pg_part or ())}) == 1 or arguments.no_spark):
        parser.error("--write keeps whole sections: leave --no-spark out, and take the parts frame and copy together")
    arguments.pg_rows = arguments.pg_rows or [arguments.rows or 2_000_000]
    arguments.my_rows = arguments.my_rows or arguments.rows or 1_000_000
    arguments.rows = arguments.rows or 1_000_000
    return arguments


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    if shutil.which("java") is None:
        raise SystemExit("Java is needed: run `make bench`, which sees to it")
    main()
