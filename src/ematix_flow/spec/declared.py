"""A declaration's name and place, and the errors that say both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from ..errors import SpecError
from .origin import Origin

__all__ = ["Declared"]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a declaration is called and where it stands; errors about it say both."""

    what: ClassVar[str] = "pipeline"

    name: str
    declared_at: Origin | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """The declaration in words, such as ``pipeline 'customers'``."""
        return f"{self.what} {self.name!r}"

    def error(self, problem: str, *, kind: type[SpecError] = SpecError, hint: str | None = None) -> SpecError:
        """An error about this declaration, with its place."""
        return kind(f"{self.title}: {problem}", hint=hint, declared_at=self.declared_at)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Errors of declarations that leave the block name this one, and its place where they have none."""
        try:
            yield
        except SpecError as error:
            if self.title not in error.message:
                error.message = f"{self.title}: {error.message}"
            error.declared_at = error.declared_at or self.declared_at
            raise
