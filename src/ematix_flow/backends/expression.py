"""The few SQL expressions that every dialect is built from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from sqlglot import exp

__all__ = [
    "call",
    "cast_to",
    "choose",
    "filled",
    "first_characters",
    "joined",
    "literal_text",
    "one_of",
    "plain_text",
    "text_literal",
    "whole_number",
]


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A function of the engine, by its own name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def choose(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expression:
    """The value beside the first true condition; conditions whose truth is known already are not asked."""
    asked: list[exp.If] = []
    for condition, then in branches:
        if isinstance(condition, exp.Boolean) and condition.this:
            default = then
            break
        if not isinstance(condition, exp.Boolean):
            asked.append(exp.If(this=condition, true=then))
    if not asked:
        return exp.null() if default is None else cast("exp.Expression", default)
    return exp.Case(ifs=asked, default=default)


def cast_to(value: exp.Expr, type_name: str) -> exp.Cast:
    """A CAST to one of the engine's own types."""
    to = exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=type_name)
    return exp.Cast(this=value.copy(), to=to)


def filled(form: exp.Expr, value: exp.Expr) -> exp.Expression:
    """An expression with a value in each of its holes, which are placeholders."""
    copy = exp.Paren(this=form.copy())
    for hole in list(copy.find_all(exp.Placeholder)):
        hole.replace(value.copy())
    return copy


def whole_number(value: int) -> exp.Expr:
    """A whole number."""
    return exp.Literal.number(int(value))


def text_literal(text: str) -> exp.Expression:
    """A text in quotes."""
    return exp.Literal.string(text)


def one_of(value: exp.Expr, words: Iterable[str]) -> exp.In:
    """Whether the value is one of some words."""
    return exp.In(this=value, expressions=[text_literal(word) for word in words])


def joined(parts: Sequence[exp.Expr]) -> exp.Expression:
    """Texts one after the other, as a balanced tree: engines and sqlglot limit how deep an expression may be."""
    if len(parts) == 1:
        return exp.Paren(this=parts[0])
    middle = len(parts) // 2
    return exp.Paren(this=exp.DPipe(this=joined(parts[:middle]), expression=joined(parts[middle:]), safe=True))


def literal_text(number: exp.Expr) -> str:
    """A number that SQL text holds; a negative one is a minus sign before a number."""
    return f"-{number.this.name}" if isinstance(number, exp.Neg) else str(number.name)


def plain_text(given: exp.Expr) -> str:
    """A value that SQL text holds, as the text that says it."""
    match given:
        case exp.Boolean():
            return "true" if given.this else "false"
        case exp.Cast():
            return str(given.this.name)
        case _:
            return literal_text(given)


def first_characters(node: exp.Expr) -> exp.Expression:
    """The begin of a text: so many characters, or with a negative number all but so many."""
    text, count = node.expressions[0], int(literal_text(node.expressions[1]))
    one = exp.Literal.number(1)
    if count >= 0:
        return call("SUBSTR", text.copy(), one, exp.Literal.number(count))
    left = exp.Sub(this=call("LENGTH", text.copy()), expression=exp.Literal.number(-count))
    return call("SUBSTR", text.copy(), one, call("GREATEST", left, exp.Literal.number(0)))
