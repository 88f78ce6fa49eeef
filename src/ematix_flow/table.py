"""`ManagedTable`, the base of declared tables, and the `Column` its subclasses hold."""

from __future__ import annotations

from .spec.table import Column, ManagedTable

__all__ = ["Column", "ManagedTable"]
