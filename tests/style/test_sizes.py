"""Files, functions and parameter lists stay small enough to read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.style.tree import PACKAGE, ROOT, SOURCES, label, parse

MOST_LINES = 600
MANY_LINES = 400
MOST_STATEMENTS = 40
MOST_PARAMETERS = 6
MOST_DOOR_PARAMETERS = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef

PYTHON = [
    path for folder in ("src", "tests", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]

# Doors, and the handle that users hold, take the documented keywords, which may be many.
DOORS = {"decorators.py", "pipeline.py", "connections.py", "df.py", "spark.py", "engine/handle.py"}


def functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def count_statements(function: Function) -> int:
    """Statements in the body, nested ones included, the docstring and nested functions not."""
    pending, count = list(function.body[ast.get_docstring(function) is not None :]), 0
    while pending:
        node = pending.pop()
        count += isinstance(node, ast.stmt)
        if not isinstance(node, Function | ast.ClassDef):
            pending.extend(
                child
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
            )
    return count


def parameters(function: Function) -> list[str]:
    """The names a caller may pass; ``self`` and ``cls`` are not among them."""
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def is_door(path: Path) -> bool:
    inner = path.relative_to(PACKAGE)
    return inner.parts[0] in {"cli", "web", "testing"} or inner.as_posix() in DOORS


def test_no_file_is_longer_than_the_limit() -> None:
    lengths = {label(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    for name, lines in lengths.items():
        if MANY_LINES < lines <= MOST_LINES:
            print(f"{name} has {lines} lines: think again above {MANY_LINES}")
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_functions_are_short(path: Path) -> None:
    sizes = {f"{node.name} (line {node.lineno})": count_statements(node) for node in functions(parse(path))}
    assert {name: size for name, size in sizes.items() if size > MOST_STATEMENTS} == {}


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_functions_take_few_parameters(path: Path) -> None:
    most = MOST_DOOR_PARAMETERS if is_door(path) else MOST_PARAMETERS
    sizes = {f"{node.name} (line {node.lineno})": len(parameters(node)) for node in functions(parse(path))}
    assert {name: size for name, size in sizes.items() if size > most} == {}


def test_statements_are_counted_in_every_branch() -> None:
    source = """
def f(x):
    '''Doc.'''
    try:
        if x:
            return 1
    except ValueError:
        raise
    match x:
        case 1:
            return 2
"""
    function = functions(ast.parse(source))[0]
    assert count_statements(function) == 6
