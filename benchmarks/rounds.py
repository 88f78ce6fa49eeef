"""Several runs of each contender, taken in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["best_runs"]


def best_runs(
    contenders: Iterable[str], rounds: int, once: Callable[[str], tuple[dict[str, Any], object]]
) -> dict[str, Any]:
    """The quickest run of each; `once` gives the figures of a run and a sum of the rows that it left.

    All have their turn before the next round begins, so that a slow minute of the machine meets everybody.
    """
    names = list(contenders)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    sums: dict[str, object] = {}
    for _ in range(rounds):
        for name in names:
            figures, sums[name] = once(name)
            runs[name].append(figures)
    if len(set(sums.values())) > 1:
        raise SystemExit(f"the contenders do not end with the same rows: {sums}")
    return {name: min(each, key=lambda run: run["seconds"]) for name, each in runs.items()}
