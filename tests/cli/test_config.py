"""`flow config`: settings, values, origins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import Flow


def test_every_setting_is_shown_with_its_origin(project: Path, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMATIX_FLOW_SPARK_MEMORY", "3g")
    result = flow("config")
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}
    assert rows["project.modules"] == ["pipelines", f"{project / '.ematix-flow.toml'}:2"]
    assert rows["spark.memory"] == ["3g", "environment variable EMATIX_FLOW_SPARK_MEMORY"]
    assert rows["spark.master"] == ["local[*]", "default"]
    assert rows["project.staging_dir"] == ["(none)", "default"]


def test_settings_as_json_keep_their_types_and_show_no_secret(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / ".ematix-flow.toml").write_text(
        '[project]\nmodules = ["a", "b"]\n[spark.conf]\n"spark.hadoop.fs.s3a.secret.key" = "S3cr3t"\n"spark.x" = 1\n'
    )
    found = {each["setting"]: each for each in json.loads(flow("config", "--format", "json").stdout)}
    assert found["project.modules"]["value"] == ["a", "b"]
    assert found["spark.conf"]["value"] == {"spark.hadoop.fs.s3a.secret.key": "<redacted>", "spark.x": "1"}
    assert found["project_dir"]["value"] == str(empty_folder)
    assert "S3cr3t" not in flow("config").output


def test_a_file_that_is_wrong_exits_with_2(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / ".ematix-flow.toml").write_text("[spork]\n")
    result = flow("config")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "unknown section 'spork'" in result.stderr
