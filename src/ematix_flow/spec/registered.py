"""Functions that are registered as they are: transforms, and loads that users have written themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ..errors import SpecTypeError
from .connection import Connection
from .declared import Declared
from .origin import Origin
from .pipeline_checks import check_schedule, handles_wanted
from .post import count_handles

if TYPE_CHECKING:
    from .pipeline import Pipeline

__all__ = ["RegisteredTransform", "ScheduledPipeline", "build_scheduled", "build_transform"]


@dataclass(frozen=True, kw_only=True)
class ScheduledPipeline(Declared):
    """A function that loads by itself: it takes nothing and gives a dictionary."""

    function: Callable[[], object] = field(compare=False)
    schedule: str | None = None
    timezone: str | None = None

    @property
    def parts(self) -> tuple[Pipeline, ...]:
        """The loads that are known of it: none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class RegisteredTransform(Declared):
    """A function that works on a connection, by itself or after loads."""

    what: ClassVar[str] = "transform"

    function: Callable[..., object] = field(compare=False)
    takes_parent: bool = False
    target_connection: str | None = None
    """Where it works; None is the connection of the load before it, or `default`."""
    schedule: str | None = None


def build_transform(
    function: Callable[..., object], options: Mapping[str, object], declared_at: Origin | None
) -> RegisteredTransform:
    """The record of a function behind `@ematix.transform`."""
    name = str(options.get("name") or getattr(function, "__name__", "transform"))
    bare = RegisteredTransform(name=name, declared_at=declared_at, function=function)
    schedule, connection = options.get("schedule"), options.get("target_connection")
    if not isinstance(schedule, str | None):
        raise bare.error(f"schedule= cannot be a {type(schedule).__name__}", kind=SpecTypeError, hint="pass a text")
    if not isinstance(connection, str | Connection | None):
        problem = f"target_connection= cannot be a {type(connection).__name__}"
        raise bare.error(problem, kind=SpecTypeError, hint="pass a connection or its name")
    check_schedule(bare, schedule, None)
    return RegisteredTransform(
        name=name,
        declared_at=declared_at,
        function=function,
        takes_parent=count_handles(bare, "the function", function) == 2,
        target_connection=connection.name if isinstance(connection, Connection) else connection,
        schedule=schedule,
    )


def build_scheduled(
    function: Callable[[], object],
    name: str,
    schedule: str | None,
    timezone: str | None,
    declared_at: Origin | None,
) -> ScheduledPipeline:
    """The record of a function behind `pipeline.register`."""
    record = ScheduledPipeline(
        name=name, declared_at=declared_at, function=function, schedule=schedule, timezone=timezone
    )
    try:
        takes_nothing = not handles_wanted(function)
    except ValueError:
        takes_nothing = True  # a builtin need not tell its arguments
    except TypeError:
        takes_nothing = False
    if not takes_nothing:
        hint = "use @ematix.pipeline for a function that is given connections"
        raise record.error("the function must take no arguments", kind=SpecTypeError, hint=hint)
    check_schedule(record, schedule, timezone)
    return record
