"""Runs the code of README, the documentation and the examples, page by page.

What a fenced block does is decided by its language and by the comment above it:

* ``<!-- file: NAME -->``: the block is written to that file of the page's folder, whatever its language;
* ``python``: runs in a process of its own, in the page's folder;
* ``bash``: runs with ``bash -e``;
* ``console``: the lines after ``$ `` run with ``bash -e``; the other lines must appear in the output in this order,
  and ``…`` inside one of them stands for anything;
* ``text``, ``mermaid`` and blocks without a language are prose;
* any other language needs ``<!-- illustration -->``, so that nothing is skipped by accident. Python, bash and console
  blocks run even if they carry it.

A page with ``<!-- server: postgres -->`` or ``<!-- server: mysql -->`` has an empty database of a real server, and
its URL in ``EMATIX_FLOW_DSN`` or ``EMATIX_FLOW_DSN_SHOP``; an example has those whose variables it speaks of.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.servers import empty_mysql, empty_postgres

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("README.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted(
    script for name in ("demo.py", "main.py") for script in (ROOT / "examples").glob(f"*/{name}") if script.is_file()
)
SERVERS = {"postgres": ("EMATIX_FLOW_DSN", empty_postgres), "mysql": ("EMATIX_FLOW_DSN_SHOP", empty_mysql)}
PROSE = {"", "text", "mermaid"}
EXECUTED = {"python", "bash", "console"}
LIMIT_SECONDS = 240

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})[ ]*(?P<language>[\w+-]*)[^\n]*$")
COMMENT = re.compile(r"^\s*<!--\s*(?P<text>.*?)\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block, where it starts, and what the comment above it says."""

    language: str
    code: str
    line: int
    comment: str = ""

    @property
    def file(self) -> str | None:
        return self.comment.removeprefix("file:").strip() if self.comment.startswith("file:") else None


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = text.splitlines()
    comment, number = "", 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening:
            end = closing_fence(lines, number, opening["fence"])
            indent = len(opening["indent"])
            code = "\n".join(line[min(indent, len(line) - len(line.lstrip())) :] for line in lines[number + 1 : end])
            yield Block(opening["language"], code + "\n", number + 1, comment)
            comment, number = "", end + 1
            continue
        said = COMMENT.match(lines[number])
        # An empty line between the comment and its block is fine, prose is not.
        comment = said["text"] if said else comment if not lines[number].strip() else ""
        number += 1


def closing_fence(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    raise AssertionError(f"line {start + 1}: the block is never closed")


def split_console(code: str) -> tuple[str, list[str]]:
    """The commands of a console block as one script, and the output lines it promises."""
    script: list[str] = []
    expected: list[str] = []
    continued = False
    for line in code.splitlines():
        if line.startswith("$ "):
            script.append(line[2:])
        elif continued:
            script.append(line.removeprefix("> "))
        else:
            expected.append(line)
            continue
        continued = script[-1].endswith("\\")
    return "\n".join(script) + "\n", expected


def first_missing(expected: list[str], output: str) -> str | None:
    """The first promised line that the output does not have behind the ones before it."""
    produced = iter(line.strip() for line in output.splitlines())
    for line in (line.strip() for line in expected):
        if not line.strip("… "):
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        if not any(pattern.fullmatch(candidate) for candidate in produced):
            return line
    return None


def servers(text: str) -> list[str]:
    """The servers that a page or an example needs."""
    if text.startswith('"""'):
        return [name for name, (variable, _) in SERVERS.items() if re.search(rf"\b{variable}\b", text)]
    return re.findall(r"^<!-- server: (\w+) -->$", text, re.MULTILINE)


def variables(text: str) -> dict[str, str]:
    """What the environment tells the code of a page: where the servers are that it needs."""
    needed = servers(text)
    assert {*needed} <= {*SERVERS}, f"no server of tests is called {needed}"
    return {SERVERS[name][0]: SERVERS[name][1]("page") for name in needed}


def run(command: list[str], folder: Path, told: Mapping[str, str] = MappingProxyType({})) -> str:
    """The output of a command in the page's folder; a failure shows all of it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Width and colour are fixed so that the promised lines do not depend on the terminal.
    env = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "PYTHONUNBUFFERED": "1"}
    env |= {"EMATIX_FLOW_SPARK_FAST_START": "true", **told}
    # A page may write into the reader's own files, which in a test are the page's; what is cached stays shared.
    env |= {"HOME": str(folder / "home"), "XDG_CACHE_HOME": env.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode} of {' '.join(command)}\n{done.stdout}"
    return done.stdout


def perform(block: Block, folder: Path, told: Mapping[str, str]) -> None:
    """Write, run or pass over one block."""
    if block.file is not None:
        write(block.file, block.code, folder)
    elif block.language in EXECUTED:
        execute(block, folder, told)
    else:
        assert block.language in PROSE or block.comment == "illustration", (
            f"a {block.language!r} block must be a file or an illustration; put a comment above it"
        )


def write(name: str, code: str, folder: Path) -> None:
    target = (folder / name).resolve()
    assert target.is_relative_to(folder.resolve()), f"{name} is outside the page's folder"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(code, encoding="utf-8")


def execute(block: Block, folder: Path, told: Mapping[str, str]) -> None:
    if block.language == "python":
        # The file is in the page's folder, so that it can import what earlier blocks wrote there.
        script = folder / f"_line_{block.line}.py"
        script.write_text(block.code, encoding="utf-8")
        run([sys.executable, script.name], folder, told)
        return
    commands, expected = split_console(block.code) if block.language == "console" else (block.code, [])
    assert commands.strip(), "the block has no command"
    output = run(["bash", "-e", "-c", commands], folder, told)
    missing = first_missing(expected, output)
    assert missing is None, f"the output has no line {missing!r} where it is promised:\n{output}"


def perform_page(text: str, folder: Path) -> None:
    told = variables(text)
    for block in blocks(text):
        try:
            perform(block, folder, told)
        except AssertionError as error:
            raise AssertionError(f"block at line {block.line}: {error}") from error


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def as_parameter(page: Path) -> ParameterSet:
    """A page, marked where it needs a server."""
    marks = [pytest.mark.server] if servers(page.read_text(encoding="utf-8")) else []
    return pytest.param(page, id=page_name(page), marks=marks)


@pytest.mark.docs
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [as_parameter(page) for page in PAGES])
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    perform_page(page.read_text(encoding="utf-8"), tmp_path)


@pytest.mark.docs
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", [as_parameter(script) for script in EXAMPLES])
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    copy = tmp_path / "examples" / script.parent.name
    shutil.copytree(script.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, script.name], copy, variables(script.read_text(encoding="utf-8")))


def test_a_page_writes_its_files_and_runs_its_blocks(tmp_path: Path) -> None:
    page = """
<!-- file: shop/words.py -->
```python
GREETING = "hello"
```

```python
from shop.words import GREETING
open("said.txt", "w").write(GREETING)
```

```console
$ cat said.txt && \\
> echo
…llo
$ export NAME=ada
$ echo "I am $NAME and 36"
I am … and 36
```
"""
    perform_page(page, tmp_path)
    assert (tmp_path / "said.txt").read_text() == "hello"


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("```python\nraise SystemExit(3)\n```", "exit code 3"),
        ("<!-- illustration -->\n```python\nraise SystemExit(3)\n```", "exit code 3"),
        ("```bash\nfalse\ntrue\n```", "exit code 1"),
        ("```console\n$ printf 'b\\na\\n'\na\nb\n```", "no line 'b'"),
        ("```console\nno command\n```", "no command"),
        ("```toml\na = 1\n```", "must be a file or an illustration"),
        ("<!-- file: ../x.toml -->\n```toml\na = 1\n```", "outside the page's folder"),
        ("```python\nprint(1)\n", "never closed"),
    ],
)
def test_a_block_that_does_not_hold_is_reported(block: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        perform_page(block, tmp_path)


@pytest.mark.server
def test_a_page_that_needs_a_server_is_told_where_it_is(tmp_path: Path) -> None:
    page = "<!-- server: postgres -->\n\n```console\n$ echo $EMATIX_FLOW_DSN\npostgresql://…/page\n```\n"
    perform_page(page, tmp_path)
    with pytest.raises(AssertionError, match="no server of tests"):
        perform_page("<!-- server: oracle -->\n", tmp_path)


def test_prose_and_illustrations_are_passed_over(tmp_path: Path) -> None:
    perform_page("```text\nfree\n```\n\n<!-- illustration -->\n\n```sql\nSELECT 1\n```\n", tmp_path)
    assert list(tmp_path.iterdir()) == []
