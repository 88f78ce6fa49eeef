"""Writes file, sha256 and bytes of every jar into the lock, for the coordinates that stand in it.

To add or renew a jar, write its coordinate into `src/ematix_flow/engine/jars.toml` and run this script; then look at
what has changed before you commit it.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import tomlkit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from ematix_flow.engine.ivy import file_name, run_ivy  # noqa: E402
from ematix_flow.engine.jars import LOCK  # noqa: E402


def main() -> None:
    """Fetch every jar anew and write down what came."""
    lock = tomlkit.parse(LOCK.read_text(encoding="utf-8"))
    jars = [jar for group in lock.values() for jar in group["jars"]]
    with tempfile.TemporaryDirectory() as folder:
        complaints = run_ivy([str(jar["coordinate"]) for jar in jars], Path(folder), None)
        for jar in jars:
            jar["file"] = file_name(str(jar["coordinate"]))
            file = Path(folder, str(jar["file"]))
            if not file.is_file():
                raise SystemExit(f"{jar['coordinate']} could not be fetched: {'; '.join(complaints)}")
            jar["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
            jar["bytes"] = file.stat().st_size
    LOCK.write_text(tomlkit.dumps(lock), encoding="utf-8")


if __name__ == "__main__":
    main()
