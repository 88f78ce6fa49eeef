"""How the columns of a class are read: its annotations and those of its bases, and the `Column` values in its body."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, ForwardRef, Union, get_args, get_origin

from ..errors import SpecError, SpecTypeError
from ..markers import natural_key, nullable, pk
from ..normalize import is_normalizer
from ..types import Column, NullableType, resolve_type
from .origin import Origin, declared_at

__all__ = ["Declaration", "Marked", "find_declaration", "read_annotation", "read_columns"]


@dataclass(frozen=True)
class Marked:
    """A column as its annotation describes it, with the groups of its natural keys."""

    column: Column
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declaration:
    """A class that is being declared, where, and the local names that its annotations may use."""

    cls: type
    origin: Origin | None
    local_names: Mapping[str, object]

    def error(self, problem: str, *, kind: type[SpecError] = SpecTypeError, hint: str | None = None) -> SpecError:
        """An error about this class, ready to be raised."""
        return kind(f"class {self.cls.__qualname__!r}: {problem}", hint=hint, declared_at=self.origin)

    def required(self, dunder: str) -> str:
        """The text that the class must have as its attribute ``dunder``."""
        value = getattr(self.cls, dunder, None)
        if not isinstance(value, str):
            problem = f"{dunder} is missing" if value is None else f"{dunder} is text, not {value!r}"
            raise self.error(problem, hint=f'write {dunder} = "…" in its body, or use @ematix.table(schema="…")')
        return value

    def columns_named(self, dunder: str, value: object) -> tuple[str, ...]:
        """The names in ``value``, which the class has given as its attribute ``dunder``."""
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise self.error(f"{dunder} is a tuple of column names, not {value!r}", hint='write ("column",)')
        return tuple(value)


def find_declaration(cls: type) -> Declaration:
    """Where ``cls`` is being declared: the running functions and class bodies that enclose it, the nearest first."""
    enclosing = _enclosing_scopes(cls.__qualname__)
    frames, frame = list[types.FrameType](), inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == cls.__module__ and frame.f_code.co_qualname in enclosing:
            frames.append(frame)
        frame = frame.f_back
    if not frames:
        return Declaration(cls, declared_at(), {})
    origin = Origin(frames[0].f_code.co_filename, frames[0].f_lineno)
    return Declaration(cls, origin, ChainMap(*(each.f_locals for each in frames)))


def _enclosing_scopes(qualified_name: str) -> set[str]:
    """The qualified names of the scopes around a class: for ``f.<locals>.Tables.Orders``, ``f`` and what is in it."""
    scopes, name = {"<module>"}, qualified_name
    while "." in name:
        name = name.rpartition(".")[0].removesuffix(".<locals>")
        scopes.add(name)
    return scopes


def read_columns(declaration: Declaration) -> tuple[Marked, ...]:
    """The columns of the class and its bases, the furthest base first; a redefined column keeps its place."""
    found: dict[str, Marked] = {}
    for base in reversed(declaration.cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            is_dunder = name.startswith("__") and name.endswith("__")
            if not is_dunder and not _is_class_variable(annotation) and not isinstance(vars(base).get(name), Column):
                found[name] = _read(declaration, base, name, annotation)
        for name, value in vars(base).items():
            if isinstance(value, Column):
                found[name] = Marked(value if value.name else replace(value, name=name))
    return tuple(found.values())


def read_annotation(annotation: object, name: str, evaluate: Callable[[str], object]) -> Marked:
    """The column that ``annotation`` declares; ``evaluate`` turns annotations written as text into objects."""
    declared, may_be_null, markers = _unwrap(annotation, evaluate)
    kind = resolve_type(declared)
    for marker in markers:
        _check_marker(marker)
    if sum(isinstance(marker, pk) for marker in markers) > 1:
        raise SpecError("pk() is given twice", hint="keep one")
    groups = tuple(marker.group for marker in markers if isinstance(marker, natural_key))
    if len(set(groups)) < len(groups):
        raise SpecError("natural_key() is given twice for one group", hint="keep one, or name another group")
    column = Column(
        kind,
        nullable=may_be_null or any(isinstance(marker, nullable) for marker in markers),
        primary_key=any(isinstance(marker, pk) for marker in markers),
        name=name,
        normalizers=tuple(marker for marker in markers if is_normalizer(marker)),
    )
    return Marked(column, groups)


def _unwrap(annotation: object, evaluate: Callable[[str], object]) -> tuple[object, bool, list[object]]:
    """The bare type, whether NULL is allowed, and the markers, from any nesting of ``Annotated`` and ``| None``."""
    may_be_null, markers = False, list[object]()
    while True:
        origin = get_origin(annotation)
        if isinstance(annotation, str | ForwardRef):
            annotation = evaluate(annotation if isinstance(annotation, str) else annotation.__forward_arg__)
        elif isinstance(annotation, NullableType):
            annotation, may_be_null = annotation.inner, True
        elif origin is Annotated:
            annotation, *inner = get_args(annotation)
            markers = [*inner, *markers]
        elif origin in (Union, types.UnionType):
            annotation, may_be_null = _only_member(get_args(annotation)), True
        else:
            return annotation, may_be_null, markers


def _only_member(members: Iterable[object]) -> object:
    kept = [member for member in members if member is not type(None)]
    if len(kept) != 1:
        raise SpecTypeError(
            f"a column has one type, not {' | '.join(str(member) for member in kept)}",
            hint="keep one type; `T | None` makes the column nullable",
        )
    return kept[0]


def _check_marker(marker: object) -> None:
    if isinstance(marker, pk | natural_key | nullable) or is_normalizer(marker):
        return
    if marker in (pk, natural_key, nullable) or (isinstance(marker, type) and hasattr(marker, "to_sql")):
        name = getattr(marker, "__name__", "")
        raise SpecTypeError(f"the marker {name} is not called", hint=f"write {name}()")
    raise SpecTypeError(
        f"{marker!r} is not a column marker",
        hint="use pk(), natural_key(), nullable(), or a normalizer of ematix_flow.normalize",
    )


def _is_class_variable(annotation: object) -> bool:
    if isinstance(annotation, str):
        return re.match(r"(\w+\.)?ClassVar\b", annotation) is not None
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _read(declaration: Declaration, base: type, name: str, annotation: object) -> Marked:
    if name in vars(base):
        raise declaration.error(
            f"column {name!r} has a value", hint="columns have no defaults here; use the marker default(…)"
        )
    try:
        return read_annotation(annotation, name, _evaluator(declaration, base))
    except SpecError as error:
        kind = SpecTypeError if isinstance(error, TypeError) else SpecError
        raise declaration.error(f"column {name!r}: {error.message}", kind=kind, hint=error.hint) from error


def _evaluator(declaration: Declaration, base: type) -> Callable[[str], object]:
    module = sys.modules.get(base.__module__)
    module_names = {} if module is None else vars(module)
    # A base from another module never saw the names around the class that is being declared.
    is_near = base.__module__ == declaration.cls.__module__
    names = ChainMap(dict(vars(base)), dict(declaration.local_names) if is_near else {})

    def evaluate(text: str) -> object:
        try:
            return eval(text, module_names, names)  # noqa: S307 - the user's own annotation, as Python would read it
        except SpecError:
            raise
        except (AttributeError, NameError, SyntaxError, TypeError) as error:
            hint = "import the name at the top of the module, not under TYPE_CHECKING"
            raise SpecTypeError(f"the annotation {text!r} cannot be read: {error}", hint=hint) from error

    return evaluate
