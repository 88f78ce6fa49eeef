"""Write the generated tables of the documentation: commands, keywords, settings, errors, what each system can do.

A page holds a table between `<!-- generated: NAME -->` and `<!-- end -->`. `python scripts/reference.py` writes them
again; `--check` only tells whether one is out of date, as a test does.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import typer

from ematix_flow import errors
from ematix_flow.backends.base import Backend, Capabilities
from ematix_flow.cli.app import app
from ematix_flow.config import Settings
from ematix_flow.spec import keywords
from ematix_flow.spec.connection import Connection, kind_class
from ematix_flow.strategies.base import Append, Replace, Upsert

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(<!-- generated: ([\w:-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def commands() -> str:
    """Every command with its arguments and options."""
    rows = [(f"`{usage}`", said, "<br>".join(options)) for usage, said, options in sorted(_commands())]
    return table(("Command", "What it does", "Options"), rows)


def _commands() -> Iterator[tuple[str, str, list[str]]]:
    def visit(command: Any, path: str) -> Iterator[tuple[str, str, list[str]]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from visit(child, f"{path} {name}")
        if not hasattr(command, "commands"):
            kinds = {kind: [each for each in command.params if each.param_type_name == kind] for kind in _KINDS}
            arguments = [each.metavar or each.name.upper() for each in kinds["argument"]]
            said = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
            yield " ".join([path, *arguments]), said, [_option(each) for each in kinds["option"]]

    yield from visit(typer.main.get_command(app), "flow")


_KINDS = ("argument", "option")


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    words = ", ".join(f"`{each}`" for each in type(option.default)) if isinstance(option.default, Enum) else ""
    values = f" ({words})" if words else ""
    return f"{names}{values}: {option.help}"


def settings() -> str:
    """Every setting with its key, its variable and its default."""
    said = _attribute_docs(Settings)
    rows = []
    for each in fields(Settings):
        if "key" in each.metadata:
            default = each.default if isinstance(each.default, str | bool) else None
            shown = "" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"
            variable = each.metadata.get("variable")
            key, text = each.metadata["key"], said[each.name]
            rows.append((f"`{each.name}`", f"`{key}`", f"`{variable}`" if variable else "", shown, text))
    return table(("Setting", "Key in the file", "Environment variable", "Default", "Meaning"), rows)


def _attribute_docs(cls: type) -> dict[str, str]:
    """The texts that stand below the attributes of a class."""
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for attribute, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(attribute, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(attribute.target)] = str(text.value.value)
    return found


def error_codes() -> str:
    """Every error with its class, its code, and whether a retry can help."""
    rows = []
    for name in errors.__all__:
        error = getattr(errors, name)
        if isinstance(error, type):
            builtin = [base.__name__ for base in error.__mro__ if base.__module__ == "builtins"]
            kinds = [word for word in builtin if word not in ("Exception", "BaseException", "object", "LookupError")]
            said = (error.__doc__ or "").strip().split("\n")[0].replace("``", "`")
            row = f"[`{error.code}`](#{error.code})", f"`{name}`", ", ".join(f"`{kind}`" for kind in kinds), said
            rows.append((*row, "yes" if error.transient else ""))
    return table(("Code", "Class", "Also a", "Meaning", "Try again"), sorted(rows))


def pipeline_keywords() -> str:
    """Every keyword of `@ematix.pipeline`, what it takes, and whether a target may have its own."""
    own = set(keywords.TargetOptions.__annotations__)
    rows = []
    for name, kind in _annotations(keywords.TargetOptions, keywords.PipelineOptions).items():
        taken = re.sub(r"\b(\w+)\b", lambda word: _LITERALS.get(word[1], word[1]), kind)
        rows.append((f"`{name}`", f"`{taken}`", "yes" if name in own else "no"))
    return table(("Keyword", "Takes", "Also of `ematix.target`"), rows)


_LITERALS = {
    name: " | ".join(map(repr, get_args(getattr(keywords, name))))
    for name in ("Mode", "DriftPolicy", "LatePolicy", "DuplicatePolicy", "ForcedPath")
}


def _annotations(*classes: type) -> dict[str, str]:
    """The annotations of classes as they are written, one after the other."""
    found = {}
    for cls in classes:
        (node,) = ast.parse(inspect.getsource(cls)).body
        assert isinstance(node, ast.ClassDef)
        found |= {
            ast.unparse(each.target): ast.unparse(each.annotation)
            for each in node.body
            if isinstance(each, ast.AnnAssign)
        }
    return found


def capabilities(kind: str) -> str:
    """What the system behind a kind of connection can do."""
    can = _backend(kind_class(kind)).can
    return table(("Question", "Answer"), [(question, answer(can)) for question, answer in _QUESTIONS])


def _modes(can: Capabilities) -> str:
    words = {Append: "`append`", Replace: "`truncate`", Upsert: "`merge`, `scd1`, `scd2`"}
    return ", ".join(word for change, word in words.items() if change in can.changes)


_QUESTIONS: tuple[tuple[str, Callable[[Capabilities], str]], ...] = (
    ("Modes", _modes),
    ("Loads inside it without Spark", lambda can: "yes" if can.pushed else "no"),
    ("Refuses duplicate keys itself", lambda can: "yes" if can.enforces_keys else "no, the load checks them"),
    ("A load is", lambda can: can.guarantee),
)


def _backend(connection: type[Connection]) -> type[Backend]:
    module, _, name = connection.backend.partition(":")
    found: type[Backend] = getattr(import_module(f"ematix_flow.backends.{module}"), name)
    return found


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "errors": error_codes,
    "keywords": pipeline_keywords,
    "settings": settings,
}


def generated(name: str) -> str:
    """The table of that name."""
    if name.startswith("capabilities:"):
        return capabilities(name.partition(":")[2])
    return TABLES[name]()


def rewritten(text: str) -> str:
    """A page with its tables made again."""
    return BLOCK.sub(lambda block: f"{block.group(1)}\n{generated(block.group(2))}\n{block.group(3)}", text)


def stale_pages(*, write: bool) -> list[Path]:
    """The pages whose tables are out of date; they are written again if asked for."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = rewritten(before)
        if after != before:
            found.append(page)
            if write:
                page.write_text(after, encoding="utf-8")
    return found


if __name__ == "__main__":
    check = "--check" in sys.argv
    stale = stale_pages(write=not check)
    sys.stdout.writelines(f"{'out of date' if check else 'written'}: {page.relative_to(DOCS)}\n" for page in stale)
    sys.exit(bool(check and stale))
