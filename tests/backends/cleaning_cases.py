"""Chains of normalizers with what they make of awkward values, for the tests of all engines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from ematix_flow import normalize as n
from ematix_flow import types as t

LONG = "x" * 70_000
TEXTS = [
    "",
    " ",
    "  a b ",
    "\ta\u00a0 ",
    "ÉCOLE",
    "naïve 👍🏽",
    "12",
    "-7",
    "+7",
    "1.5",
    "1e3",
    "a.b$c\\d",
    "l1\nl2\r\n",
    LONG,
]


@dataclass(frozen=True)
class Case:
    """A chain of a column, what it makes of values of one kind, and which engines have such values."""

    markers: tuple[object, ...]
    type: t.ColumnType
    expected: dict[object, object]
    kind: str = "text"


def case(*markers: object, type: t.ColumnType | None = None, kind: str = "text", expected: dict) -> Case:
    return Case(markers, type or t.Text(), expected, kind)


def of_texts(*markers: object, meaning: Callable[[str], str | None]) -> Case:
    """A chain of text whose meaning Python says."""
    return case(*markers, expected={None: None} | {text: meaning(text) for text in TEXTS})


NUMBERS = {
    None: None,
    "": None,
    " 12": None,
    "12": "12",
    "-7": "-7",
    "+7": None,
    "1.5": None,
    "1e3": None,
    "007": "7",
    "-0": "0",
    "9223372036854775807": "9223372036854775807",
    "9223372036854775808": None,
    "-9223372036854775808": "-9223372036854775808",
    "-9223372036854775809": None,
    "1_000": None,
    "٣": None,
    "9" * 60: None,
    "0" * 60 + "5": "5",
    "12\n": None,
    "0x10": None,
    "nan": None,
}
DECIMALS = {
    None: None,
    "12": "12.00",
    "-7.005": "-7.01",
    "7.004999": "7.00",
    ".5": "0.50",
    "5.": "5.00",
    "": None,
    "1e3": None,
    "99999999.994": "99999999.99",
    "99999999.995": None,
    "100000000": None,
    "-0": "0.00",
    "-.001": "0.00",
    "nan": None,
    "inf": None,
    " 1": None,
    "1,5": None,
    "0." + "0" * 60 + "1": "0.00",
    "9" * 60: None,
}
MOMENTS = {
    None: None,
    "2026-02-30": None,
    "2026-01-05": "2026-01-05 00:00:00.000000",
    "2026-01-05T10:00:00Z": "2026-01-05 10:00:00.000000",
    "2026-01-05 10:00:00.5": "2026-01-05 10:00:00.500000",
    "2026-01-05T10:00:00+02:00": "2026-01-05 08:00:00.000000",
    "2026-13-45": None,
    "": None,
    "soon": None,
    "12/31/2026": "2026-12-31 00:00:00.000000",
    "2024-02-29": "2024-02-29 00:00:00.000000",
}
LOCAL = {
    None: None,
    "2026-07-01 12:00:00": "2026-07-01 10:00:00.000000",
    "2026-01-01 00:30:00": "2025-12-31 23:30:00.000000",
    "2026-03-29 02:30:00": "2026-03-29 01:30:00.000000",
    "2026-03-29 01:59:59": "2026-03-29 00:59:59.000000",
    "2026-03-29 03:00:00": "2026-03-29 01:00:00.000000",
    "2026-10-25 02:30:00": "2026-10-25 01:30:00.000000",
    "2026-10-25 01:59:59": "2026-10-24 23:59:59.000000",
    "2026-10-25 03:00:00": "2026-10-25 02:00:00.000000",
    "2026-07-01T12:00:00Z": "2026-07-01 14:00:00.000000",
    "2026-07-01 12:00:00+05:30": "2026-07-01 08:30:00.000000",
    "1890-01-01 00:00:00": "1889-12-31 23:06:32.000000",
    "2026-07-01": "2026-06-30 22:00:00.000000",
}
INSTANTS = {
    None: None,
    "2026-07-01 12:00:00": "2026-07-01 14:00:00.000000",
    "2026-03-29 00:59:59": "2026-03-29 01:59:59.000000",
    "2026-03-29 01:00:00": "2026-03-29 03:00:00.000000",
    "2026-10-25 00:30:00": "2026-10-25 02:30:00.000000",
    "2026-10-25 01:30:00": "2026-10-25 02:30:00.000000",
}
ZONE = n.to_timezone("Europe/Berlin")
NO_NUMBER = {
    None: None,
    "": "",
    "5": None,
    "5.0": None,
    "05": None,
    " 5": " 5",
    "5x": "5x",
    "5e0": None,
    "4": "4",
    "5.0000000000000000001": None,
    "5.00000000000001": "5.00000000000001",
    "nan": "nan",
}
BEGINS = {
    "microsecond": "2026-08-13 17:45:59.987654",
    "millisecond": "2026-08-13 17:45:59.987000",
    "second": "2026-08-13 17:45:59.000000",
    "minute": "2026-08-13 17:45:00.000000",
    "hour": "2026-08-13 17:00:00.000000",
    "day": "2026-08-13 00:00:00.000000",
    "week": "2026-08-10 00:00:00.000000",
    "month": "2026-08-01 00:00:00.000000",
    "quarter": "2026-07-01 00:00:00.000000",
    "year": "2026-01-01 00:00:00.000000",
}
FLOATS = {
    None: None,
    2.675: "2.68",
    -2.675: "-2.68",
    2.665: "2.67",
    1.005: "1.01",
    0.125: "0.13",
    -0.0: "0.0",
    -0.004: "0.0",
    0.004999999999999999: "0.0",
    1e300: "1e+300",
    123456789012345.67: "123456789012345.67",
    math.inf: "inf",
    -math.inf: "-inf",
    1e-20: "0.0",
    99999.995: "100000.0",
    2251799813685248.5: "2251799813685248.5",
}

CASES = [
    of_texts(n.trim(), meaning=lambda text: text.strip(" ")),
    of_texts(n.lower(), meaning=str.lower),
    of_texts(n.upper(), meaning=str.upper),
    of_texts(n.empty_to_null(), meaning=lambda text: text or None),
    of_texts(n.whitespace_to_null(), meaning=lambda text: text.strip(" ") or None),
    of_texts(n.replace("a", "''$1\\"), meaning=lambda text: text.replace("a", "''$1\\")),
    of_texts(n.replace("👍", ""), meaning=lambda text: text.replace("👍", "")),
    of_texts(n.truncate(3), meaning=lambda text: text[:3]),
    of_texts(n.truncate(0), meaning=lambda text: ""),
    of_texts(n.truncate(-2), meaning=lambda text: text[:-2]),
    of_texts(n.truncate(-100_000), meaning=lambda text: ""),
    of_texts(n.email_normalize(), meaning=lambda text: text.strip(" ").lower()),
    of_texts(n.phone_normalize(), meaning=lambda text: "".join(sign for sign in text if sign in "0123456789+")),
    of_texts(n.trim(), n.truncate(-1), n.upper(), n.truncate(2), meaning=lambda text: text.strip(" ")[:-1].upper()[:2]),
    case(n.default("it's"), expected={None: "it's", "": "", "a": "a"}),
    case(n.not_null_or("x"), expected={None: "x", "": ""}),
    case(n.default(0), expected={None: "0", "007": "007", "12.5": "12.5"}),
    case(n.default(True), expected={None: "true", "no": "no"}),
    case(n.default(-2.5), type=t.Double(), expected={None: "-2.5", "007": "7.0"}),
    case(n.default(date(2026, 1, 31)), type=t.Date(), expected={None: "2026-01-31", "2026-02-01": "2026-02-01"}),
    case(
        n.default(datetime(2026, 1, 31, 12, tzinfo=UTC)),
        type=t.TimestampTZ(),
        expected={None: "2026-01-31 12:00:00.000000", "2026-02-01 10:00:00+02": "2026-02-01 08:00:00.000000"},
    ),
    case(n.default(7), type=t.BigInt(), kind="integer", expected={None: "7", 3: "3"}),
    case(n.default(0.5), type=t.Double(), kind="double", expected={None: "0.5", 3.25: "3.25"}),
    case(n.nullif("N/A"), expected={None: None, "N/A": None, "n/a": "n/a", "": ""}),
    case(n.nullif(""), expected={None: None, "": None, " ": " "}),
    case(n.nullif(5), expected=NO_NUMBER),
    case(n.nullif(-1.5), expected={"-1.5": None, "1.5": "1.5", "-1.50": None, "-15e-1": None}),
    case(
        n.nullif(True), expected={"true": None, "T": None, "yes": None, "1": None, "false": "false", "": "", None: None}
    ),
    case(
        n.nullif(date(1900, 1, 1)), type=t.Date(), expected={"1900-01-01": None, "1900-01-02": "1900-01-02", None: None}
    ),
    case(
        n.nullif(datetime(1900, 1, 1, tzinfo=UTC)),
        type=t.TimestampTZ(),
        expected={
            "1900-01-01": None,
            "1900-01-01T00:00:00Z": None,
            "1900-01-01 01:00:00+01:00": None,
            "1900-01-01 00:00:01": "1900-01-01 00:00:01.000000",
        },
    ),
    case(n.nullif(5), type=t.BigInt(), kind="integer", expected={None: None, 5: None, 6: "6", -5: "-5"}),
    case(n.nullif("5"), type=t.BigInt(), kind="integer", expected={None: None, 5: None, 6: "6"}),
    case(
        n.nullif(0), type=t.Double(), kind="double", expected={None: None, 0.0: None, 1e-19: "1e-19", math.inf: "inf"}
    ),
    case(n.parse_int(), type=t.BigInt(), expected=NUMBERS),
    case(
        n.parse_int("default", -1), type=t.BigInt(), expected={text: value or "-1" for text, value in NUMBERS.items()}
    ),
    case(
        n.trim(),
        n.parse_int(),
        n.clamp(0, 100),
        type=t.SmallInt(),
        expected={" 70000 ": "100", "-3": "0", "x": None, "5": "5"},
    ),
    case(
        n.parse_int(),
        type=t.BigInt(),
        kind="double",
        expected={None: None, 5.0: "5", -0.0: "0", 5.5: None, 1e18: "1000000000000000000", 1e19: None, math.inf: None},
    ),
    case(n.parse_int(), type=t.BigInt(), kind="integer", expected={None: None, 5: "5", -(2**63): str(-(2**63))}),
    case(n.parse_numeric(10, 2), type=t.Numeric(10, 2), expected=DECIMALS),
    case(
        n.parse_numeric(10, 2, "default", 1.5),
        type=t.Numeric(10, 2),
        expected={key: value or "1.50" for key, value in DECIMALS.items()},
    ),
    case(
        n.parse_numeric(38, 10),
        type=t.Numeric(38, 10),
        expected={
            "1234567890123456789012345678.12345678905": "1234567890123456789012345678.1234567891",
            "1" + "0" * 28: None,
        },
    ),
    case(
        n.parse_numeric(6, 3),
        type=t.Numeric(6, 3),
        kind="double",
        expected={1.0005: "1.001", 999.9995: None, 1e300: None, math.inf: None, -0.0: "0.000"},
    ),
    case(
        n.parse_bool(),
        type=t.Boolean(),
        expected={
            None: None,
            "TRUE": "true",
            "1": "true",
            "yes": "true",
            "Y": "true",
            "False": "false",
            "0": "false",
            "no": "false",
            "n": "false",
            "": None,
            " true": None,
            "on": None,
            "2": None,
        },
    ),
    case(
        n.parse_bool(truthy=("Ja", "ДА"), falsy=("it's",)),
        type=t.Boolean(),
        expected={"jA": "true", "да": "true", "IT'S": "false", "true": None},
    ),
    case(n.parse_bool(), type=t.Boolean(), kind="integer", expected={1: "true", 0: "false", 2: None, None: None}),
    case(n.parse_timestamp(), type=t.TimestampTZ(), expected=MOMENTS),
    case(
        n.parse_timestamp(on_failure="default", default="1970-01-01"),
        type=t.TimestampTZ(),
        expected={text: value or "1970-01-01 00:00:00.000000" for text, value in MOMENTS.items()},
    ),
    case(
        n.parse_date("DD.MM.YYYY"),
        type=t.Date(),
        expected={"31.12.2026": "2026-12-31", "31.11.2026": None, "1.1.2026": None, None: None},
    ),
    case(
        n.trim(), n.replace(".", "-"), n.parse_date("DD-MM-YYYY"), type=t.Date(), expected={" 31.12.2026": "2026-12-31"}
    ),
    case(n.round(2), type=t.Double(), kind="double", expected=FLOATS),
    case(
        n.round(0),
        type=t.Double(),
        kind="double",
        expected={2.5: "3.0", -2.5: "-3.0", 0.49999999999999994: "0.0", 1.5: "2.0"},
    ),
    case(
        n.round(-2),
        type=t.Double(),
        kind="double",
        expected={149.9: "100.0", 150.0: "200.0", -150.0: "-200.0", 1e17: "1e+17"},
    ),
    case(
        n.round(6),
        type=t.Double(),
        kind="double",
        expected={1.0000005: "1.000001", 1e14: "100000000000000.0", 1e-7: "0.0", 5e-7: "1e-06"},
    ),
    case(
        n.round(1),
        type=t.Numeric(10, 2),
        expected={"1.25": "1.30", "-1.25": "-1.30", "1.2499999": "1.20", None: None, "1e2": "100.00"},
    ),
    case(
        n.round(2),
        type=t.Numeric(20, 4),
        kind="decimal",
        expected={"1.0050": "1.0100", "-1.0050": "-1.0100", None: None},
    ),
    case(
        n.round(-1),
        type=t.BigInt(),
        kind="integer",
        expected={15: "20", -15: "-20", 14: "10", 9223372036854775801: "9223372036854775800", None: None},
    ),
    case(
        n.clamp(0, 10),
        type=t.Double(),
        kind="double",
        expected={None: None, -1.0: "0.0", 10.5: "10.0", 5.5: "5.5", math.inf: "10.0", -math.inf: "0.0"},
    ),
    case(
        n.clamp(-1.5, 2),
        type=t.Numeric(6, 2),
        expected={None: None, "-9": "-1.50", "3": "2.00", "1.995": "2.00", "0.555": "0.56"},
    ),
    case(n.clamp("b", "d"), expected={None: None, "a": "b", "z": "d", "c": "c", "": "b", "é": "d"}),
    case(
        n.clamp(date(2026, 1, 1), date(2026, 12, 31)),
        type=t.Date(),
        expected={None: None, "1999-01-01": "2026-01-01", "2026-05-05": "2026-05-05", "2030-01-01": "2026-12-31"},
    ),
    case(
        n.clamp(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)),
        type=t.TimestampTZ(),
        expected={
            "2026-01-01T00:30:00+01:00": "2026-01-01 00:00:00.000000",
            "2026-12-30 23:00:00": "2026-12-30 23:00:00.000000",
        },
    ),
    case(ZONE, type=t.Timestamp(), expected=LOCAL),
    case(n.parse_timestamp(), ZONE, type=t.Timestamp(), expected=INSTANTS),
    case(n.parse_timestamp(), ZONE, n.date_trunc("day"), type=t.Date(), expected={"2026-07-01 23:30:00": "2026-07-02"}),
    case(
        n.parse_timestamp(),
        ZONE,
        type=t.Date(),
        expected={"2026-07-01 23:30:00": "2026-07-02", "2026-07-01 21:59:59": "2026-07-01"},
    ),
    *(
        case(n.date_trunc(word), type=t.TimestampTZ(), expected={"2026-08-13 17:45:59.987654": begin, None: None})
        for word, begin in BEGINS.items()
    ),
    case(
        n.date_trunc("weeks"),
        type=t.TimestampTZ(),
        expected={"2026-01-01": "2025-12-29 00:00:00.000000", "2026-08-10": "2026-08-10 00:00:00.000000"},
    ),
    case(n.trim(), type=t.BigInt(), kind="integer", expected={None: None, 12: "12", -(2**63): str(-(2**63))}),
    case(
        n.trim(),
        kind="double",
        expected={1e20: "1e+20", 0.1: "0.1", 12345678.0: "12345678.0", -0.0: "-0.0", None: None},
    ),
    case(n.phone_normalize(), kind="integer", expected={4312345: "4312345"}),
    case(n.empty_to_null(), type=t.Double(), kind="double", expected={2.5: "2.5", None: None}),
]

REGEX = [
    ("[^0-9]", "", "g"), ("[0-9]+", "#", "g"), ("[0-9]+", "#", ""), ("(a)(.)", r"\2\1", "g"), (r"\s+", "_", "g"),
    ("^ +| +$", "", "g"), ("^", ">", ""), ("$", "<", ""), (".", "*", "g"), ("a|b", r"<\&>", "g"), ("É", "e", "gi"),
    ("école", "school", "gi"), (r"\$(.)", r"$1\\\1", "g"), (r"(l\d)", r"\10", "g"), ("x{3,5}?", "y", ""),
    ("[[:alpha:]]+", "w", "g"), ("[^[:space:]]", ".", "g"), (r"(a)?b", r"[\1]", "g"), ("x*$", "", "g"),
    (r"\W", "", "g"), ("[a-c]|É", "v", "gi"), ("👍", "up", "g"), (r"(\n|\r)+", " ", "g"), (r"[\\$.]", "-", "g"),
    ("(?:x)(x)", r"\1", ""), ("l1.l2", "both", "g"), ("[]a]", "b", "g"), ("[a-]", "b", "g"), ("l[12]$", "end", "g"),
]  # fmt: skip


def oracle(pattern: str, replacement: str, flags: str) -> Callable[[str], str]:
    """What Python makes of a pattern, in whose words the cases below happen to be."""
    words = {"[[:alpha:]]": "[A-Za-z]", "[^[:space:]]": r"[^\t-\r ]", "[]a]": r"[\]a]"}
    for word, same in words.items():
        pattern = pattern.replace(word, same)
    options = re.DOTALL | re.ASCII if "i" not in flags else re.DOTALL | re.IGNORECASE
    compiled = re.compile(re.sub(r"\$$", r"\\Z", pattern) if not pattern.endswith("\\$") else pattern, options)

    def made(text: str) -> str:
        def fill(found: re.Match[str]) -> str:
            parts = re.split(r"(\\.)", replacement)
            return "".join(
                part if not part.startswith("\\")
                else "\\" if part[1] == "\\"
                else found[0 if part[1] == "&" else int(part[1])] or ""
                for part in parts
            )  # fmt: skip

        return compiled.sub(fill, text, count=0 if "g" in flags else 1)

    return made


CASES += [
    of_texts(n.regex_replace(pattern, replacement, flags), meaning=oracle(pattern, replacement, flags))
    for pattern, replacement, flags in REGEX
]
