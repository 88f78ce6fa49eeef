"""Column normalizers: markers inside ``Annotated[T, …]`` that clean each incoming value, the left-most first.

Each marker defines its meaning once, as Postgres SQL text over an SQL expression; other systems run a translation of
that text. What plain SQL cannot say is a call of a hook (``PARSE_TIMESTAMP``, ``REGEX_REPLACE`` …) that each system
replaces. ``derive`` and ``sql`` hold the user's own SQL, in the words of the source. Any object with a
``to_sql(col)`` method is a normalizer.
"""

from __future__ import annotations

from importlib import import_module

from ..spec.row_transform import deduplicate_by, filter_where, is_pipeline_transform, limit, sample_pct
from .base import Normalizer, check_chain, compose_chain, is_native, is_normalizer, literal
from .number import PERIODS, clamp, date_trunc, round, to_timezone  # noqa: A004 - the documented name
from .parse import (
    DATE_FORMATS,
    TIMESTAMP_FORMATS,
    OnFailure,
    parse_bool,
    parse_date,
    parse_int,
    parse_numeric,
    parse_timestamp,
)
from .text import (
    email_normalize,
    empty_to_null,
    lower,
    phone_normalize,
    regex_replace,
    replace,
    trim,
    truncate,
    upper,
    whitespace_to_null,
)
from .value import default, derive, not_null_or, nullif, sql

__all__ = [
    "DATE_FORMATS",
    "PERIODS",
    "TIMESTAMP_FORMATS",
    "Normalizer",
    "OnFailure",
    "check_chain",
    "clamp",
    "compose_chain",
    "date_trunc",
    "deduplicate_by",
    "default",
    "derive",
    "email_normalize",
    "empty_to_null",
    "filter_where",
    "is_native",
    "is_normalizer",
    "is_pipeline_transform",
    "limit",
    "literal",
    "lower",
    "not_null_or",
    "nullif",
    "parse_bool",
    "parse_date",
    "parse_int",
    "parse_numeric",
    "parse_timestamp",
    "phone_normalize",
    "regex_replace",
    "replace",
    "round",
    "sample_pct",
    "sql",
    "to_timezone",
    "trim",
    "truncate",
    "upper",
    "whitespace_to_null",
]


def __getattr__(name: str) -> object:
    # It needs the engine, which declarations do not.
    if name == "apply_normalization":
        return getattr(import_module("ematix_flow.transforms"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
