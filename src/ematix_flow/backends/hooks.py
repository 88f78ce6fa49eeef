"""The calls of normalizers and row transforms where plain SQL cannot say what they mean; engines replace them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

__all__ = ["DECLARED", "HOOKS", "INSTANT", "IS_TEXT", "KIND", "TEXT_CALLS", "Hook"]

Hook = Callable[[exp.Expr], exp.Expression]
"""What an engine says in place of the call of a hook."""

HOOKS = {
    "TEXT_OF": "text normalizers",
    "REGEX_REPLACE": "regex_replace() and phone_normalize()",
    "FIRST_CHARACTERS": "truncate()",
    "DEFAULT_TO": "default()",
    "NULL_WHERE": "nullif()",
    "PARSE_INT": "parse_int()",
    "PARSE_INT_STRICT": "parse_int()",
    "PARSE_DECIMAL": "parse_numeric()",
    "PARSE_DECIMAL_STRICT": "parse_numeric()",
    "PARSE_BOOL": "parse_bool()",
    "ROUND_NUMBER": "round()",
    "CLAMP": "clamp()",
    "AT_ZONE": "to_timezone()",
    "TRUNCATE_TIME": "date_trunc()",
    "RANDOM_FRACTION": "sample_pct()",
}
"""The calls of normalizers and row transforms that an engine may be unable to replace, and who makes them."""

TEXT_CALLS = ("TEXT_OF", "REGEX_REPLACE", "FIRST_CHARACTERS", "REGEXP_REPLACE", "SUBSTR", "EMATIX_LOWER",
    "EMATIX_UPPER", "EMATIX_REGEX_REPLACE", "EMATIX_FIRST_CHARACTERS")  # fmt: skip
"""Calls whose result is text."""

IS_TEXT, DECLARED, INSTANT, KIND = "is_text", "declared", "instant", "kind"
"""What is noted on expressions: that one gives text, its column's declared type, that its value is an instant, and the
type that its value has, in the engine's own words."""
