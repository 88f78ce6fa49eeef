"""Drivers that may not be installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import MissingExtraError

__all__ = ["optional"]


def optional(module: str, *, extra: str) -> ModuleType:
    """The module, or MissingExtraError that says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not module.startswith(error.name):
            raise
        raise MissingExtraError(module.partition(".")[0], extra) from error
