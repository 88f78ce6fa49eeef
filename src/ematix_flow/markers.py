"""Markers that say what a column is for, inside ``Annotated[T, …]``: ``pk()``, ``natural_key()``, ``nullable()``."""
# ruff: noqa: N801 - markers are written in lower case, as the functions they read like

from __future__ import annotations

from dataclasses import dataclass

from .errors import SpecTypeError

__all__ = ["natural_key", "nullable", "pk"]


@dataclass(frozen=True, init=False, repr=False)
class pk:
    """The column joins the primary key, in the order of declaration; options are kept and have no effect."""

    options: tuple[tuple[str, object], ...]

    def __init__(self, **options: object) -> None:
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    def __repr__(self) -> str:
        return f"pk({', '.join(f'{name}={value!r}' for name, value in self.options)})"


@dataclass(frozen=True)
class natural_key:
    """The column joins the unique constraint of its group; there is one constraint for each group."""

    group: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.group, str):
            raise SpecTypeError(f"natural_key takes the name of a group, not {self.group!r}")


@dataclass(frozen=True)
class nullable:
    """The column may be NULL: the same as ``T | None``."""
