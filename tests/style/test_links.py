"""Relative links of every Markdown page lead to a file of the project."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.style.tree import label, pages

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
OUTSIDE = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


def targets(text: str) -> list[str]:
    """The relative link targets of a page, code left out, anchors cut off."""
    found = [inline or reference for inline, reference in LINK.findall(CODE.sub("", text))]
    return [unquote(target.partition("#")[0]) for target in found if not OUTSIDE.match(target)]


@pytest.mark.parametrize("page", pages(), ids=label)
def test_relative_links_resolve(page: Path) -> None:
    missing = [target for target in targets(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()]
    assert missing == []


def test_only_relative_links_outside_code_are_checked() -> None:
    text = "[a](docs/x.md#part) [b](https://e.org) [c](#here) `[d](no.md)`\n\n[e]: y.md\n\n```\n[f](no.md)\n```\n"
    assert targets(text) == ["docs/x.md", "y.md"]
