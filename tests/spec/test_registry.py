from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from ematix_flow.decorators import ematix
from ematix_flow.errors import DuplicateNameError, UnknownNameError
from ematix_flow.spec.connection import Connection
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.registry import Registry, active, scope


@dataclass(frozen=True)
class Plain(Connection):
    kind = "plain"


def test_the_last_connection_of_a_name_wins_without_a_word():
    registry = Registry()
    registry.add_connection(Plain("lake"))
    second = Plain("lake")
    assert registry.add_connection(second, Origin("b.py", 3)) is second
    assert registry.connections["lake"] is second
    assert registry.origin("connection", "lake") == Origin("b.py", 3)


def test_a_reloaded_module_replaces_its_own_records_whatever_their_lines():
    registry = Registry()
    registry.add("transform", "clean", "old", Origin("a.py", 10), qualname="clean")
    assert registry.add("transform", "clean", "new", Origin("a.py", 14), qualname="clean") == "new"
    assert registry.get("transform", "clean") == "new"
    assert registry.origin("transform", "clean") == Origin("a.py", 14)


def test_a_path_written_in_two_ways_is_one_file(tmp_path):
    registry = Registry()
    registry.add("transform", "clean", 1, Origin(str(tmp_path / "a.py"), 1))
    assert registry.add("transform", "clean", 2, Origin(str(tmp_path / "x" / ".." / "a.py"), 1)) == 2


@pytest.mark.parametrize("file", ["<stdin>", "<ipython-input-7-ab>", "/tmp/ipykernel_12/345.py"])
def test_a_notebook_cell_can_be_run_again_after_an_edit(file):
    registry = Registry()
    registry.add("transform", "clean", 1, Origin("/tmp/ipykernel_12/99.py", 1))
    assert registry.add("transform", "clean", 2, Origin(file, 1)) == 2


@pytest.mark.parametrize("file", ["<ipython-input-7-ab>", "/tmp/ipykernel_12/345.py"])
def test_one_cell_cannot_declare_a_name_on_two_lines(file):
    registry = Registry()
    registry.add("transform", "clean", 1, Origin(file, 1, unit=1))
    with pytest.raises(DuplicateNameError, match="is declared already at"):
        registry.add("transform", "clean", 2, Origin(file, 5, unit=2))


def load(text):
    exec(compile(text, "jobs.py", "exec"), {"ematix": ematix})  # noqa: S102 - what an import does with a module


FUNCTION = "@ematix.transform()\ndef clean(target): ...\n"


def test_two_functions_of_one_name_in_one_module_are_an_error_with_both_places():
    with scope(), pytest.raises(DuplicateNameError, match=r"'clean' is declared already at jobs\.py:1") as caught:
        load(f"{FUNCTION}{FUNCTION}")
    assert str(caught.value.declared_at) == "jobs.py:3"


def test_a_module_that_was_edited_and_loaded_again_replaces_its_own_functions():
    with scope() as registry:
        for text in (FUNCTION, FUNCTION, f"# a new line\n{FUNCTION}", FUNCTION):
            load(text)
        assert list(registry.transforms) == ["clean"]


def test_a_line_that_runs_again_declares_again():
    with scope() as registry:
        load(f"for _ in range(2):\n    {FUNCTION.replace(chr(10), chr(10) + '    ')}")
        assert list(registry.transforms) == ["clean"]


@pytest.mark.parametrize(
    ("origin", "qualname"), [(Origin("b.py", 10), "clean"), (Origin("a.py", 10), "tidy"), (None, "clean")]
)
def test_a_name_that_another_declaration_has_taken_is_refused_with_both_places(origin, qualname):
    registry = Registry()
    registry.add("transform", "clean", "first", Origin("a.py", 4), qualname="clean")
    with pytest.raises(DuplicateNameError, match=r"transform 'clean' is declared already at a\.py:4") as caught:
        registry.add("transform", "clean", "second", origin, qualname=qualname)
    assert caught.value.declared_at == origin
    assert registry.get("transform", "clean") == "first"


def test_one_name_may_serve_different_kinds():
    registry = Registry()
    registry.add_connection(Plain("clean"))
    registry.add("transform", "clean", "t", Origin("b.py", 1))
    assert registry.get("transform", "clean") == "t"
    assert registry.get("connection", "clean") == Plain("clean")


def test_an_unknown_name_suggests_the_nearest_one():
    registry = Registry()
    registry.add("transform", "clean_orders", 1, Origin("a.py", 1))
    with pytest.raises(UnknownNameError, match="did you mean 'clean_orders'"):
        registry.get("transform", "clean_order")


def test_clearing_one_kind_keeps_the_others():
    registry = Registry()
    registry.add_connection(Plain("lake"))
    registry.add("transform", "clean", 1, Origin("a.py", 1))
    registry.clear("connection")
    assert not registry.connections
    assert registry.get("transform", "clean") == 1
    registry.clear()
    assert registry.add("transform", "clean", 2, Origin("elsewhere.py", 1)) == 2


def test_a_scope_is_fresh_and_ends_with_its_block():
    before = active()
    with scope() as inner:
        assert active() is inner
        assert inner is not before
        assert not inner.connections
        with scope(before):
            assert active() is before
        assert active() is inner
    assert active() is before


def test_a_scope_ends_when_its_block_fails():
    before = active()
    with pytest.raises(RuntimeError), scope():
        raise RuntimeError
    assert active() is before


def test_a_scope_does_not_reach_into_another_thread():
    seen = []
    with scope() as inner:
        thread = threading.Thread(target=lambda: seen.append(active()))
        thread.start()
        thread.join()
        assert seen[0] is not inner
