from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ematix_flow import config
from ematix_flow.config import Settings, all_connections, find_connection, list_connections, resolve_dsn
from ematix_flow.errors import (
    ConfigError,
    ConnectionLookupError,
    SecretError,
    SpecError,
    UnknownNameError,
)
from ematix_flow.secrets import expand
from ematix_flow.spec.origin import Origin
from ematix_flow.spec.registry import scope
from tests.empty_project import Embedded, Project, Remote, empty_project


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An empty project in an empty world."""
    with empty_project(tmp_path, monkeypatch) as project:
        yield project


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
