"""What a user declares to happen after a load: SQL on the target, a function, or the name of something registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from ..errors import CycleError, SpecTypeError

if TYPE_CHECKING:
    from .declared import Declared

__all__ = [
    "CallStep",
    "PostStep",
    "SqlStep",
    "TransformRef",
    "build_steps",
    "check_cycle",
    "count_handles",
    "referring",
    "step_name",
]

_SUMMARY = 200


@dataclass(frozen=True)
class SqlStep:
    """One statement, run on the target connection."""

    sql: str
    kind: ClassVar[Literal["sql"]] = "sql"

    @property
    def label(self) -> str:
        """The step in the run history."""
        return "sql"

    @property
    def summary(self) -> str:
        """The first line of the statement."""
        return self.sql.strip().split("\n")[0][:_SUMMARY]


@dataclass(frozen=True)
class CallStep:
    """A function that is given the target's handle, and what is known of the load where it wants that too."""

    function: Callable[..., object] = field(compare=False)
    takes_parent: bool
    kind: ClassVar[Literal["callable"]] = "callable"

    @property
    def label(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def summary(self) -> str:
        """The call in words."""
        return f"{self.label}({'connection, parent' if self.takes_parent else 'connection'})"


@dataclass(frozen=True)
class TransformRef:
    """A transform or a pipeline by its name, which may be declared later."""

    name: str
    kind: ClassVar[Literal["transform_ref"]] = "transform_ref"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SpecTypeError(
                f"transform_ref takes a name, not a {type(self.name).__name__}",
                hint="write ematix.transform_ref('name')",
            )

    @property
    def label(self) -> str:
        """The reference in the run history."""
        return f"ref={self.name}"

    @property
    def summary(self) -> str:
        """The name."""
        return self.name


PostStep = SqlStep | CallStep | TransformRef


def step_name(index: int, step: PostStep) -> str:
    """What the run history calls a step: its position and what it is."""
    return f"transform[{index}]:{step.label}"


def referring(steps: Sequence[PostStep], known: Collection[str]) -> tuple[PostStep, ...]:
    """The steps, with a text that is no more than a name of something `known` as the reference it means."""
    return tuple(
        TransformRef(step.sql.strip()) if isinstance(step, SqlStep) and step.sql.strip() in known else step
        for step in steps
    )


def build_steps(declared: Declared, keyword: str, value: object) -> tuple[PostStep, ...]:
    """The records of `transforms_post=`, or the first entry that cannot be a step."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        problem = f"{keyword}= takes a list of steps, not a {type(value).__name__}"
        raise declared.error(problem, kind=SpecTypeError, hint="put the step into a list")
    return tuple(_build_step(declared, f"{keyword}[{index}]", entry) for index, entry in enumerate(value))


def _build_step(declared: Declared, place: str, entry: object) -> PostStep:
    if isinstance(entry, TransformRef):
        return entry
    if isinstance(entry, str):
        if not entry.strip():
            raise declared.error(f"{place} is an empty text", hint="write one SQL statement")
        return SqlStep(entry)
    if callable(entry):
        return CallStep(entry, count_handles(declared, place, entry) == 2)
    raise declared.error(
        f"{place} cannot be a {type(entry).__name__}",
        kind=SpecTypeError,
        hint="a step is one SQL statement, a function, or ematix.transform_ref(name)",
    )


def count_handles(declared: Declared, place: str, function: Callable[..., object]) -> int:
    """How many arguments a step's function wants: 1, or 2 with what is known of the load."""
    hint = "it is given (connection) or (connection, parent)"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise declared.error(f"{place} tells nothing of its arguments", kind=SpecTypeError, hint=hint) from None
    required = [each for each in parameters if each.default is each.empty]
    if any(each.kind is each.KEYWORD_ONLY for each in required):
        raise declared.error(f"{place} needs keywords that nobody gives", kind=SpecTypeError, hint=hint)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 2
    positional = [each for each in required if each.kind is not each.VAR_KEYWORD]
    if len(positional) not in (1, 2):
        problem = f"{place} takes {len(positional)} arguments"
        raise declared.error(problem, kind=SpecTypeError, hint=hint)
    return len(positional)


def check_cycle(declared: Declared, refs: Mapping[str, Sequence[str]]) -> None:
    """CycleError where steps lead from this pipeline back to it; `refs` has the pipelines that each one refers to."""
    pending: list[tuple[str, ...]] = [(declared.name, name) for name in refs.get(declared.name, ())]
    seen: set[str] = set()
    while pending:
        *path, name = pending.pop()
        if name == declared.name:
            shown = " → ".join((*path, name))
            hint = "a pipeline runs the steps of every pipeline it refers to; leave one reference out"
            raise declared.error(f"transforms_post= leads back to itself: {shown}", kind=CycleError, hint=hint)
        if name not in seen:
            seen.add(name)
            pending += [(*path, name, further) for further in refs.get(name, ())]
