"""`flow secrets test`: whether a reference can be filled, without showing what with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ematix_flow.secrets import unregister_resolver
from tests.cli.calls import Flow


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("reference", ["DB_PW", "${DB_PW}", "env:DB_PW", "${env:DB_PW}"])
def test_a_glimpse_and_the_length_are_shown(flow: Flow, monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    monkeypatch.setenv("DB_PW", "correct horse")
    result = flow("secrets", "test", reference)
    assert (result.exit_code, result.stdout.partition(": ")[2]) == (0, "co…se (13 characters)\n")
    assert flow("secrets", "test", reference, "--show").stdout == "correct horse\n"


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize(("value", "shown"), [("hunter2", "… (7 characters)"), ("", "… (0 characters)")])
def test_of_a_short_secret_no_character_is_shown(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, value: str, shown: str
) -> None:
    monkeypatch.setenv("DB_PW", value)
    assert flow("secrets", "test", "DB_PW").stdout == f"${{DB_PW}}: {shown}\n"


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("reference", ["NOT_SET_ANYWHERE", "vault:db#password", "lower"])
def test_a_reference_that_cannot_be_filled_exits_with_1(flow: Flow, reference: str) -> None:
    result = flow("secrets", "test", reference)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"${{{reference}}}: SecretError" in result.stderr


def test_the_resolvers_of_the_projects_modules_are_used(empty_folder: Path, flow: Flow) -> None:
    (empty_folder / "safe.py").write_text(
        "from ematix_flow.secrets import register_resolver\n"
        "class Safe:\n    def resolve(self, reference):\n        return reference.upper()\n"
        'register_resolver("safe", Safe())\n'
    )
    try:
        assert flow("secrets", "test", "safe:word", "--show", "-m", "safe").stdout == "WORD\n"
    finally:
        unregister_resolver("safe")
