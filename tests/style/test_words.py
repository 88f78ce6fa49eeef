"""The words of the project: no diary, no vague names, no place on somebody's machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.style.tree import SOURCES, label, module_name, pages, parse, texts

DIARY = {
    "a note to self": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "a promise about later": re.compile(r"\bfor now\b", re.IGNORECASE),
    "a phase of the work": re.compile(r"\bPhase\b|\bphase \d"),
    "a defect number": re.compile(r"\bW-\d\d\b"),
    "a working session": re.compile(r"\b[Ss]ession \d"),
    "a task or issue number": re.compile(r"\b([Tt]ask|[Ii]ssue) #?\d"),
    "a path on one machine": re.compile(r"(?<![\w.}*)-])/(work|root|home)(?=/|\b)(?!-)"),
}
FILLERS = re.compile(r"\b(simply|just|obviously)\b", re.IGNORECASE)
VAGUE_MODULES = {"common", "core", "helper", "helpers", "misc", "util", "utils"}
VAGUE_CLASSES = re.compile(r"(Manager|Helper|Util|Utils|Handler|Impl|Wrapper|Processor)$")

# This file has to name what it forbids.
SCANNED = [path for path in texts() if path != Path(__file__).resolve()]


def diary_lines(text: str) -> list[str]:
    return [
        f"line {number}: {meaning}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        for meaning, pattern in DIARY.items()
        if pattern.search(line)
    ]


@pytest.mark.parametrize("path", SCANNED, ids=label)
def test_nothing_reads_like_a_diary(path: Path) -> None:
    assert diary_lines(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "# TODO: later",
        "good enough for now",
        "# Phase 2",
        "see W-07",
        "in session 3 we",
        "issue #12",
        'open("/root/x")',
        "cd /work/main",
        "/home/someone/.cache",
    ],
)
def test_a_line_of_a_diary_is_found(line: str) -> None:
    assert len(diary_lines(line)) == 1


@pytest.mark.parametrize("line", ["two-phase commit", "https://example.org/home/page", "./work/x", "one Spark session"])
def test_an_innocent_line_is_left_alone(line: str) -> None:
    assert diary_lines(line) == []


@pytest.mark.parametrize("path", pages(), ids=label)
def test_pages_have_no_filler_words(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [f"line {number}: {line}" for number, line in enumerate(lines, 1) if FILLERS.search(line)] == []


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_modules_and_classes_have_telling_names(path: Path) -> None:
    # `_core` is a documented import path of the public surface.
    assert VAGUE_MODULES.isdisjoint(module_name(path).split("."))
    found = [node.name for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]
    assert [name for name in found if VAGUE_CLASSES.search(name)] == []
