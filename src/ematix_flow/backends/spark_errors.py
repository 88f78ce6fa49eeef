"""Spark's own exceptions in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import BackendError, FlowError, SessionError, UnknownNameError

__all__ = ["spark_errors"]


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise Spark's exceptions as ours; the long stack of Java frames stays behind as the cause."""
    try:
        yield
    except Exception as error:  # vendor boundary: only Spark's errors are taken, the rest goes on
        if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
            raise SessionError(
                "Spark's Java process ended in the middle of the work",
                hint="out of memory is the usual cause: raise [spark] memory; its log is in the cache folder, logs/",
            ) from error
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise _translated(error) from error


def _translated(error: Exception) -> FlowError:
    messages = _messages(error)
    missing = re.search(r"\[UNRESOLVED_COLUMN\S*\].*? name `(.+?)` cannot be", messages[0])
    if missing is not None:
        _, _, suggested = messages[0].partition("Did you mean one of the following? [")
        known = [name.replace("`", "").split(".")[-1] for name in suggested.partition("]")[0].split(", ") if name]
        return UnknownNameError("column", missing.group(1).replace("`", ""), known=known, where="the source")
    # Spark wraps what went wrong in what it was doing at the time; the file is named only there.
    files = [found.group(1) for text in messages if (found := re.search(r"\bfile:(?://)?(/\S+?)[.,]?(?:\s|$)", text))]
    place = f" (in the file {files[0]})" if files and files[0] not in messages[-1] else ""
    record = next((found.group(1) for text in messages if (found := _BAD_RECORD.search(text))), None)
    last = _RAISED.sub(r"\1", messages[-1])
    said = last if record is None else f"the row [{record}] cannot be read: {last}"
    hint = "run again with -v to see Spark's own log"
    if record is not None:
        hint = (
            "look for this row in the file: it has more or fewer values than the header, or one of another type; put a "
            "value with a separator, a quote or a line break into quotes"
        )
    return BackendError(f"Spark refused: {said}{place}", hint=hint)


# What a query of ours refuses it says in its own words.
_RAISED = re.compile(r"^\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?$")
_BAD_RECORD = re.compile(r"Malformed records are detected in record parsing: \[?(.*?)\]?\.?$")


def _messages(error: Exception) -> list[str]:
    """The first line of each message, from what Spark was doing down to what went wrong."""
    found = [str(error)]
    java = getattr(error, "java_exception", None)
    while java is not None:
        found.append(str(java.getMessage() or found[-1]))
        java = java.getCause()
    return [text.strip().split("\n")[0] for text in found]
