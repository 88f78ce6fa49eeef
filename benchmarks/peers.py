"""Other tools that copy a table from one database to another, each in an environment of its own.

Their packages never meet ours: `~/.cache/ematix-flow/peers/<name>` is made when it is asked for. Every tool is measured
as a whole command, from its start to its end, and so is `flow run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ematix_flow.config import Settings

from .postgres_data import columns

SCRIPTS = Path(__file__).resolve().parent / "peer"
Facts = dict[str, Any]


NOTE = (
    "A whole command is measured from its start to its end. Other tools copy the source's columns, and the two that "
    "ours adds have defaults on the server. Sling and ingestr are not the newest releases but the last ones whose "
    "packages hold the whole program."
)


class PeerError(Exception):
    """A peer cannot be had or does not do its work here; the text says why, for the table."""


@dataclass(frozen=True)
class Peer:
    """A tool: its packages, the command that copies, and how what it does differs from ours."""

    label: str
    packages: tuple[str, ...]
    command: Callable[[Path, Facts, str], list[str]]
    """From the folder of its programs, the facts and a folder that it may fill."""
    differs: str
    variables: dict[str, str] = field(default_factory=dict)


def _flow(programs: Path, facts: Facts, folder: str) -> list[str]:
    return [str(programs / "flow"), "run", "orders", "--module", "flow_copy"]


def _dlt(programs: Path, facts: Facts, folder: str) -> list[str]:
    script = str(SCRIPTS / "dlt_copy.py")
    return [str(programs / "python"), "-P", script, _secret(facts["source"]), _secret(facts["target"]), folder]


def _sling(programs: Path, facts: Facts, folder: str) -> list[str]:
    binary = next(programs.parent.glob("lib/python*/site-packages/sling_linux_amd64/bin/sling-linux-amd64"))
    source, target = (f"{facts[name]}?sslmode=disable" for name in ("source", "target"))
    taken = ["--src-conn", source, "--src-stream", "raw.orders"]
    return [str(binary), "run", *taken, "--tgt-conn", target, "--tgt-object", "mart.orders", "--mode", "truncate"]


def _ingestr(programs: Path, facts: Facts, folder: str) -> list[str]:
    taken = ["--source-uri", _secret(facts["source"]), "--source-table", "raw.orders"]
    given = ["--dest-uri", _secret(facts["target"]), "--dest-table", "mart.orders", "--incremental-strategy", "append"]
    same = ["--primary-key", "id", "--no-load-timestamp"]  # otherwise it changes the table's columns
    return [str(programs / "ingestr"), "ingest", *taken, *given, *same, "--yes", "--progress", "log"]


def _secret(url: str) -> str:
    """The URL with a password, which the server does not ask for and some tools insist on."""
    return url.replace("postgres@", "postgres:none@", 1)


OURS = Peer("ours: `flow run`", (), _flow, "")
PEERS = {
    "dlt": Peer(
        "dlt 1.31.0: ConnectorX, CSV",
        (
            "dlt[postgres,sql-database]==1.31.0", "connectorx==0.4.6", "psycopg2-binary==2.9.13", "pyarrow==26.0.1",
            "sqlalchemy==2.1.8",
        ),
        _dlt,
        "rows become files first; tables of its own beside the target",
        {"RUNTIME__DLTHUB_TELEMETRY": "false"},
    ),
    "sling": Peer(
        "Sling 1.4.11: direct insert",
        ("sling-linux-amd64==1.4.11",),  # newer releases fetch their program from elsewhere
        _sling,
        "empties the table first",
        {"SLING_DIRECT_INSERT": "true", "SLING_DISABLE_TELEMETRY": "true"},
    ),
    "ingestr": Peer(
        "ingestr 1.1.22",
        ("ingestr==1.1.22",),  # newer releases fetch their program from elsewhere
        _ingestr,
        "lets `_loaded_at` and `_batch_id` be NULL",
        {"DISABLE_TELEMETRY": "true", "INGESTR_DISABLE_TELEMETRY": "true"},
    ),
    "ematix-flow": Peer(
        "ematix-flow 1.0.0: `flow run`", ("ematix-flow==1.0.0",), _flow, "the same file declares the pipeline"
    ),
}  # fmt: skip


def wanted_peers(names: str | None) -> list[str]:
    """The peers of the option: `all`, `none`, names with commas, or those that are installed already."""
    if names is None:
        return [name for name in PEERS if _is_ready(name)]
    chosen = list(PEERS) if names == "all" else [name for name in names.split(",") if name not in ("", "none")]
    if unknown := [name for name in chosen if name not in PEERS]:
        raise SystemExit(f"unknown peers: {', '.join(unknown)}. Known: {', '.join(PEERS)}")
    return chosen


def installed(name: str) -> Path:
    """The folder of a peer's programs; its environment is made where it is missing or has other versions."""
    folder = _folder(name)
    if not _is_ready(name):
        print(f"… installing {name} into {folder}", file=sys.stderr, flush=True)
        uv = str(Path(sys.executable).parent / "uv")
        _install([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        _install([uv, "pip", "install", "--quiet", "--python", f"{folder}/bin/python", *PEERS[name].packages])
        _stamp(name).write_text("\n".join(PEERS[name].packages), encoding="utf-8")
    return folder / "bin"


def run_whole(peer: Peer, programs: Path, facts: Facts) -> dict[str, float]:
    """Seconds of the whole command, and the highest memory of all its processes together, in MiB."""
    with tempfile.TemporaryDirectory(prefix="flow-bench-") as folder:
        variables = {
            **os.environ,
            "EMATIX_FLOW_DSN_SOURCE": facts["source"],
            "EMATIX_FLOW_DSN_TARGET": facts["target"],
            "BENCH_COLUMNS": json.dumps({column.name: column.declared for column in columns(facts["wide"])}),
            "PYTHONPATH": str(SCRIPTS),
            "HOME": folder,  # where some tools keep what they remember
            "TMPDIR": folder,
            **peer.variables,
        }
        with (Path(folder) / "output").open("w+") as output:
            figures, code = _watched(peer.command(programs, facts, folder), folder, variables, output)
            if code != 0:
                output.seek(0)
                said = output.read()
                print(said[-4000:], file=sys.stderr)
                raise PeerError(f"failed: {_short(said.splitlines()[-3:])}")
    return figures


def whole_table(found: dict[str, dict[str, float]], missing: dict[str, str], rows: int) -> list[str]:
    """The lines of the table: ours, the peers, and why others have no figures."""
    lines = [
        "| Whole command | Seconds | Rows/s | Ours is faster by | MiB of all its processes | How it differs |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name, mine in found.items():
        peer = PEERS.get(name, OURS)
        ratio = "" if peer is OURS else f"{mine['seconds'] / found['ours']['seconds']:.2f}×"
        lines.append(
            f"| {peer.label} | {mine['seconds']:.2f} | {rows / mine['seconds']:,.0f} | {ratio} "
            f"| {mine['mib']:,.0f} | {peer.differs} |"
        )
    lines += [f"| {PEERS[name].label} | | | | | {why} |" for name, why in missing.items()]
    return [*lines, "", NOTE, ""] if len(lines) > 3 else [*lines, ""]


def _watched(command: list[str], folder: str, variables: dict[str, str], output: Any) -> tuple[dict[str, float], int]:
    begin, peak = time.perf_counter(), 0.0
    process = psutil.Popen(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    while True:
        peak = max(peak, _tree_mib(process))
        try:
            code = process.wait(timeout=0.1)  # looking more often would take time from the one that is measured
        except psutil.TimeoutExpired:
            continue
        return {"seconds": time.perf_counter() - begin, "mib": peak}, code


def _tree_mib(process: Any) -> float:
    whole = 0.0
    try:
        found = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return whole
    for each in found:
        try:
            whole += each.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
    return whole


def _folder(name: str) -> Path:
    return Settings.load().cache_dir / "peers" / name


def _stamp(name: str) -> Path:
    return _folder(name) / "installed.txt"


def _is_ready(name: str) -> bool:
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text(encoding="utf-8") == "\n".join(PEERS[name].packages)


def _install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"not installable here: {_short(done.stderr.splitlines())}")


def _short(lines: list[str]) -> str:
    said = " ".join(line.strip(" ×╰─▶│\t") for line in lines)
    return (said[:200] + "…" if len(said) > 200 else said).replace("|", "\\|")
