"""Public names are documented, and every ``__all__`` is sorted and true."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.style.tree import SOURCES, label, module_name, parse

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

PUBLIC = [path for path in SOURCES if not any(part.startswith("_") for part in module_name(path).split("."))]
# The names of a command line are its commands.
LISTED = [path for path in PUBLIC if parse(path).body and not module_name(path).startswith("ematix_flow.cli")]


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_") and not is_variant(node):
            yield node


def is_variant(node: Definition) -> bool:
    """Whether the definition belongs to another one that has the docstring: an overload, a setter."""
    texts = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(text.endswith(("overload", ".setter", ".deleter", ".register")) for text in texts)


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """Every class of the package by its bare name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def bases(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The classes of this package that a class builds on, at any depth."""
    for base in node.bases:
        bare = re.sub(r"\[.*", "", ast.unparse(base)).rpartition(".")[2]
        for candidate in classes().get(bare, []):
            if candidate is not node:
                yield candidate
                yield from bases(candidate)


def protocols(tree: ast.Module) -> list[ast.ClassDef]:
    """The protocols of a module: its other classes may fulfil them without naming them."""
    found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [node for node in found if any(ast.unparse(base).startswith("Protocol") for base in node.bases)]


def inherits_docstring(method: Definition, owner: ast.ClassDef, tree: ast.Module) -> bool:
    return any(
        isinstance(node, Definition) and node.name == method.name and ast.get_docstring(node) is not None
        for base in (*bases(owner), *protocols(tree))
        for node in base.body
    )


def undocumented(path: Path) -> Iterator[str]:
    tree = parse(path)
    if tree.body and ast.get_docstring(tree) is None:
        yield "the module"
    for node in public_definitions(tree.body):
        if ast.get_docstring(node) is None:
            yield node.name
        if isinstance(node, ast.ClassDef):
            for member in public_definitions(node.body):
                if ast.get_docstring(member) is None and not inherits_docstring(member, node, tree):
                    yield f"{node.name}.{member.name}"


def sort_key(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """The order ruff keeps: constants, then classes, then the rest; numbers inside names count as numbers."""
    rank = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return rank, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def exports(path: Path) -> list[str]:
    return list(getattr(importlib.import_module(module_name(path)), "__all__", []))


@pytest.mark.parametrize("path", PUBLIC, ids=label)
def test_public_names_have_docstrings(path: Path) -> None:
    assert list(undocumented(path)) == []


@pytest.mark.parametrize("path", LISTED, ids=label)
def test_a_module_with_public_definitions_lists_them(path: Path) -> None:
    defined = {node.name for node in public_definitions(parse(path).body)}
    assert sorted(defined - set(exports(path))) == [], "name it with an underscore or add it to __all__"


@pytest.mark.parametrize("path", LISTED, ids=label)
def test_every_listed_name_exists_once(path: Path) -> None:
    module, names = importlib.import_module(module_name(path)), exports(path)
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", LISTED, ids=label)
def test_listed_names_are_sorted(path: Path) -> None:
    assert exports(path) == sorted(exports(path), key=sort_key)


def test_the_order_is_constants_then_classes_then_functions() -> None:
    assert sorted(["b", "a10", "a9", "Beta", "ALPHA", "JSONB", "JSON"], key=sort_key) == [
        "ALPHA", "JSON", "JSONB", "Beta", "a9", "a10", "b",
    ]  # fmt: skip
