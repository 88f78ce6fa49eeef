"""The functions that a connection to PostgreSQL makes for itself when a statement needs them."""

from __future__ import annotations

from .postgres_dialect import FITS, LOWER, REFUSE, UPPER

__all__ = ["COLLATION", "needed"]

# What the database's own LOWER and UPPER know of letters depends on its locale, and most turn one letter into one:
# only these know that ß becomes SS, as all other systems do.
COLLATION = """FROM pg_collation
  WHERE collname IN ('pg_unicode_fast', 'und-x-icu') AND collnamespace = 'pg_catalog'::regnamespace
  AND collencoding IN (-1, pg_char_to_encoding('UTF8'))
  ORDER BY collname LIMIT 1"""
"""Where the name of that collation is to be read."""


def needed(sql: str) -> dict[str, str]:
    """The functions of the dialect that a statement calls, each with what makes it."""
    return {name: make for name, make in _FUNCTIONS.items() if name in sql}


_CASED = """
DO $$ DECLARE chosen text; BEGIN
  SELECT quote_ident(collname) INTO chosen {collation};
  IF chosen IS NULL THEN
    RAISE EXCEPTION 'this server has no collation that knows all letters of Unicode (pg_unicode_fast or ICU)'
    USING ERRCODE = '0A000', HINT = 'let Spark clean the rows: force_path=''spark''';
  END IF;
  EXECUTE format('CREATE OR REPLACE FUNCTION pg_temp.ematix_%1$s(text) RETURNS text LANGUAGE sql IMMUTABLE '
    'PARALLEL SAFE AS ''SELECT %1$s($1 COLLATE %2$s)''', '{word}', chosen);
END $$
""".replace("{collation}", COLLATION)
_REFUSE = """
CREATE OR REPLACE FUNCTION pg_temp.ematix_refuse(text, anyelement) RETURNS anyelement LANGUAGE plpgsql VOLATILE AS $$
BEGIN RAISE EXCEPTION USING MESSAGE = $1, ERRCODE = '22000'; END $$
"""
_FITS = """
CREATE OR REPLACE FUNCTION pg_temp.ematix_fits(text, text) RETURNS boolean LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  EXECUTE 'SELECT CAST($1 AS ' || $2 || ')' USING $1;
  RETURN true;
EXCEPTION WHEN data_exception THEN RETURN false;
END $$
"""
_FUNCTIONS = {
    LOWER: _CASED.replace("{word}", "lower"),
    UPPER: _CASED.replace("{word}", "upper"),
    REFUSE: _REFUSE,
    FITS: _FITS,
}
