"""Environment variables that hold connections: how they are named, and what they say.

``EMATIX_FLOW_DSN_<NAME>`` holds a URL, ``EMATIX_FLOW_<KIND>_<NAME>_<PROPERTY>`` one field. The environment itself is
read elsewhere.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..errors import UnknownNameError
from .connection import field_value, kind_class, known_kinds, own_fields

__all__ = ["DSN", "PREFIX", "TypedVariables", "dsn_names", "dsn_variables", "typed_variables"]

PREFIX = "EMATIX_FLOW_"
DSN = "EMATIX_FLOW_DSN"


@dataclass(frozen=True)
class TypedVariables:
    """The fields of one connection that variables say, and which variable says each."""

    kind: str
    texts: Mapping[str, str]
    variables: Mapping[str, str]

    def values(self, connection: str) -> dict[str, object]:
        """The fields in their own types; UnknownNameError for a property that the kind does not have."""
        known = {each.name: each for each in own_fields(kind_class(self.kind)) if each.name != "name"}
        for name in self.texts:
            if name not in known:
                where = f"environment variable {self.variables[name]}: {self.kind} connection {connection!r}"
                raise UnknownNameError("property", name, known=known, where=where)
        return {name: field_value(known[name], text) for name, text in self.texts.items()}


def dsn_variables(name: str) -> tuple[str, ...]:
    """The variables that can hold the URL of the connection `name`, in order."""
    named = f"{DSN}_{_spelled(name)}"
    return (DSN, named) if name == "default" else (named,)


def dsn_names(environment: Mapping[str, str], known: Iterable[str]) -> set[str]:
    """The names of the connections whose URL is in a variable; one that fits a known name is that one."""
    # A variable says `RAW_DB` for raw-db, raw.db and raw_db: it only makes a new name where it fits no known one.
    claimed = {variable: name for name in known for variable in dsn_variables(name)}
    held = [variable for variable, text in environment.items() if text and f"{variable}_".startswith(f"{DSN}_")]
    return {claimed.get(variable) or variable.removeprefix(f"{DSN}_").lower() for variable in held}


def typed_variables(
    environment: Mapping[str, str], known: Collection[str], settings: Collection[str]
) -> dict[str, list[TypedVariables]]:
    """What variables say about connections, by name; two kinds under one name stay apart.

    `known` are names that are declared elsewhere, `settings` variables that have another meaning.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    candidates = [
        variable
        for variable, text in sorted(environment.items())
        if text and variable.startswith(PREFIX) and variable not in settings and not variable.startswith(DSN)
    ]
    kinds = _kinds_with_fields() if candidates else {}
    for variable in candidates:
        rest = variable.removeprefix(PREFIX)
        kind = next((kind for kind in kinds if rest.startswith(f"{_spelled(kind)}_")), None)
        if kind is None:
            continue
        parts = _name_and_property(rest.removeprefix(f"{_spelled(kind)}_"), known, kinds[kind])
        if parts is not None:
            found.setdefault(parts[0], {}).setdefault(kind, {})[parts[1]] = variable
    return {
        name: [
            TypedVariables(kind, {each: environment[variables[each]] for each in variables}, variables)
            for kind, variables in by_kind.items()
        ]
        for name, by_kind in found.items()
    }


def _spelled(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _kinds_with_fields() -> dict[str, list[str]]:
    """The fields of each kind that has some, the longest names first."""
    fields = {kind: [each.name for each in own_fields(kind_class(kind))[1:]] for kind in known_kinds()}
    ordered = sorted(fields, key=len, reverse=True)
    return {kind: sorted(fields[kind], key=len, reverse=True) for kind in ordered if fields[kind]}


def _name_and_property(text: str, known: Collection[str], fields: Collection[str]) -> tuple[str, str] | None:
    """Where the name of a connection ends: names may hold underscores, and so may properties."""
    declared = [name for name in sorted(known, key=len, reverse=True) if text.startswith(f"{_spelled(name)}_")]
    asked = {name: text.removeprefix(f"{_spelled(name)}_").lower() for name in declared}
    for name, property in asked.items():  # noqa: A001
        if property in fields:
            return name, property
    lowered = text.lower()
    for field in fields:
        if lowered == field:
            return "default", field
        if lowered.endswith(f"_{field}"):
            return lowered.removesuffix(f"_{field}"), field
    if asked:
        return next(iter(asked.items()))
    return _nearest_split(lowered, fields)


def _nearest_split(text: str, fields: Collection[str]) -> tuple[str, str] | None:
    """The split whose property is most like a real one; None where there is only one word."""
    words = text.split("_")
    splits = [("_".join(words[:at]), "_".join(words[at:])) for at in range(1, len(words))]
    return max(splits, key=lambda split: max(_likeness(split[1], field) for field in fields), default=None)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
