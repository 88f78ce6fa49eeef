"""The few SQL expressions that every dialect is built from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

__all__ = ["call", "choose", "joined", "one_of", "text_literal"]


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A function of the engine, by its own name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def choose(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Case:
    """The value beside the first true condition."""
    return exp.Case(ifs=[exp.If(this=condition, true=then) for condition, then in branches], default=default)


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
