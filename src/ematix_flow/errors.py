"""Every exception the package raises, and nothing else.

    FlowError
    ├── SpecError (ValueError)             a declaration cannot be right
    │   ├── SpecTypeError (TypeError)      a declaration has the wrong kind of thing in it
    │   ├── UnknownNameError (KeyError)    a name that nothing answers to
    │   ├── DuplicateNameError             a name that is taken
    │   ├── CycleError                     declarations that wait for each other
    │   ├── MissingSourceError (RuntimeError)       nothing says where the rows come from
    │   └── UnsupportedError (NotImplementedError)  the chosen system cannot do this
    ├── ConfigError (ValueError)           a setting is missing or wrong
    │   ├── ConnectionLookupError (KeyError)        no connection of that name
    │   └── SecretError (KeyError)         a ``${…}`` reference cannot be filled
    ├── BackendError (ValueError)          a system refused
    │   ├── ConnectError                   it could not be reached (transient)
    │   │   └── RefusedError               it is there and lets us not in
    │   ├── ConflictError                  somebody else wrote first (transient)
    │   └── DriftError                     a table differs from its declaration
    ├── RunError                           a run could not finish
    │   ├── UserCodeError                  the pipeline's own function failed
    │   ├── CheckError (ValueError)        the rows break a rule of the load
    │   ├── PartialRunError                some targets of a pipeline failed
    │   ├── StepError (ValueError)         a step after the load failed; the load is committed
    │   └── LeaseLostError                 another process owns the run now
    ├── SessionError                       Spark could not start or died
    │   └── JarError                       a jar that Spark needs cannot be had
    └── MissingExtraError (ImportError)    an optional package is not installed

Each error has a stable ``code`` (an anchor in ``docs/errors.md``), a ``message``, an optional ``hint`` that says what
to do next, an optional ``declared_at`` place, ``transient``, which says whether a retry can help, and ``passing``: it
can help within moments, so that a run tries again by itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import ClassVar

__all__ = [
    "BackendError",
    "CheckError",
    "ConfigError",
    "ConflictError",
    "ConnectError",
    "ConnectionLookupError",
    "CycleError",
    "DriftError",
    "DuplicateNameError",
    "FlowError",
    "JarError",
    "LeaseLostError",
    "MissingExtraError",
    "MissingSourceError",
    "PartialRunError",
    "RefusedError",
    "RunError",
    "SecretError",
    "SessionError",
    "SpecError",
    "SpecTypeError",
    "StepError",
    "UnknownNameError",
    "UnsupportedError",
    "UserCodeError",
    "nearest",
]


class FlowError(Exception):
    """The root of all errors of this package."""

    code: ClassVar[str] = "flow"
    transient: ClassVar[bool] = False
    passing: bool = False
    """Whether the cause may be gone in a moment: a run tries again by itself."""

    def __init__(self, message: str, *, hint: str | None = None, declared_at: object | None = None) -> None:
        from .spec.redaction import without_secrets  # only when something went wrong

        # Systems and users' code quote what they were given: no message of ours shows a secret, whoever wrote it.
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.hint = hint
        self.declared_at = declared_at

    def __str__(self) -> str:
        text = self.message
        if self.declared_at is not None:
            text += f" ({self.declared_at})"
        if self.hint:
            text += f"\nHint: {self.hint}"
        return text


class SpecError(FlowError, ValueError):
    """A declaration that cannot be right."""

    code = "spec.invalid"


class SpecTypeError(SpecError, TypeError):
    """A declaration with the wrong kind of thing in it."""

    code = "spec.type"


class UnknownNameError(SpecError, KeyError):
    """A name that nothing answers to; suggests the nearest one that does."""

    code = "spec.unknown-name"

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        known: Iterable[str] = (),
        where: str | None = None,
        declared_at: object | None = None,
    ) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        owner = f"{where} has no {kind} {name!r}" if where else f"unknown {kind} {name!r}"
        super().__init__(owner, hint=nearest(kind, name, self.known), declared_at=declared_at)


class DuplicateNameError(SpecError):
    """A name that something else has taken."""

    code = "spec.duplicate-name"


class CycleError(SpecError):
    """Declarations that wait for each other."""

    code = "spec.cycle"


class MissingSourceError(SpecError, RuntimeError):
    """A pipeline of which nothing says where its rows come from."""

    code = "spec.no-source"


class UnsupportedError(SpecError, NotImplementedError):
    """Something the chosen system or mode cannot do."""

    code = "spec.unsupported"


class ConfigError(FlowError, ValueError):
    """A setting that is missing or wrong."""

    code = "config.invalid"


class ConnectionLookupError(ConfigError, KeyError):
    """No connection has that name."""

    code = "config.unknown-connection"


class SecretError(ConfigError, KeyError):
    """A ``${…}`` reference that cannot be filled."""

    code = "config.secret"


class BackendError(FlowError, ValueError):
    """A system refused what it was asked."""

    code = "backend.failed"


class ConnectError(BackendError):
    """A system could not be reached."""

    code = "backend.connect"
    transient = True


class RefusedError(ConnectError):
    """A system is there and lets us not in: a wrong password, no such database, a certificate that is not trusted."""

    code = "backend.refused"
    transient = False


class ConflictError(BackendError):
    """Somebody else wrote to the same place first."""

    code = "backend.conflict"
    transient = True


class DriftError(BackendError):
    """A table differs from its declaration; ``differences`` has one line each."""

    code = "backend.drift"

    def __init__(
        self, message: str, differences: Iterable[str], *, hint: str | None = None, declared_at: object | None = None
    ) -> None:
        self.differences = tuple(differences)
        super().__init__("\n  ".join((message, *self.differences)), hint=hint, declared_at=declared_at)


class RunError(FlowError, RuntimeError):
    """A run that could not finish."""

    code = "run.failed"


class UserCodeError(RunError):
    """The pipeline's own function failed; ``__cause__`` is what it raised."""

    code = "run.user-code"


class CheckError(RunError, ValueError):
    """The incoming rows break a rule of the load; nothing was written."""

    code = "run.check"


class PartialRunError(RunError):
    """Some targets of a pipeline failed, or all; ``outcome`` has the results and the errors of each."""

    code = "run.partial"

    def __init__(self, message: str, outcome: Mapping[str, object], *, declared_at: object | None = None) -> None:
        self.outcome = dict(outcome)
        hint = "what was loaded is committed; run again when the cause is gone"
        super().__init__(message, hint=hint, declared_at=declared_at)


class StepError(RunError, ValueError):
    """A step after the load failed; the load is committed, and ``result`` is what it gave."""

    code = "run.step"

    def __init__(self, message: str, result: Mapping[str, object], *, declared_at: object | None = None) -> None:
        self.result = dict(result)
        hint = "the load is committed and its rows stay; mend the step, then run it, or the pipeline, again"
        super().__init__(message, hint=hint, declared_at=declared_at)


class LeaseLostError(RunError):
    """Another process owns the run now."""

    code = "run.lease-lost"
    transient = True


class SessionError(FlowError, RuntimeError):
    """Spark could not start, or died."""

    code = "session.failed"


class JarError(SessionError):
    """A jar that Spark needs cannot be had, or is not the one that was locked."""

    code = "session.jar"


class MissingExtraError(FlowError, ImportError):
    """An optional package that is needed here is not installed."""

    code = "extra.missing"

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"the package {package!r} is not installed", hint=f"pip install 'ematix-flow-spark[{extra}]'")


def nearest(kind: str, name: str, known: Iterable[str]) -> str:
    """A hint that names the closest known name, and all of them when they are few."""
    names = sorted(known)
    if not names:
        return f"no {kind} is declared"
    folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    guess = f"did you mean {folded[close[0]]!r}? " if close else ""
    shown = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    return f"{guess}Known: {shown}."
