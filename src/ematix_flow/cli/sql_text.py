"""SQL laid out for reading: long lines are broken before their clauses, and nothing but white space changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WIDTH = 100
_SHORT_QUERY = 60
"""Characters of a query in brackets that stays on its line."""

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\w+|.""", re.DOTALL)
_JOIN = r"(?:(?:LEFT|RIGHT|FULL|INNER|CROSS|ASOF)\s+)?(?:(?:OUTER|SEMI|ANTI)\s+)?JOIN"
_CLAUSE = re.compile(
    r"(?:WITH|SELECT|FROM|WHERE|GROUP\s+BY|HAVING|QUALIFY|ORDER\s+BY|LIMIT|UNION|EXCEPT|INTERSECT|SET|VALUES|"
    rf"ON\s+CONFLICT|DO\s+UPDATE|{_JOIN})\b",
    re.IGNORECASE,
)
_NOT_AFTER = {
    "FROM": {"DELETE", "DISTINCT"},
    "JOIN": {"ANTI", "ASOF", "CROSS", "FULL", "INNER", "LEFT", "OUTER", "RIGHT", "SEMI"},
    "SET": {"UPDATE"},
}
"""A word of a clause, and the words after which it begins none."""


def laid_out(sql: str) -> str:
    """The statement with its long lines broken; lines that fit, and texts in quotes, stay as they are."""
    if any("\n" in token for token in _TOKEN.findall(sql) if len(token) > 1):
        return sql  # a break inside a text would be a different text
    lines = (_broken(line) if len(line) > _WIDTH else [line] for line in sql.split("\n"))
    return "\n".join(piece for pieces in lines for piece in pieces)


def _broken(line: str) -> Iterator[str]:
    for indent, clause in _clauses(line):
        if clause.strip():
            yield from _filled(" " * indent, clause.strip())


def _clauses(line: str) -> Iterator[tuple[int, str]]:
    """The clauses of a line, each with its indent: two for every query around it."""
    tokens = _TOKEN.findall(line)
    queries = _long_queries(tokens)
    levels: list[bool] = []
    clause, indent, offset, previous = "", 0, 0, ""
    for index, token in enumerate(tokens):
        ends_query = token == ")" and bool(levels) and levels.pop()
        is_in_query = not levels or levels[-1]
        if ends_query or (is_in_query and _begins_clause(line, offset, previous)):
            yield indent, clause
            clause, indent = "", 2 * sum(levels)
        if token == "(":
            levels.append(index in queries)
        clause, offset = clause + token, offset + len(token)
        previous = previous if token.isspace() else token.upper()
    yield indent, clause


def _long_queries(tokens: list[str]) -> set[int]:
    """The opening brackets around queries that are worth lines of their own."""
    opened, found = [], set()
    for index, token in enumerate(tokens):
        if token == "(":
            opened.append(index)
        elif token == ")" and opened:
            start = opened.pop()
            inner = "".join(tokens[start + 1 : index]).strip()
            if len(inner) > _SHORT_QUERY and inner.upper().startswith(("SELECT", "WITH")):
                found.add(start)
    return found


def _begins_clause(line: str, offset: int, previous: str) -> bool:
    found = _CLAUSE.match(line, offset)
    is_inside_word = offset > 0 and (line[offset - 1].isalnum() or line[offset - 1] in "_.")
    return found is not None and not is_inside_word and previous not in _NOT_AFTER.get(found[0].upper(), ())


def _filled(indent: str, clause: str) -> Iterator[str]:
    """A clause in lines of at most `_WIDTH`, broken after commas outside brackets where that is possible."""
    line = indent
    for part in _parts(clause):
        if line.strip() and len(line) + len(part.rstrip()) > _WIDTH:
            yield line.rstrip()
            line, part = f"{indent}    ", part.lstrip()
        line += part
    yield line.rstrip()


def _parts(clause: str) -> Iterator[str]:
    depth, part = 0, ""
    for token in _TOKEN.findall(clause):
        depth += (token == "(") - (token == ")")
        part += token
        if token == "," and depth <= 0:
            yield part
            part = ""
    yield part
