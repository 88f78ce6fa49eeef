from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import ematix_flow
from ematix_flow import config
from ematix_flow.config import Settings, all_connections, find_connection, list_connections, resolve_dsn
from ematix_flow.connections import DuckDBConnection
from ematix_flow.errors import (
    ConfigError,
    ConnectError,
    ConnectionLookupError,
    RunError,
    SecretError,
    SpecError,
    UnknownNameError,
)
from ematix_flow.secrets import expand
from ematix_flow.spec.connection import Connection, register_kind
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.registry import scope


@register_kind
@dataclass(frozen=True)
class Embedded(Connection):
    kind = "embedded"
    schemes = ("embedded",)
    path: str
    threads: int = 1


@register_kind
@dataclass(frozen=True)
class Remote(Connection):
    kind = "remote"
    schemes = ("remote",)
    url: str
    password: str | None = None


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project in an empty world: own home, own directory, own registry, no variables of ours."""
    for variable in list(os.environ):
        if variable.startswith("EMATIX_FLOW") or variable == "XDG_CACHE_HOME":
            monkeypatch.delenv(variable)
    directory, home = tmp_path / "project", tmp_path / "home"
    directory.mkdir()
    (home / ".ematix-flow").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(directory)
    with scope() as registry:
        yield Project(directory / ".ematix-flow.toml", home / ".ematix-flow" / "connections.toml", registry)


class Project:
    def __init__(self, file: Path, user_file: Path, registry) -> None:
        self.file, self.user_file, self.registry = file, user_file, registry

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def write_user(self, text: str) -> None:
        self.user_file.write_text(text)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_any_file_the_defaults_hold(project):
    settings = Settings.load()
    assert (settings.modules, settings.spark_master, settings.spark_memory) == ((), "local[*]", "1g")
    assert (settings.staging_dir, settings.verbose, settings.spark_conf) == (None, False, {})
    assert settings.cache_dir == Path.home() / ".cache" / "ematix-flow"
    assert settings.project_dir == project.file.parent
    assert set(settings.origins.values()) == {"default", "current directory"}


def test_a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(project, monkeypatch):
    project.write('[spark]\nmaster = "file"\nmemory = "file"\n[project]\nstaging_dir = "file"\n')
    monkeypatch.setenv("EMATIX_FLOW_SPARK_MASTER", "environment")
    monkeypatch.setenv("EMATIX_FLOW_SPARK_MEMORY", "environment")
    settings = Settings.load(spark_master="flag", spark_memory=None, modules=())
    assert settings.spark_master == "flag"
    assert settings.spark_memory == "environment"
    assert settings.staging_dir == project.file.parent / "file"
    assert settings.modules == ()
    assert {key: settings.origins[key] for key in ("spark_master", "spark_memory", "staging_dir", "modules")} == {
        "spark_master": "flag spark_master",
        "spark_memory": "environment variable EMATIX_FLOW_SPARK_MEMORY",
        "staging_dir": f"{project.file}:5",
        "modules": "default",
    }


def test_every_setting_of_the_file_is_read(project):
    project.write(
        """
        [project]
        modules = ["pipelines", "more.pipelines"]
        staging_dir = "/staging"
        cache_dir = "~/cache"
        verbose = true

        [spark]
        master = "local[2]"
        memory = "2g"
        [spark.conf]
        "spark.sql.ansi.enabled" = true
        "spark.sql.shuffle.partitions" = 4
        """
    )
    settings = Settings.load()
    assert settings.modules == ("pipelines", "more.pipelines")
    assert settings.staging_dir == Path("/staging")
    assert settings.cache_dir == Path.home() / "cache"
    assert settings.verbose is True
    assert (settings.spark_master, settings.spark_memory) == ("local[2]", "2g")
    assert settings.spark_conf == {"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "4"}


def test_modules_in_a_variable_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_MODULES", "one, two.three")
    assert Settings.load().modules == ("one", "two.three")


def test_the_settings_of_another_directory_can_be_loaded(tmp_path):
    (tmp_path / ".ematix-flow.toml").write_text('[project]\nstaging_dir = "s"\n')
    settings = Settings.load(tmp_path)
    assert (settings.project_dir, settings.staging_dir) == (tmp_path, tmp_path / "s")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("[spork]\nmaster = 'x'", "unknown section 'spork'.*\n.*'spark'", 1),
        ("\n[spark]\nmastre = 'x'", r"\[spark\] of .* unknown key 'mastre'.*\n.*'master'", 3),
        ("[project]\nmodule = 'x'", "unknown key 'module'.*\n.*'modules'", 2),
        ("project = 5", "'project' in .* is not a table", 1),
        ("[project]\nmodules = [1]", "'project.modules' cannot be.*\nHint: write a list of names", 2),
        ("[spark]\nmaster = 5", "'spark.master' cannot be 5.*\nHint: write a text", 2),
        ("[spark]\nconf = 5", "'spark.conf' cannot be 5", 2),
        ("[spark]\n\nmaster = ", "is not valid TOML", 3),
    ],
)
def test_a_mistake_in_the_file_is_an_error_that_names_line_and_nearest(project, text, message, line):
    project.write(text)
    with pytest.raises(ConfigError, match=message) as caught:
        Settings.load()
    assert f".ematix-flow.toml:{line}" in str(caught.value)


def test_an_unknown_flag_is_an_error():
    with pytest.raises(ConfigError, match=r"unknown setting 'spark_mastre'\n.*'spark_master'"):
        Settings.load(spark_mastre="x")


def test_spark_settings_are_not_shown_since_they_may_hold_keys(project):
    project.write('[spark.conf]\n"spark.hadoop.fs.s3a.secret.key" = "S3cr3t"\n')
    settings = Settings.load()
    assert settings.spark_conf["spark.hadoop.fs.s3a.secret.key"] == "S3cr3t"
    assert "S3cr3t" not in repr(settings)


# ── environment ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_environment_is_read_as_it_is_now(monkeypatch):
    assert config.environment("EMATIX_FLOW_SOMETHING") is None
    monkeypatch.setenv("EMATIX_FLOW_SOMETHING", "")
    assert config.environment("EMATIX_FLOW_SOMETHING") == ""
    assert config.environment_copy()["EMATIX_FLOW_SOMETHING"] == ""
    config.set_environment("EMATIX_FLOW_SOMETHING", "1")
    assert os.environ["EMATIX_FLOW_SOMETHING"] == "1"


@pytest.mark.parametrize(("value", "meant"), [("1", True), ("yes", True), ("", False), ("0", False), ("False", False)])
def test_a_flag_in_the_environment_is_on_unless_it_says_no(monkeypatch, value, meant):
    monkeypatch.setenv("EMATIX_FLOW_BANNER", value)
    assert config.environment_flag("EMATIX_FLOW_BANNER") is meant


# ── finding a connection ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_nearest_place_wins_keyword_environment_project_user_code(project, monkeypatch):
    def path_and_origin(**keywords):
        found = find_connection("lake", **keywords)
        return found.connection.path, found.origin

    project.registry.add_connection(Embedded("lake", "code.db"), Origin("pipelines.py", 4))
    assert path_and_origin() == ("code.db", "pipelines.py:4")
    project.write_user('\n[connections.lake]\nurl = "embedded:///user.db"\n')
    assert path_and_origin() == ("user.db", f"{project.user_file}:2")
    project.write('[connections.lake]\nurl = "embedded:///project.db"\n')
    assert path_and_origin() == ("project.db", f"{project.file}:1")
    monkeypatch.setenv("EMATIX_FLOW_DSN_LAKE", "embedded:///environment.db")
    assert path_and_origin() == ("environment.db", "environment variable EMATIX_FLOW_DSN_LAKE")
    assert path_and_origin(url="embedded:///keyword.db") == ("keyword.db", "keyword url")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("default", "EMATIX_FLOW_DSN"),
        ("default", "EMATIX_FLOW_DSN_DEFAULT"),
        ("raw-db.eu west", "EMATIX_FLOW_DSN_RAW_DB_EU_WEST"),
        ("Crm", "EMATIX_FLOW_DSN_CRM"),
    ],
)
def test_a_variable_is_named_after_its_connection(monkeypatch, name, variable):
    monkeypatch.setenv(variable, "embedded:///a.db")
    assert find_connection(name).connection == Embedded(name, "a.db")
    assert [found.origin for found in all_connections() if found.connection.path == "a.db"] == [
        f"environment variable {variable}"
    ]


def test_a_variable_that_is_empty_counts_as_not_set(project, monkeypatch):
    monkeypatch.setenv("EMATIX_FLOW_DSN", "")
    project.write('[connections]\ndefault = "embedded:///a.db"\n')
    assert find_connection().connection.path == "a.db"


@pytest.mark.parametrize(
    "text",
    [
        '[connections.lake]\ndsn = "embedded:///a.db?threads=2"',
        '[connections.lake]\nurl = "embedded:///a.db?threads=2"',
        '[connections.lake]\nurl = "embedded:///a.db"\nthreads = 2',
        '[connections.lake]\nkind = "embedded"\npath = "a.db"\nthreads = 2',
        '[connections.lake]\ntype = "embedded"\npath = "a.db"\nthreads = 2',
        '[connections]\nlake = "embedded:///a.db?threads=2"',
        '[[connection]]\nname = "lake"\nkind = "embedded"\npath = "a.db"\nthreads = 2',
        'connections.lake = {kind = "embedded", path = "a.db", threads = 2}',
    ],
)
def test_a_file_may_write_a_connection_in_any_of_the_documented_forms(project, text):
    project.write(text)
    found = find_connection("lake").connection
    assert found == Embedded("lake", "a.db", threads=2)
    assert str(found.declared_at).startswith(".ematix-flow.toml:")


def test_blocks_point_at_their_own_lines(project):
    project.write(
        '[[connection]]\nname = "a"\nurl = "embedded:///a"\n\n[[connection]]\nname = "b"\nurl = "embedded:///b"\n'
    )
    assert [found.origin.rpartition(":")[2] for found in all_connections()] == ["1", "5"]


def test_an_unknown_name_says_where_it_was_looked_for_and_what_is_near(project):
    project.registry.add_connection(Embedded("warehouse", "a.db"))
    with pytest.raises(ConnectionLookupError) as caught:
        find_connection("ware-house")
    text = str(caught.value)
    assert "there is no connection 'ware-house'" in text
    for part in ("EMATIX_FLOW_DSN_WARE_HOUSE", str(project.file), str(project.user_file), "did you mean 'warehouse'?"):
        assert part in text
    assert isinstance(caught.value, LookupError)


def test_the_registry_can_be_given(project):
    with scope() as other:
        other.add_connection(Embedded("lake", "other.db"))
    assert find_connection("lake", registry=other).connection.path == "other.db"
    with pytest.raises(ConnectionLookupError):
        find_connection("lake")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('[connections.lake]\nkind = "embedded"\npth = "a"', UnknownNameError, r"no field 'pth' \(.*:1\)\n.*'path'"),
        ('[connections.lake]\nkind = "embeded"\npath = "a"', UnknownNameError, "'embeded'.*:1.*\n.*'embedded'"),
        ('[connections.lake]\npath = "a"', SpecError, "neither a kind nor a url"),
        ("[connections]\nlake = 5", ConfigError, r"neither a URL nor a table \(.*:2\)"),
        ('[[connection]]\nurl = "embedded:///a"', ConfigError, r"has no name \(.*:1\)"),
        (
            '[[connection]]\nname = "lake"\nurl = "embedded:///a"\n[connections.lake]\nurl = "embedded:///a"',
            ConfigError,
            "twice, first at line 4",
        ),
    ],
)
def test_a_wrong_entry_is_an_error_that_points_at_it(project, text, error, message):
    project.write(text)
    with pytest.raises(error, match=message):
        find_connection("lake")


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
        '[connections.later]\nurl = "postgres://u:S3cr3t@h/db"\n[connections.unset]\nurl = "sqlite:///${UNSET_HERE}"\n'
    )
    assert config.check_connection("good")[0]
    for name, message in [
        ("lost", "does not exist"),
        ("later", "cannot be opened by this version"),
        ("unset", "UNSET_HERE"),
        ("nowhere", "there is no connection 'nowhere'"),
    ]:
        ok, said = config.check_connection(name)
        assert not ok
        assert message in said
        assert "S3cr3t" not in said


# ── references ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unset_variable_breaks_only_its_own_entry_and_only_when_it_is_resolved(project, monkeypatch):
    monkeypatch.setenv("SET_HERE", "data")
    project.write(
        '[connections.good]\nurl = "embedded:///${SET_HERE}/a.db"\n[connections.bad]\nurl = "embedded:///${UNSET_HERE}"\n'
    )
    assert find_connection("good").connection.resolve(expand).path == "data/a.db"
    bad = find_connection("bad").connection
    assert bad.path == "${UNSET_HERE}"
    with pytest.raises(SecretError, match=r"connection 'bad', field 'path'.*UNSET_HERE.*\(.ematix-flow.toml:3\)"):
        bad.resolve(expand)


def test_a_url_that_is_a_reference_is_filled_when_it_is_looked_up_and_shown_as_it_was_written(project, monkeypatch):
    project.write('[connections.lake]\ndsn = "${LAKE_URL}"\n[connections.other]\ndsn = "${UNSET_HERE}"\n')
    monkeypatch.setenv("LAKE_URL", "embedded:///hunter2/${LITERAL}.db")
    found = find_connection("lake").connection
    assert found.resolve(expand).path == "hunter2/${LITERAL}.db"
    assert repr(found) == "Embedded(name='lake', kind='embedded', url='${LAKE_URL}')"
    with pytest.raises(SecretError, match=r"connection 'other'.*UNSET_HERE.*\(\.ematix-flow\.toml:3\)"):
        find_connection("other")


@pytest.mark.parametrize("keyword", [True, False])
def test_values_of_variables_and_keywords_hold_no_references(monkeypatch, keyword):
    monkeypatch.setenv("PW", "hunter2")
    url = "remote://u:${PW}@h"
    monkeypatch.setenv("EMATIX_FLOW_DSN_CRM", url)
    found = find_connection("crm", url=url if keyword else None)
    assert found.connection.resolve(expand).url == url


# ── listing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_places_are_merged_and_each_keeps_its_origin(project, monkeypatch):
    project.registry.add_connection(Embedded("raw-db", "code.db"), Origin("a.py", 1))
    project.registry.add_connection(Embedded("in_code", "code.db"), Origin("a.py", 2))
    project.write_user(
        '[connections.mine]\nurl = "embedded:///user.db"\n[connections.both]\nurl = "embedded:///user.db"\n'
    )
    project.write('[connections.both]\nurl = "embedded:///project.db"\n')
    monkeypatch.setenv("EMATIX_FLOW_DSN", "embedded:///default.db")
    monkeypatch.setenv("EMATIX_FLOW_DSN_RAW_DB", "embedded:///environment.db")
    monkeypatch.setenv("EMATIX_FLOW_DSN_NEW_ONE", "embedded:///environment.db")
    assert {found.name: (found.connection.path, Path(found.origin).name) for found in all_connections()} == {
        "both": ("project.db", ".ematix-flow.toml:1"),
        "default": ("default.db", "environment variable EMATIX_FLOW_DSN"),
        "in_code": ("code.db", "a.py:2"),
        "mine": ("user.db", "connections.toml:1"),
        "new_one": ("environment.db", "environment variable EMATIX_FLOW_DSN_NEW_ONE"),
        "raw-db": ("environment.db", "environment variable EMATIX_FLOW_DSN_RAW_DB"),
    }


def test_one_bad_entry_does_not_spoil_the_list(project):
    project.write(
        '[connections.a]\nkind = "nonsense"\n'
        '[connections.b]\nurl = "embedded:///b.db"\n'
        '[connections.c]\nurl = "${UNSET_HERE}"\n'
    )
    bad, good, unset = all_connections()
    assert good.connection.path == "b.db"
    with pytest.raises(UnknownNameError):
        _ = bad.connection
    with pytest.raises(SecretError):
        _ = unset.connection


def test_the_list_shows_no_secret(project, monkeypatch):
    project.registry.add_connection(Remote("in_code", "remote://u:S3cr3t@h", password="S3cr3t"))
    project.write('[connections.typed]\nkind = "remote"\nurl = "remote://u:S3cr3t@h"\npassword = "S3cr3t"\n')
    project.write_user('[connections.later]\ndsn = "postgres://u:S3cr3t@h/db?password=S3cr3t"\n')
    monkeypatch.setenv("EMATIX_FLOW_DSN", "host=h password=S3cr3t")
    assert list_connections() == {
        "default": "host=h password=***",
        "in_code": "kind=remote url=remote://u:***@h password=<redacted>",
        "later": "postgres://u:***@h/db?password=***",
        "typed": "kind=remote url=remote://u:***@h password=<redacted>",
    }
    assert "S3cr3t" not in json.dumps([repr(found) for found in all_connections()])


def test_without_any_connection_the_list_is_empty():
    assert list_connections() == {}


def test_a_dsn_is_given_as_written_with_its_references_filled(project, monkeypatch):
    monkeypatch.setenv("PG_PW", "hunter2")
    monkeypatch.setenv("EMATIX_FLOW_DSN", "postgres://u:${PG_PW}@h/db")
    project.write(
        '[connections.file]\ndsn = "postgres://u:${PG_PW}@h/db"\n'
        '[connections.typed]\nkind = "embedded"\npath = "${PG_PW}/a.db"\n'
    )
    assert resolve_dsn() == "postgres://u:${PG_PW}@h/db"
    assert resolve_dsn("file") == "postgres://u:hunter2@h/db"
    assert resolve_dsn("typed") == "embedded:///hunter2/a.db"


def test_the_dsn_of_an_unknown_name_is_a_lookup_error(project):
    with pytest.raises(LookupError, match="EMATIX_FLOW_DSN_NOWHERE"):
        resolve_dsn("nowhere")
