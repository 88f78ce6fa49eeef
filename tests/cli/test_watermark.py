"""`flow watermark`: looking at bookmarks, moving them, and forgetting them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ematix_flow.cli.app import app
from tests.cli.calls import Flow

MORE = """\
from pipelines import Annotated, BigInt, Text, ematix, pk
from ematix_flow.types import TimestampTZ


@ematix.table(schema="analytics")
class Event:
    id: Annotated[BigInt, pk()]
    n: BigInt
    at: TimestampTZ


@ematix.table(schema="analytics")
class Copy:
    id: Annotated[BigInt, pk()]
    n: BigInt


@ematix.table(schema="analytics")
class Note:
    code: Annotated[Text, pk()]


ROWS = "SELECT range AS id, range * 10 AS n, TIMESTAMPTZ '2026-01-01 00:00:00+00' AS at FROM range(1, 4)"


@ematix.pipeline(target=Event, mode="merge", target_connection="warehouse", incremental_column="n")
def events(source):
    return ROWS


@ematix.pipeline(target=Event, mode="merge", target_connection="warehouse", incremental_column="at", name="dated")
def dated(source):
    return ROWS


@ematix.pipeline(target=Note, mode="merge", target_connection="warehouse", incremental_column="code")
def notes(source):
    return "SELECT 'a' AS code"


@ematix.pipeline(targets=[
    ematix.target(Event, mode="merge"),
    ematix.target(Copy, mode="merge"),
], target_connection="warehouse", incremental_column="n")
def both(source):
    return ROWS
"""


@pytest.fixture(autouse=True)
def _more(project: Path) -> None:
    (project / "more.py").write_text(MORE)
    (project / ".ematix-flow.toml").write_text('[project]\nmodules = ["pipelines", "more"]\n')


def shown(flow: Flow, name: str) -> list[dict[str, object]]:
    result = flow("watermark", "get", name, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_bookmark_is_shown_with_its_column_and_its_time(flow: Flow) -> None:
    [record] = shown(flow, "events")
    assert (record["column"], record["value"], record["updated_at"]) == ("n", None, None)
    assert "reads everything" in flow("watermark", "get", "events").stdout
    flow("run", "events")
    [record] = shown(flow, "events")
    assert (record["pipeline"], record["target"], record["connection"]) == ("events", "analytics.event", "warehouse")
    assert (record["column"], record["value"]) == ("n", "30")
    assert str(record["updated_at"]).endswith("Z")
    table = flow("watermark", "get", "events").stdout
    assert table.split("\n")[1].split()[:3] == ["events", "n", "30"]


def test_a_bookmark_that_is_set_is_where_the_next_run_begins(flow: Flow) -> None:
    result = flow("watermark", "set", "events", "20")
    assert (result.exit_code, result.stdout) == (0, "events: the next run reads n at or after 20\n")
    ran = json.loads(flow("run", "events").stdout)
    assert (ran["rows_read"], ran["watermark_before"], ran["watermark_after"]) == (2, "20", "30")


def test_a_bookmark_is_not_overwritten_without_consent(flow: Flow) -> None:
    flow("run", "events")
    for call in (["set", "events", "5"], ["reset", "events"]):
        refused = flow("watermark", *call)
        assert (refused.exit_code, refused.stdout.strip()) == (1, "")
        assert "--yes" in refused.stderr
        assert shown(flow, "events")[0]["value"] == "30"
    answered = CliRunner().invoke(app, ["watermark", "set", "events", "5"], input="y\n")
    assert answered.exit_code == 0
    assert "replace '30' of column 'n' by '5'?" in answered.stderr
    assert shown(flow, "events")[0]["value"] == "5"
    assert flow("watermark", "set", "events", "-7", "--yes").exit_code == 0
    assert shown(flow, "events")[0]["value"] == "-7"


def test_a_pipeline_without_its_bookmark_reads_everything(flow: Flow) -> None:
    flow("run", "events")
    result = flow("watermark", "reset", "events", "--yes")
    assert (result.exit_code, result.stdout) == (0, "events: the next run reads everything\n")
    assert shown(flow, "events")[0]["value"] is None
    assert json.loads(flow("run", "events").stdout)["rows_unchanged"] == 3


def test_a_value_of_another_type_is_a_wrong_call(flow: Flow) -> None:
    result = flow("watermark", "set", "events", "soon")
    assert result.exit_code == 2
    assert "column 'n': 'soon' is not a value of BigInt" in result.stderr
    assert "whole number" in result.stderr


def test_an_instant_is_kept_in_utc(flow: Flow) -> None:
    result = flow("watermark", "set", "dated", "2026-01-01T02:00+02:00", "--format", "json")
    assert json.loads(result.stdout)["value"] == "2026-01-01 00:00:00.000000"


def test_an_unknown_pipeline_names_the_nearest(flow: Flow) -> None:
    result = flow("watermark", "get", "event")
    assert result.exit_code == 2
    assert "did you mean 'events'?" in result.stderr


def test_a_mistyped_option_is_no_value(flow: Flow) -> None:
    for call in (["--yess", "a"], ["--yess"], ["a", "--yess"]):
        refused = flow("watermark", "set", "notes", *call)
        assert refused.exit_code == 2
        assert "No such option: --yess (Possible options: --yes)" in refused.stderr
    assert flow("watermark", "set", "notes", "--yes", "--", "--yess").exit_code == 0
    assert flow("watermark", "set", "notes", "-0.5", "--yes").exit_code == 0
    assert [record["value"] for record in shown(flow, "notes")] == ["-0.5"]


@pytest.mark.parametrize("call", [["get"], ["set", "5"], ["reset"]], ids=lambda call: call[0])
def test_a_pipeline_that_reads_everything_has_no_bookmark(flow: Flow, call: list[str]) -> None:
    verb, *rest = call
    result = flow("watermark", verb, "merge_people", *rest)
    assert result.exit_code == 2
    assert "is not incremental" in result.stderr


def test_several_targets_have_a_bookmark_each(flow: Flow) -> None:
    flow("run", "both")
    found = {str(record["pipeline"]): record["value"] for record in shown(flow, "both")}
    assert found == {"both::analytics.event": "30", "both::analytics.copy": "30"}
    refused = flow("watermark", "reset", "both", "--yes")
    assert refused.exit_code == 2
    assert "both::analytics.copy" in refused.stderr
    assert flow("watermark", "reset", "both::analytics.copy", "--yes").exit_code == 0
    assert [record["value"] for record in shown(flow, "both")] == ["30", None]
