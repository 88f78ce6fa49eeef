"""The systems of a project: opened when first asked for, kept, lent to handles, and closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .backends.workshop import Workshop
from .config import Found, all_connections, find_connection
from .errors import ConfigError, ConnectionLookupError, FlowError, MissingExtraError, RunError, UnsupportedError
from .secrets import expand
from .spec.connection import Connection
from .spec.pipeline import Pipeline
from .spec.registry import Registry

if TYPE_CHECKING:
    from .backends.base import Backend
    from .engine.handle import Handle
    from .spec.place import Place, Rows
    from .spec.run import Run

__all__ = ["UNTOLD", "Foreseen", "OpenSystems"]


UNTOLD = (ConfigError, RunError, UnsupportedError, MissingExtraError)
"""The errors of looking ahead: a connection that is missing or cannot be opened, a function that asked a system."""


@dataclass(frozen=True)
class Foreseen:
    """The systems of a pipeline as far as they are known without opening any."""

    source: Backend | None
    target: Backend | None
    problem: FlowError | None


class OpenSystems:
    """What a project can reach by the names of its connections, and what of it is open."""

    def __init__(self, registry: Registry, folder: Path, workshop: Workshop) -> None:
        self._registry, self._folder, self._workshop = registry, folder, workshop
        self._backends: dict[str, Backend] = {}
        self._opened: WeakSet[Backend] = WeakSet()

    def connections(self) -> list[Found]:
        """Every connection that can be found, with its origin."""
        return all_connections(registry=self._registry, cwd=self._folder)

    def knows(self, name: str) -> bool:
        """Whether there is a connection of that name."""
        try:
            self._connection(name)
        except ConnectionLookupError:
            return False
        return True

    def backend(self, name: str) -> Backend:
        """The system behind a connection, its references filled; kept until all are closed."""
        if name not in self._backends:
            self._backends[name] = self._open(self._placed(self._connection(name).resolve(expand)))
        return self._backends[name]

    def of(
        self, pipeline: Pipeline, place: Place | Rows | None = None, *, live: bool = True
    ) -> tuple[Backend, Backend]:
        """The source and the target of a pipeline; its function may have chosen who runs its query.

        Unless `live`, they only tell what can be told without opening them.
        """
        source = getattr(place, "connection", None) or pipeline.source_connection
        target = self.one(pipeline, pipeline.target_connection, live=live)
        is_one = source in (None, pipeline.target_connection)
        return (target if is_one else self.one(pipeline, str(source), live=live)), target

    def one(self, pipeline: Pipeline, name: str, *, live: bool) -> Backend:
        """One system of a pipeline; an error about its connection names the pipeline."""
        try:
            return self.backend(name) if live else self._closed(name)
        except ConnectionLookupError as error:
            message = f"pipeline {pipeline.name!r}: {error.message}"
            raise ConnectionLookupError(message, hint=error.hint, declared_at=pipeline.declared_at) from None

    def foreseen(self, pipeline: Pipeline, place: Place | Rows | None) -> Foreseen:
        """What is known of a pipeline's source and target without opening them, and why the others are not."""
        named = getattr(place, "connection", None) or pipeline.source_connection or pipeline.target_connection
        found: list[Backend | None] = []
        problem: FlowError | None = None
        for name in (str(named), pipeline.target_connection):
            try:
                found.append(self.one(pipeline, name, live=False))
            except UNTOLD as error:
                found.append(None)
                problem = problem or error
        return Foreseen(found[1] if named == pipeline.target_connection else found[0], found[1], problem)

    def runs(
        self,
        wanted: Sequence[tuple[str, str | None]],
        limit: int,
        on_unread: Callable[[str, FlowError], None] | None = None,
    ) -> list[Run]:
        """What is recorded in each connection under each name, or under all of them, newest first.

        A system that cannot be read is an error, unless `on_unread` is told of it and another one can be.
        """
        records: list[Run] = []
        unread: dict[str, FlowError] = {}
        for connection, name in wanted:
            if connection not in unread:
                try:
                    records += self.backend(connection).ledger.runs(pipeline=name, limit=limit)
                except FlowError as error:
                    unread[connection] = error
        for connection, reason in unread.items():
            if on_unread is None or unread.keys() == {each for each, _ in wanted}:
                raise reason
            on_unread(connection, reason)
        once = {run.run_id: run for run in records}  # two connections may lead to one system
        return sorted(once.values(), key=lambda run: run.started_at, reverse=True)[:limit]

    def jar_groups(self) -> tuple[str, ...]:
        """The groups of jars that the systems need which are open, lent ones among them."""
        return tuple(sorted({group for each in (*self._opened, *self._backends.values()) for group in each.jars}))

    def connect(self, name: str, url: str | None, on_close: Callable[[], None] | None = None) -> Handle:
        """An open handle of a connection; with `url`, of the system that it names, whatever is declared.

        What is open already is shared, and stays open when the handle is closed; `on_close` is called then.
        """
        from .engine.handle import Handle

        found = find_connection(name, url=url, registry=self._registry, cwd=self._folder)
        connection = self._placed(found.connection.resolve(expand))
        kept = self._backends.get(name)
        if url is None and kept is None:
            kept = self._backends[name] = self._open(connection)
        if url is None and kept is not None and kept.connection == connection:
            handle = Handle(kept, on_close=on_close)
        else:  # a system that is not the project's, or one whose declaration has changed since
            backend = self._open(connection)
            handle = Handle(backend, on_close=backend.close)
        try:
            handle.ping()
        except BaseException:
            handle.close()
            raise
        return handle

    @contextmanager
    def lent(self, options: Mapping[str, object]) -> Iterator[dict[str, object]]:
        """The options of a pipeline with names in place of open handles, which answer to them inside the block."""
        from .engine.handle import Handle

        named, lent = dict(options), list[str]()
        try:
            for keyword in ("source_connection", "target_connection"):
                handle = named.get(keyword)
                if isinstance(handle, Handle):
                    name = f"{handle.name} ({keyword.removesuffix('_connection')} handle {id(handle)})"
                    self._backends[name] = handle.backend
                    named[keyword] = name
                    lent.append(name)
            if len(lent) == 2 and self._backends[lent[0]] is self._backends[lent[1]]:
                named["source_connection"] = named["target_connection"]
            yield named
        finally:
            for name in lent:
                del self._backends[name]

    def close(self) -> None:
        """Let go of everything that is open."""
        for backend in self._backends.values():
            backend.close()
        self._backends.clear()
        self._opened.clear()

    def _open(self, connection: Connection) -> Backend:
        backend: Backend = connection.open(self._workshop)
        self._opened.add(backend)
        return backend

    def _closed(self, name: str) -> Backend:
        backend: Backend = self._placed(self._connection(name)).open(self._workshop)
        return backend

    def _connection(self, name: str) -> Connection:
        return find_connection(name, registry=self._registry, cwd=self._folder).connection

    def _placed(self, connection: Connection) -> Connection:
        """The connection with its relative path begun in the project's folder; it shows itself as declared."""
        field = connection.local_path
        path = str(getattr(connection, field)) if field else ":memory:"
        if path == ":memory:" or "://" in path or (path.startswith("${") and not connection.final):
            return connection
        begun: dict[str, Any] = {field: str(self._folder / Path(path).expanduser())}
        return replace(connection, **begun, shown=connection.redacted())
