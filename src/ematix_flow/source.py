"""`Source`: a query and the connection that runs it, for a pipeline's function to return."""

from __future__ import annotations

from .spec.source import Source

__all__ = ["Source"]
