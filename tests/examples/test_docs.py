"""The documentation is complete: every error code, public name, keyword and setting has its place in it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import ematix_flow
from ematix_flow import errors
from ematix_flow.config import Settings
from ematix_flow.spec.pipeline import LATER, MODES, PipelineOptions

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
CODES = sorted(
    {value.code for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.FlowError)}
)
CODE_SPAN = re.compile(r"`([^`\n]+)`")


def spans(text: str) -> set[str]:
    """What the inline code of a page says, and the words of it."""
    found = {
        span.strip() for span in CODE_SPAN.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    }
    return found | {word for span in found for word in re.findall(r"\w+", span)}


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_is_an_anchor(code: str) -> None:
    assert re.search(rf"^## {re.escape(code)} \{{ #{re.escape(code)} \}}$", PAGES["errors.md"], re.MULTILINE)


def test_no_anchor_is_left_of_an_error_that_is_gone() -> None:
    assert sorted(re.findall(r"\{ #([\w.-]+) \}$", PAGES["errors.md"], re.MULTILINE)) == CODES


@pytest.mark.parametrize("name", ematix_flow.__all__)
def test_every_public_name_is_in_the_documentation(name: str) -> None:
    assert [page for page, text in PAGES.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


@pytest.mark.parametrize("keyword", sorted({*PipelineOptions.__annotations__, *LATER, *MODES}))
def test_every_keyword_of_a_pipeline_is_explained(keyword: str) -> None:
    assert keyword in spans(PAGES["reference/pipeline-options.md"])


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_every_setting_is_explained_with_its_key_and_variable(field) -> None:  # type: ignore[no-untyped-def]
    page = PAGES["reference/settings.md"]
    written = {field.name, *filter(None, (field.metadata.get("key"), field.metadata.get("variable")))}
    assert sorted(word for word in written if word not in page) == []


def test_the_page_of_connection_kinds_says_what_the_records_say() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "connection_kinds.py"
    expected = runpy.run_path(str(script))["page"]()
    assert PAGES["reference/connection-kinds.md"] == expected, f"run {script.name}"


def test_every_decision_is_listed() -> None:
    decisions = {Path(page).name for page in PAGES if re.match(r"decisions/\d", page)}
    assert set(re.findall(r"\(([^)]+\.md)\)", PAGES["decisions/index.md"])) == decisions


def test_generated_tables_are_up_to_date() -> None:
    script = DOCS.parent / "scripts" / "reference.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


@pytest.mark.docs
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "concepts" / "exactly-once" / "index.html").is_file()


def test_a_name_inside_a_code_block_is_no_explanation() -> None:
    assert spans("`mode=` and\n```python\nkeys=[1]\n```\n") == {"mode=", "mode"}
