"""Connections from variables, written into files, and opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ematix_flow
from ematix_flow import config
from ematix_flow.config import all_connections, find_connection, list_connections, resolve_dsn
from ematix_flow.connections import DuckDBConnection
from ematix_flow.errors import (
    ConfigError,
    ConnectError,
    ConnectionLookupError,
    RunError,
    SpecError,
    UnknownNameError,
)
from ematix_flow.secrets import expand
from tests.empty_project import Embedded, Project, Remote, empty_project


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An empty project in an empty world."""
    with empty_project(tmp_path, monkeypatch) as project:
        yield project


# ── variables for single fields ───────────────────────────────────────────────────────────────────────────────────────


def test_variables_for_single_fields_make_a_connection(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_WARE_HOUSE_PATH", "a.db")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_WARE_HOUSE_THREADS", "4")
    found = find_connection("ware_house")
    assert found.connection == Embedded("ware_house", "a.db", threads=4)
    assert found.origin == (
        "environment variables EMATIX_FLOW_EMBEDDED_WARE_HOUSE_PATH, EMATIX_FLOW_EMBEDDED_WARE_HOUSE_THREADS"
    )
    assert list_connections() == {"ware_house": "kind=embedded path=a.db threads=4"}
    assert resolve_dsn("ware_house") == "embedded:///a.db?threads=4"


def test_variables_for_single_fields_change_a_declared_connection_of_their_kind(project, monkeypatch):
    project.write('[connections.raw-db]\nkind = "embedded"\npath = "${WHERE}/a.db"\n')
    monkeypatch.setenv("WHERE", "data")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_RAW_DB_THREADS", "4")
    found = find_connection("raw-db")
    assert found.connection.resolve(expand) == Embedded("raw-db", "data/a.db", threads=4)
    assert found.origin == f"environment variable EMATIX_FLOW_EMBEDDED_RAW_DB_THREADS over {project.file}:1"
    assert [each.name for each in all_connections()] == ["raw-db"]


def test_variables_of_another_kind_take_the_place_of_what_a_file_says(project, monkeypatch):
    project.write('[connections.lake]\nkind = "remote"\nurl = "remote://h"\n')
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_PATH", "a.db")
    assert find_connection("lake").connection == Embedded("lake", "a.db")


def test_a_variable_for_one_field_wins_over_the_variable_with_the_url(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_DSN_LAKE", "embedded:///a.db?threads=2")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_PATH", "b.db")
    assert find_connection("lake").connection == Embedded("lake", "b.db", threads=2)


def test_variables_for_single_fields_hold_no_references(project, monkeypatch):
    project.write('[connections.crm]\nkind = "remote"\nurl = "remote://${PW}@h"\n')
    monkeypatch.setenv("PW", "hunter2")
    monkeypatch.setenv("EMATIX_FLOW_REMOTE_CRM_PASSWORD", "${PW}")
    resolved = find_connection("crm").connection.resolve(expand)
    assert (resolved.url, resolved.password) == ("remote://hunter2@h", "${PW}")
    assert "hunter2" not in repr(resolved)


def test_a_reference_for_a_whole_url_stays_hidden_under_a_variable_for_one_field(project, monkeypatch):
    project.write('[connections.lake]\ndsn = "${LAKE_URL}"\n')
    monkeypatch.setenv("LAKE_URL", "embedded:///hunter2.db")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_THREADS", "4")
    found = find_connection("lake").connection
    assert (found.path, found.threads) == ("hunter2.db", 4)
    assert "hunter2" not in repr(found)


def test_without_a_name_a_variable_means_the_default_connection(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_PATH", "a.db")
    assert find_connection().connection == Embedded("default", "a.db")


@pytest.mark.parametrize("declared", [True, False])
def test_an_unknown_property_is_an_error_of_its_own_connection_that_names_the_nearest(project, monkeypatch, declared):
    if declared:
        project.write('[connections.lake]\nkind = "embedded"\npath = "a.db"\n')
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_THREDS", "4")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_OTHER_PATH", "b.db")
    assert find_connection("other").connection.path == "b.db"
    with pytest.raises(UnknownNameError, match=r"EMATIX_FLOW_EMBEDDED_LAKE_THREDS.*'threds'\n.*'threads'"):
        find_connection("lake")


def test_variables_of_two_kinds_for_one_name_are_an_error(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_PATH", "a.db")
    monkeypatch.setenv("EMATIX_FLOW_REMOTE_LAKE_URL", "remote://h")
    with pytest.raises(ConfigError, match="connection 'lake' has several kinds"):
        find_connection("lake")


def test_a_url_of_one_kind_and_a_field_of_another_are_an_error(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_DSN_LAKE", "remote://h")
    monkeypatch.setenv("EMATIX_FLOW_EMBEDDED_LAKE_PATH", "a.db")
    with pytest.raises(ConfigError, match="is remote by its URL, and embedded by EMATIX_FLOW_EMBEDDED_LAKE_PATH"):
        find_connection("lake")


def test_settings_and_other_variables_are_no_connections(monkeypatch):
    for name in ("SPARK_MASTER", "MEMORY_LIMIT", "ALERTERS", "RUN_LOG_URL", "EMBEDDED_X"):
        monkeypatch.setenv(f"EMATIX_FLOW_{name}", "x")
    assert list_connections() == {}


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

WRITTEN = """\
# my own
[connections]
plain = "embedded:///plain.db"   # a text

[connections.crm]   # the customers
kind = "remote"
# ask Ada
url = "remote://u:${CRM_PW}@h"

[connections.lake]
dsn = "embedded:///a.db"
threads = 2  # enough

[[connection]]
name = "block"
url = "embedded:///block.db"
"""


@pytest.mark.parametrize(
    ("name", "fields", "changed"),
    [
        ("plain", {"dsn": "embedded:///b.db"}, ('"embedded:///plain.db"', '"embedded:///b.db"')),
        ("crm", {"url": "remote://h2"}, ('"remote://u:${CRM_PW}@h"', '"remote://h2"')),
        ("lake", {"dsn": "embedded:///b.db"}, ('"embedded:///a.db"', '"embedded:///b.db"')),
        ("lake", {"threads": "8"}, ("threads = 2", "threads = 8")),
        ("block", {"dsn": "embedded:///b.db"}, ('"embedded:///block.db"', '"embedded:///b.db"')),
    ],
)
def test_a_connection_is_changed_in_its_place_and_the_rest_of_the_file_stays(project, name, fields, changed):
    project.write_user(WRITTEN)
    dsn = fields.pop("dsn", None)
    assert config.set_connection(name, dsn, **fields) == project.user_file
    assert project.user_file.read_text() == WRITTEN.replace(*changed)


def test_a_new_connection_is_added_behind_the_others(project):
    project.write_user(WRITTEN)
    config.set_connection("new one", kind="embedded", path='a "b".db', threads=3)
    assert project.user_file.read_text().startswith(WRITTEN.partition("[[connection]]")[0].rstrip())
    assert "# enough" in project.user_file.read_text()
    assert find_connection("new one").connection == Embedded("new one", 'a "b".db', threads=3)
    assert find_connection("block").connection.path == "block.db"


def test_the_first_connection_makes_the_file_which_only_its_owner_can_read(project):
    project.user_file.parent.rmdir()
    config.set_connection("default", "embedded:///a.db")
    assert project.user_file.read_text() == '[connections.default]\nurl = "embedded:///a.db"\n'
    assert (project.user_file.stat().st_mode & 0o777, project.user_file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in project.user_file.parent.iterdir()] == ["connections.toml"]


def test_a_file_that_others_could_read_is_closed_to_them(project):
    project.write_user("")
    project.user_file.chmod(0o644)
    config.set_connection("a", "embedded:///a.db")
    assert project.user_file.stat().st_mode & 0o777 == 0o600


def test_a_link_to_the_file_stays_a_link(project, tmp_path):
    (tmp_path / "dotfiles.toml").write_text("# mine\n")
    project.user_file.symlink_to(tmp_path / "dotfiles.toml")
    config.set_connection("a", "embedded:///a.db")
    assert project.user_file.is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text().startswith("# mine\n")


def test_another_kind_leaves_no_field_of_the_old_one(project):
    project.write_user(WRITTEN)
    config.set_connection("lake", "remote://h")
    assert find_connection("lake").connection == Remote("lake", "remote://h")


def test_a_url_replaces_the_fields_that_it_says_and_keeps_the_others(project):
    project.write_user('[connections.lake]\nkind = "embedded"\npath = "a.db"\nthreads = 2\n')
    config.set_connection("lake", "embedded:///b.db")
    assert find_connection("lake").connection == Embedded("lake", "b.db", threads=2)


def test_a_reference_is_written_as_it_is_whatever_it_will_be(project):
    config.set_connection("lake", "${NOT_SET_HERE}")
    assert list_connections() == {"lake": "${NOT_SET_HERE}"}


@pytest.mark.parametrize(
    ("name", "dsn", "fields", "message"),
    [
        ("a", "gopher://h", {}, "URL scheme 'gopher'"),
        ("a", "S3cr3t", {}, "not a URL"),
        ("a", None, {"kind": "embedded"}, "needs the field 'path'"),
        ("a", None, {"kind": "embedded", "pth": "a"}, "no field 'pth'.*\n.*'path'"),
        ("a", None, {"kind": "embedded", "path": "a", "threads": "many"}, "'threads' cannot be a str"),
        ("a", None, {}, "a URL or fields"),
        (" ", "embedded:///a", {}, "needs a name"),
    ],
)
def test_a_connection_that_cannot_be_right_is_not_written(project, name, dsn, fields, message):
    project.write_user(WRITTEN)
    with pytest.raises(SpecError, match=message) as caught:
        config.set_connection(name, dsn, **fields)
    assert "S3cr3t" not in str(caught.value)
    assert project.user_file.read_text() == WRITTEN


def test_a_file_that_is_no_toml_is_not_touched(project):
    project.write_user("[connections\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.set_connection("a", "embedded:///a.db")
    assert project.user_file.read_text() == "[connections\n"


# ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_opens_a_handle_of_the_connection_that_is_found(project, monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_DSN", "sqlite:///shop.db")
    with config.connect() as handle:
        handle.execute("CREATE TABLE t AS SELECT 1 AS id")
        assert (handle.name, handle.kind, handle.path) == ("default", "sqlite", str(project.file.parent / "shop.db"))
    assert ematix_flow.connect is config.connect
    with pytest.raises(RunError, match="is closed"):
        handle.ping()


def test_a_url_opens_what_it_names_and_needs_no_declaration(project):
    with config.connect(url="duckdb://:memory:") as handle:
        assert handle.fetch_scalar_int("SELECT 41 + 1") == 42


def test_a_name_in_memory_is_the_database_that_the_project_has_open(project):
    project.registry.add_connection(DuckDBConnection("scratch", ":memory:"))
    with config.connect("scratch") as first:
        first.execute("CREATE TABLE t AS SELECT 7 AS id")
    with config.connect("scratch") as second:
        assert second.fetch_scalar_int("SELECT id FROM t") == 7


def test_a_connection_that_has_changed_since_is_opened_anew(project, monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_DSN", "sqlite:///one.db")
    config.connect().close()
    monkeypatch.setenv("EMATIX_FLOW_DSN", "sqlite:///two.db")
    assert config.connect().path.endswith("two.db")


def test_another_folder_has_other_files(project, monkeypatch, tmp_path):
    project.write('[connections.shop]\nurl = "sqlite:///shop.db"\n')
    config.connect("shop").close()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(ConnectionLookupError):
        config.connect("shop")


def test_what_cannot_be_reached_fails_when_it_is_opened():
    with pytest.raises(ConnectError, match="does not exist"):
        config.connect(url="sqlite:///no/such/folder/shop.db")


def test_a_check_tells_and_never_raises(project, monkeypatch):
    project.write(
        '[connections.good]\nurl = "sqlite:///shop.db"\n[connections.lost]\nurl = "sqlite:///no/such/a.db"\n'
        '[connections.later]\nurl = "postgres://u:S3cr3t@127.0.0.1:1/db"\n[connections.unset]\nurl = "sqlite:///${UNSET_HERE}"\n'
    )
    assert config.check_connection("good")[0]
    for name, message in [
        ("lost", "does not exist"),
        ("later", "connection 'later' (postgres)"),
        ("unset", "UNSET_HERE"),
        ("nowhere", "there is no connection 'nowhere'"),
    ]:
        ok, said = config.check_connection(name)
        assert not ok
        assert message in said
        assert "S3cr3t" not in said
