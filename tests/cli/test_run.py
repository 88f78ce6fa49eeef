"""`flow run`: the result, the errors, and which stream each of them takes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ematix_flow.cli.run import describe_result
from tests.cli.calls import Flow, Program, command, environment


@pytest.mark.usefixtures("project")
def test_the_result_is_one_json_line_and_the_only_thing_on_stdout(program: Program) -> None:
    done = program("run", "sync_customers")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert (result["status"], result["rows_inserted"], result["pipeline"]) == ("success", 2, "sync_customers")
    assert "printed by the module" in done.stderr
    assert "printed by the function" in done.stderr


@pytest.mark.usefixtures("project")
def test_the_result_as_text_names_every_count(flow: Flow) -> None:
    result = flow("run", "sync_customers", "--format", "text")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith("sync_customers: success, in ")
    assert ["inserted", "2"] in lines
    assert ["target", "analytics.customers"] in lines


@pytest.mark.usefixtures("project")
def test_a_token_loads_once(flow: Flow) -> None:
    flow("run", "sync_customers", "--token", "monday")
    again = json.loads(flow("run", "sync_customers", "--token", "monday").stdout)
    assert again["replayed"] is True
    assert again["rows_inserted"] == 0


def test_a_repeated_token_is_explained() -> None:
    outcome = describe_result({"pipeline": "p", "status": "success", "replayed": True})[0]
    assert str(outcome) == "p: success, nothing to do: this token was committed before"


@pytest.mark.usefixtures("project")
def test_an_unknown_name_exits_with_2_and_suggests_the_nearest(flow: Flow) -> None:
    result = flow("run", "sync_custmers")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "UnknownNameError [spec.unknown-name]: unknown pipeline 'sync_custmers'" in result.stderr
    assert "hint: did you mean 'sync_customers'?" in result.stderr


@pytest.mark.usefixtures("project")
def test_a_key_error_inside_a_pipeline_is_a_failure_and_not_an_unknown_name(flow: Flow) -> None:
    result = flow("run", "broken_function")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "UserCodeError [run.user-code]" in result.stderr
    assert "KeyError: 'no such key'" in result.stderr
    assert "declared at: pipelines.py:" in result.stderr
    assert " in broken_function" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("project")
def test_verbose_shows_the_whole_traceback_and_the_steps(flow: Flow) -> None:
    failed = flow("run", "broken_function", "-v")
    assert failed.exit_code == 1
    assert "Traceback (most recent call last)" in failed.stderr
    assert 'return {}["no such key"]' in failed.stderr
    assert "sync_customers: loading" in flow("run", "sync_customers", "-v").stderr


@pytest.mark.usefixtures("project")
def test_a_failing_load_says_why(flow: Flow) -> None:
    result = flow("run", "broken_query")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no_such_table" in result.stderr


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("flags", [[], ["-v"]])
def test_secrets_in_errors_are_hidden(flags: list[str], flow: Flow) -> None:
    result = flow("run", "telling_function", *flags)
    assert "postgres://bob:***@db.example.org/x" in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.parametrize("flags", [[], ["-v"]])
def test_a_password_of_a_connection_is_hidden_in_whatever_text_quotes_it(
    project: Path, flags: list[str], flow: Flow
) -> None:
    more = """
@ematix.connection
class vault:
    kind, host, database, user, password = "redshift", "h", "d", "u", "corRect-h0rse"


@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def quoting_function(source):
    raise RuntimeError("the server did not like corRect-h0rse at all")
"""
    (project / "pipelines.py").write_text((project / "pipelines.py").read_text() + more)
    result = flow("run", "quoting_function", *flags)
    assert "the server did not like *** at all" in result.stderr
    assert "the server did not like *** at all" in flow("runs", "list").stdout
    assert "corRect-h0rse" not in result.output


@pytest.mark.usefixtures("project")
def test_an_interrupted_run_exits_with_130_and_one_line(program: Program) -> None:
    done = program("run", "interrupted_function")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[1:] == ["interrupted: what was not committed is undone"]


def test_a_run_that_is_terminated_in_the_function_is_undone(project: Path) -> None:
    more = """

@ematix.pipeline(target=People, mode="merge", target_connection="warehouse")
def endless_function(source):
    import pathlib, time
    pathlib.Path("begun").touch()
    time.sleep(60)
"""
    (project / "pipelines.py").write_text((project / "pipelines.py").read_text() + more)
    running = subprocess.Popen(command("run", "endless_function"), stderr=subprocess.PIPE, text=True, env=environment())
    while not (project / "begun").exists():
        assert running.poll() is None
    running.terminate()
    _, told = running.communicate(timeout=60)
    assert running.returncode == 143
    assert told.splitlines()[-1] == "terminated: what was not committed is undone"


def test_a_run_that_is_terminated_in_a_statement_is_undone_and_recorded(project: Path, flow: Flow) -> None:
    more = """

@ematix.connection
class shelf:
    kind = "sqlite"
    path = "shelf.db"


@ematix.pipeline(target=People, mode="truncate", target_connection="shelf")
def endless_statement(source):
    return "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT max(id) AS id, 'x' AS name FROM n"
"""
    (project / "pipelines.py").write_text((project / "pipelines.py").read_text() + more)
    running = subprocess.Popen(
        command("run", "endless_statement"), stderr=subprocess.PIPE, text=True, env=environment()
    )
    # The lock of the file is taken when the record is there and the load begins.
    while not _is_locked(project / "shelf.db"):
        assert running.poll() is None
    running.terminate()
    _, told = running.communicate(timeout=60)
    assert running.returncode == 143
    assert told.splitlines()[-1] == "terminated: what was not committed is undone"
    (record,) = json.loads(flow("runs", "list", "--pipeline", "endless_statement", "--format", "json").stdout)
    assert (record["status"], record["error"]) == ("failed", "terminated")


def _is_locked(file: Path) -> bool:
    if not file.exists():
        return False
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
        recorded = False
        try:
            recorded = bool(other.execute('SELECT 1 FROM "ematix_flow.run_history"').fetchall())
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return recorded
        return False


@pytest.mark.usefixtures("project")
def test_an_empty_token_is_none(flow: Flow) -> None:
    result = flow("run", "sync_customers", "--token", " ")
    assert result.exit_code != 0
    assert "the token is empty" in result.stderr


@pytest.mark.usefixtures("project")
def test_a_reader_that_leaves_causes_no_traceback() -> None:
    running = subprocess.Popen(
        command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    errors = running.stderr.read()
    running.stderr.close()
    assert running.wait(timeout=60) == 141
    assert errors.splitlines() == ["printed by the module"]


def test_text_that_an_output_cannot_spell_is_no_failure(project: Path) -> None:
    source = project / "pipelines.py"
    source.write_text(source.read_text().replace('name="people"', 'name="люди"'))
    done = subprocess.run(
        command("list"), capture_output=True, text=True, check=True, env=environment(PYTHONIOENCODING="ascii")
    )
    assert r"analytics.\u043b\u044e\u0434\u0438" in done.stdout
