"""Writes docs/reference/connection-kinds.md from the records: every kind with its fields, URL schemes and defaults.

Run `.venv/bin/python scripts/connection_kinds.py` after a change to a record; a test compares page and records.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, Field
from itertools import pairwise
from pathlib import Path

from ematix_flow.spec.connection import KINDS, Connection, is_required, kind_class, own_fields
from ematix_flow.spec.redaction import is_secret

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "connection-kinds.md"

HEAD = """\
# Kinds of connections

Every kind, from the records in `ematix_flow.connections`. A kind that this version cannot open yet can be declared,
listed and checked for mistakes; opening it is an `UnsupportedError`. How to declare a connection, and where one is
looked for, is told in [Connections](connections.md) and [how to connect a system](../how-to/connections.md).

A field without a default is required. A field that is marked as secret is never shown. Each field can be set by a
variable `EMATIX_FLOW_<KIND>_<NAME>_<FIELD>`, in capitals.
"""


def page() -> str:
    """The page as it should be."""
    return "\n".join([HEAD, _overview(), *map(_section, sorted(KINDS))])


def _overview() -> str:
    lines = ["| Kind | Class | URL schemes | This version |", "|---|---|---|---|"]
    for kind in sorted(KINDS):
        cls = kind_class(kind)
        schemes = ", ".join(f"`{scheme}://`" for scheme in cls.schemes)
        opens = "opens it" if cls.can_open() else "declares it"
        lines.append(f"| [`{kind}`](#{kind}) | `{cls.__name__}` | {schemes} | {opens} |")
    return "\n".join(lines) + "\n"


def _section(kind: str) -> str:
    cls = kind_class(kind)
    lines = [f"## {kind} {{ #{kind} }}\n", f"`{cls.__name__}`. {inspect.cleandoc(cls.__doc__ or '')}\n"]
    if cls.schemes:
        lines.append(f"URL: `{_url_form(cls)}`\n")
    fields = [each for each in own_fields(cls) if each.name != "name"]
    if fields:
        meanings = _meanings(cls)
        lines += ["| Field | Type | Default | Meaning |", "|---|---|---|---|"]
        for each in fields:
            kind_text = str(each.type).replace("|", "or")
            secret = "; secret" if is_secret(each.name) else ""
            lines.append(f"| `{each.name}` | {kind_text}{secret} | {_default(each)} | {meanings[each.name]} |")
        lines.append("")
    return "\n".join(lines)


def _url_form(cls: type[Connection]) -> str:
    scheme = cls.schemes[0]
    if not cls.url_parts:
        path = "" if not any(each.name == "path" for each in own_fields(cls)) else "/<path>"
        return f"{scheme}://{path}" if cls.url_field not in {each.name for each in own_fields(cls)} else f"{scheme}://…"
    part = {name: f"<{field}>" for name, field in cls.url_parts.items()}
    login = part.get("user", "") + (f":{part['password']}" if "password" in part else "")
    host = part.get("host", "") + (f":{part['port']}" if "port" in part else "")
    path = "".join(f"/{part[name]}" for name in ("path", "first", "second") if name in part)
    return f"{scheme}://{login}{'@' if login else ''}{host}{path}?<field>=…"


def _default(each: Field[object]) -> str:
    if is_required(each):
        return "**required**"
    if each.default is MISSING or each.default is None:
        return "none"
    return f"`{each.default!r}`" if each.default != "" else "empty"


def _meanings(cls: type[Connection]) -> dict[str, str]:
    """The text below each field in its class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    meanings = {}
    for node, following in pairwise(body):
        match node, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                meanings[name] = " ".join(text.split())
    return meanings


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
