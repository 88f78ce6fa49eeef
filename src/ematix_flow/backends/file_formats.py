"""The file formats and their options: what users may write, and what Spark is told so that values keep their form."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import SpecError, UnknownNameError, nearest
from ..types import Bytes, ColumnType

if TYPE_CHECKING:
    from ..spec.origin import Origin

__all__ = ["EMPTY_TEXT", "FORMATS", "FileFormat", "Option", "check_options", "file_format"]

EMPTY_TEXT = "\ue000empty"
"""What the CSV reader gives for a quoted empty text, so that it is not taken for NULL."""

_QUOTE = "\ue001"
"""Stands for the quote in options that follow from it."""

_INSTANT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_CLOCK = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_TEXT_TIMES = {"timeZone": "UTC", "timestampFormat": _INSTANT, "timestampNTZFormat": _CLOCK, "dateFormat": "yyyy-MM-dd"}


@dataclass(frozen=True)
class Option:
    """An option that users may give: Spark's name for it, and what its values are."""

    spark: str
    expects: str
    convert: Callable[[object], str | None]
    """Spark's form of a value; None where the value cannot be right."""


@dataclass(frozen=True)
class FileFormat:
    """One format, as Spark reads and writes it."""

    name: str
    spark: str
    options: Mapping[str, Option]
    reading: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)
    typed: bool = True
    """Files know their columns' types; otherwise every value is read as text and then cast."""
    unwritable: tuple[type[ColumnType], ...] = ()
    bad_names: str = ""
    """Characters that a column's name may not hold: its values would be lost."""
    loses_last_second_of_1969: bool = False
    """Fractions of that second come back a second later."""

    def spark_options(self, given: Mapping[str, object], base: Mapping[str, str]) -> dict[str, str]:
        """`base` with the user's options over it, in Spark's words."""
        translated = {self.options[name].spark: self.options[name].convert(value) for name, value in given.items()}
        merged = {**base, **{name: value for name, value in translated.items() if value is not None}}
        return {name: value.replace(_QUOTE, merged.get("quote", '"')) for name, value in merged.items()}


def file_format(name: str) -> FileFormat:
    """The format called `name`."""
    if name not in FORMATS:
        raise SpecError(f"there is no file format {name!r}", hint=nearest("format", name, FORMATS))
    return FORMATS[name]


def check_options(format: str, options: Mapping[str, object], owner: str, declared_at: Origin | None) -> None:
    """Raise SpecError for an option that the format does not have or a value that it cannot take."""
    known = file_format(format).options
    for name, value in options.items():
        if name not in known:
            where = f"format {format!r} of {owner}"
            raise UnknownNameError("option", name, known=known, where=where, declared_at=declared_at)
        if known[name].convert(value) is None:
            raise SpecError(
                f"{owner}: the option {name!r} cannot be {value!r}",
                hint=f"write {known[name].expects}",
                declared_at=declared_at,
            )


def _flag(value: object) -> str | None:
    text = str(value).lower()
    return text if text in ("true", "false") else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _delimiter(value: object) -> str | None:
    if not isinstance(value, str) or value in ("", "\n", "\r", '"'):
        return None
    return "\t" if value == "\\t" else value


def _character(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) == 1 and value not in "\r\n" else None


# Spark refuses every other character set.
_ENCODINGS = {
    codecs.lookup(name).name: name
    for name in ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32")
}


def _encoding(value: object) -> str | None:
    try:
        return _ENCODINGS.get(codecs.lookup(value).name) if isinstance(value, str) else None
    except LookupError:
        return None


def _compression(*words: str) -> Option:
    def convert(value: object) -> str | None:
        return value.lower() if isinstance(value, str) and value.lower() in words else None

    return Option("compression", f"one of {', '.join(words)}", convert)


_FLAG = "true or false"
_TEXT_CODECS = _compression("none", "bzip2", "gzip", "lz4", "snappy", "deflate")
_CSV = {
    "header": Option("header", _FLAG, _flag),
    "delimiter": Option("sep", "the text between two values, for example ';'", _delimiter),
    "quote": Option("quote", "one character", _character),
    "escape": Option("escape", "one character", _character),
    "null_value": Option("nullValue", "the text that stands for NULL", _text),
    "encoding": Option("encoding", f"one of {', '.join(_ENCODINGS.values())}", _encoding),
    "multiline": Option("multiLine", f"{_FLAG}: whether quoted values may hold line breaks", _flag),
    "compression": _TEXT_CODECS,
}
# Spark trims values and escapes quotes by a backslash unless told otherwise: neither gives back what was written.
_CSV_FORM = {
    "header": "true",
    "quote": '"',
    "escape": _QUOTE,
    "nullValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
# What cannot be parsed is an error, never a silent NULL.
_STRICT = {"mode": "FAILFAST"}

FORMATS: Mapping[str, FileFormat] = {
    "csv": FileFormat(
        "csv",
        "csv",
        _CSV,
        reading={**_CSV_FORM, **_STRICT, "multiLine": "true", "emptyValue": EMPTY_TEXT},
        writing={**_CSV_FORM, **_TEXT_TIMES, "emptyValue": _QUOTE * 2, "lineSep": "\n"},
        typed=False,
        unwritable=(Bytes,),
    ),
    "json_lines": FileFormat(
        "json_lines",
        "json",
        {"encoding": _CSV["encoding"], "compression": _TEXT_CODECS},
        reading={**_TEXT_TIMES, **_STRICT, "prefersDecimal": "true", "lineSep": "\n"},
        writing={**_TEXT_TIMES, "ignoreNullFields": "false", "lineSep": "\n"},
    ),
    "orc": FileFormat(
        "orc",
        "orc",
        {"compression": _compression("none", "snappy", "zlib", "zstd", "lz4")},
        bad_names="`",
        loses_last_second_of_1969=True,
    ),
    "parquet": FileFormat("parquet", "parquet", {"compression": _compression("none", "snappy", "gzip", "lz4", "zstd")}),
}
"""The formats by the names that connections give them."""
