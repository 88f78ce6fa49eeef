"""Users' queries as text: table names replaced, the final semicolon taken off, and nothing else touched."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import TokenType, exp, parse_one, tokenize
from sqlglot.errors import SqlglotError

from ..errors import SpecError

__all__ = ["check_query", "check_statement", "is_query", "is_several", "replace_tables", "strip_terminator"]


def replace_tables(sql: str, dialect: str, rename: Callable[[str, str], str | None]) -> str:
    """The query with each table for which `rename(schema, name)` gives a text replaced by that text.

    A replaced table keeps its bare name as an alias unless it has one, so that `customers.id` and `raw.customers.id`
    still mean a column of it. Only names are cut out of the text; the rest stays as it was written. A query that cannot
    be parsed stays whole, so that the system that runs it reports what is wrong with it.
    """
    try:
        tree = parse_one(sql, read=dialect)
    except SqlglotError:
        return sql
    local = {cte.alias_or_name.casefold() for cte in tree.find_all(exp.CTE)}
    cuts: list[tuple[int, int, str]] = []
    replaced = set()
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.catalog:
            continue
        if not table.db and table.name.casefold() in local:
            continue
        new = rename(table.db, table.name)
        if new is not None:
            first = table.args.get("db") or table.this
            cuts.append((first.meta["start"], table.this.meta["end"] + 1, new + _alias(table, dialect)))
            replaced.add(_folded(table.args.get("db"), table.this))
    for column in tree.find_all(exp.Column):
        schema, owner = column.args.get("db"), column.args.get("table")
        if schema is None or owner is None or column.catalog:
            continue
        if _folded(schema, owner) in replaced:
            cuts.append((schema.meta["start"], owner.meta["start"], ""))
    for start, end, new in sorted(cuts, reverse=True):
        sql = sql[:start] + new + sql[end:]
    return sql


def strip_terminator(sql: str, dialect: str | None = None) -> str:
    """The statement without the semicolons at its end, and without the comments that follow them."""
    try:
        tokens = tokenize(sql, read=dialect)
    except SqlglotError:
        return sql.strip()
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        sql = sql[: tokens.pop().start]
    return sql.strip()


def check_statement(sql: str, dialect: str) -> None:
    """Raise SpecError unless `sql` is one statement that leaves transactions to the connection."""
    words = _words(sql, dialect)
    if not words:
        raise SpecError("a statement cannot be empty")
    if words[0] in _CONTROL:
        hint = "pass statements that belong together to execute_in_transaction"
        raise SpecError(f"{words[0]} is not a statement to run: transactions are the connection's own", hint=hint)
    if is_several(sql, dialect):
        hint = "pass one statement at a time, or several to execute_in_transaction as a list"
        raise SpecError("there are several statements in one text", hint=hint)


def is_several(sql: str, dialect: str) -> bool:
    """Whether a text holds more than one statement."""
    words = _words(sql, dialect)
    # The body of a trigger holds statements; a database that has them counts for itself.
    return ";" in words and "TRIGGER" not in words[:4]


def check_query(sql: str, dialect: str) -> None:
    """Raise SpecError unless `sql` is one statement that only reads."""
    check_statement(sql, dialect)
    if not is_query(sql, dialect):
        raise SpecError("a query only reads, and this statement changes something", hint="pass it to execute")


def is_query(sql: str, dialect: str) -> bool:
    """Whether a statement only reads, as far as its text tells; what cannot be parsed is judged by its first word."""
    words = _words(sql, dialect)
    if not words or words[0] not in _READING:
        return False
    if words[0] == "PRAGMA":
        return "=" not in words
    if words[0] == "EXPLAIN":  # with ANALYZE, it runs what it explains
        return _CHANGING.isdisjoint(words)
    try:
        tree = parse_one(strip_terminator(sql, dialect), read=dialect)
    except SqlglotError:
        return True
    return tree.find(exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Into) is None


_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CONTROL = frozenset("BEGIN START COMMIT END ROLLBACK ABORT SAVEPOINT RELEASE".split())
_READING = frozenset("SELECT WITH VALUES FROM TABLE ( SHOW DESCRIBE DESC EXPLAIN SUMMARIZE PRAGMA PIVOT".split())
_CHANGING = frozenset("INSERT UPDATE DELETE MERGE REPLACE CREATE ALTER DROP TRUNCATE COPY".split())


def _words(sql: str, dialect: str) -> list[str]:
    """The words of a statement in capitals, without the semicolons at its end."""
    try:
        tokens = tokenize(sql, read=dialect)
    except SqlglotError:
        return sql.upper().split()
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    words: list[str] = []
    for token in tokens:
        if token.token_type == TokenType.STRING and len(words) == 1 and tokens[0].token_type == TokenType.COMMAND:
            words += _words(token.text, dialect)  # the rest of a statement that the tokenizer does not look into
        elif token.token_type in _QUOTED:
            words.append("''")
        else:
            words.append(token.text.upper())
    return words


# These stand between a table and its alias, or leave no place for one.
_BEFORE_ALIAS = ("sample", "pivots", "when", "version", "changes", "match_recognize", "ordinality")


def _alias(table: exp.Table, dialect: str) -> str:
    if table.alias or any(table.args.get(part) for part in _BEFORE_ALIAS):
        return ""
    return f" AS {exp.to_identifier(table.name, quoted=True).sql(dialect)}"


def _folded(schema: exp.Expr | None, name: exp.Expr) -> tuple[str, str]:
    return (schema.name.casefold() if schema is not None else "", name.name.casefold())
