"""The lock file pins and hashes everything, and names no index and no machine."""

from __future__ import annotations

import re

from tests.style.tree import ROOT

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_every_package_is_pinned_and_hashed() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert [entry.splitlines()[0] for entry in entries if not re.match(r"[\w.-]+==\S+", entry)] == []
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_no_address_and_no_path_is_in_it() -> None:
    assert re.findall(r".*(?:://|--index|--find-links|--extra-index|file:| /).*", LOCK) == []
