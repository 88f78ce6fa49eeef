"""What DuckDB's own LOWER and UPPER lack: characters whose other case is not one character, by the rules of Unicode.

DuckDB turns each character into one other. Macros of these names are made on each connection and belong to it alone.
"""

from __future__ import annotations

__all__ = ["LOWER", "MACROS", "UPPER"]

LOWER, UPPER = "ematix_lower", "ematix_upper"

_LONGER = [chr(code) for code in range(0x80, 0x10000) if len(chr(code).upper()) > 1]
_CASED = r"\p{Lu}\p{Ll}\p{Lt}"
_BETWEEN = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:·’‘․"
# A sigma that ends a word has a form of its own.
_FINAL = rf"([{_CASED}][{_BETWEEN}]*)Σ([{_BETWEEN}]*(?:[^{_CASED}{_BETWEEN}]|\z))"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _upper() -> str:
    place = f"nullif(instr({_quoted(''.join(_LONGER))}, c), 0)"
    longer = f"[{', '.join(_quoted(sign.upper()) for sign in _LONGER)}][{place}]"
    signs = f"list_transform(regexp_extract_all(x, '(?s:.)'), lambda c: coalesce({longer}, upper(c)))"
    has_longer = f"regexp_matches(x, {_quoted('[' + ''.join(_LONGER) + ']')})"
    return f"CASE WHEN {has_longer} THEN array_to_string({signs}, '') ELSE upper(x) END"


def _lower() -> str:
    dotted = f"replace(x, 'İ', {_quoted('İ'.lower())})"
    final = rf"regexp_replace({dotted}, {_quoted(_FINAL)}, '\1ς\2', 'g')"
    return f"CASE WHEN regexp_matches(x, '[İΣ]') THEN lower({final}) ELSE lower(x) END"


MACROS = (
    f"CREATE OR REPLACE TEMPORARY MACRO {LOWER}(x) AS {_lower()}",
    f"CREATE OR REPLACE TEMPORARY MACRO {UPPER}(x) AS {_upper()}",
)
"""The statements that make them."""
