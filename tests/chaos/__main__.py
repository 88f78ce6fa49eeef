"""Hundreds of loads that are killed, cut off or disturbed: ``python -m tests.chaos --runs 500 --seed 0``.

Prints a line for each kind of fault. The exit code is 1 if any run lost, doubled or tore a row.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from tests.backends.crash_run import load_modules
from tests.chaos.databases import DATABASES, opened
from tests.chaos.runs import ALL, Verdict, run, scenario_of, seeds_text
from tests.chaos.spark import cluster

COLUMNS = ("runs", "committed", "rolled back", "replayed", "repaired", "wrong")
Job = tuple[int, str]


def main(arguments: Sequence[str]) -> int:
    """Do the runs, print what became of them; gives the exit code."""
    options = parse(arguments)
    names = tuple(DATABASES) if options.database == "both" else (options.database,)
    seeds = [*range(options.seed, options.seed + options.runs), *options.also]
    jobs = [(seed, name) for seed in seeds for name in names]
    through_spark = [(seed, name) for seed in range(options.seed, options.seed + options.spark) for name in names]
    load_modules()
    verdicts = list(shown(work_all(jobs, names, options.jobs), len(jobs))) if jobs else []
    if through_spark:
        found = work_all(through_spark, names, 1, spark=True)
        verdicts += shown(found, len(through_spark))
    jobs += through_spark
    print(table(verdicts))
    wrong = sorted((each for each in verdicts if each.wrong), key=lambda each: each.scenario.seed)
    print(*seeds_text(wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong or len(verdicts) < len(jobs) else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="how many seeds, each on every chosen database")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--also", type=int, nargs="*", default=[], help="further seeds")
    parser.add_argument("--spark", type=int, default=0, help="how many seeds through Spark, which take seconds each")
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="workers, each with servers of its own")
    return parser.parse_args(arguments)


def work_all(jobs: Sequence[Job], names: tuple[str, ...], workers: int, *, spark: bool = False) -> Iterator[Verdict]:
    """The verdicts of all jobs, as they come."""
    fork = multiprocessing.get_context("fork")
    todo, done = fork.SimpleQueue(), fork.SimpleQueue()
    team = [fork.Process(target=work, args=(todo, done, names, spark)) for _ in range(min(workers, len(jobs)))]
    for worker in team:
        worker.start()
    for job in [*jobs, *(None for _ in team)]:
        todo.put(job)
    left = len(team)
    try:
        while left:
            answer = done.get()
            if answer is None:
                left -= 1
            else:
                yield answer
    finally:
        for worker in team:
            worker.terminate() if left else worker.join()


def work(todo: Any, done: Any, names: tuple[str, ...], spark: bool) -> None:
    """Take jobs until there are none left; servers are stopped whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with opened(names) as databases, cluster() if spark else nullcontext() as session:
            while (job := todo.get()) is not None:
                seed, name = job
                scenario = scenario_of(seed, name, spark=spark)
                try:
                    done.put(run(scenario, databases[name], lambda: session))
                except (RuntimeError, AssertionError, TimeoutError, OSError) as error:
                    traceback.print_exc()
                    done.put(Verdict(scenario, "", wrong=[f"the run could not be done: {error}"]))
    finally:
        done.put(None)


def shown(verdicts: Iterable[Verdict], total: int) -> Iterator[Verdict]:
    """The verdicts, while a bar tells how many there are."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=total)
        wrong = 0
        for verdict in verdicts:
            wrong += bool(verdict.wrong)
            progress.update(task, advance=1, description=f"runs, {wrong} wrong" if wrong else "runs")
            yield verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each kind of fault and database."""
    lines = [f"{'fault':24}{'database':>10}" + "".join(f"{name:>13}" for name in COLUMNS) + f"{'s per run':>13}"]
    for name in ALL:
        for database in DATABASES:
            chosen = [each for each in verdicts if (each.scenario.fault, each.scenario.database) == (name, database)]
            if chosen:
                lines.append(line(name, database, chosen))
    lines.append(line("all", "", verdicts))
    return "\n".join(lines)


def line(name: str, database: str, verdicts: Sequence[Verdict]) -> str:
    """What became of some runs."""
    counts = Counter[str](runs=len(verdicts))
    for each in verdicts:
        counts["committed" if each.committed else "rolled back"] += 1
        counts["replayed"] += each.replayed
        counts["repaired"] += each.repaired
        counts["wrong"] += bool(each.wrong)
    seconds = sum(each.seconds for each in verdicts) / max(1, len(verdicts))
    return f"{name:24}{database:>10}" + "".join(f"{counts[column]:>13}" for column in COLUMNS) + f"{seconds:>13.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
