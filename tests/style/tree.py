"""The project's own files, as the style tests look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

__all__ = ["PACKAGE", "ROOT", "SOURCES", "label", "module_name", "pages", "parse", "texts"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ematix_flow"
SOURCES = sorted(PACKAGE.rglob("*.py"))

_CODE_FOLDERS = ("src", "tests", "examples", "benchmarks", "scripts", "docs", ".ci")
_TEXT_SUFFIXES = {".py", ".md", ".sh", ".toml", ".yml", ".yaml", ".sql", ".html", ".js", ".css", ""}


def label(path: Path) -> str:
    """The path as people write it, for test ids and messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """The dotted name under which a source file is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def pages() -> list[Path]:
    """Every Markdown page: those of the root, the documentation and the examples."""
    nested = (page for folder in ("docs", "examples") for page in (ROOT / folder).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *nested])


def texts() -> list[Path]:
    """Every file that people write, code and prose."""
    nested = (path for folder in _CODE_FOLDERS for path in (ROOT / folder).rglob("*"))
    at_root = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "mkdocs.yml", *ROOT.glob("*.md")]
    return sorted(
        path
        for path in [*at_root, *nested]
        if path.is_file() and path.suffix in _TEXT_SUFFIXES and "__pycache__" not in path.parts
    )
