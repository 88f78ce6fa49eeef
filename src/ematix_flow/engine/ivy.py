"""Fetching published jars with the Ivy that comes with Spark, which knows the public repository by itself."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ..errors import JarError
from . import jvm

__all__ = ["file_name", "run_ivy"]

_MAVEN = "http://ant.apache.org/ivy/maven"
"""The name of the vocabulary that knows classifiers; nothing is fetched from there."""
_CONNECT_MILLIS, _READ_MILLIS = 15_000, 60_000


def run_ivy(coordinates: Sequence[str], folder: Path, settings: Path | None) -> list[str]:
    """Fetch jars into `folder`, none of what they depend on; gives what Ivy complained about.

    Ivy's exit code does not tell a jar that is missing: the caller looks at the files.

    Raises:
        JarError: Ivy is not there or could not be run.
    """
    java = jvm.find_java()
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder) as home:
        request = Path(home, "ivy.xml")
        request.write_text(_request(coordinates), encoding="utf-8")
        command = [
            str(java.binary),
            f"-Divy.home={home}",  # a half-filled folder of another tool must not matter
            # A network that swallows everything would keep us waiting for minutes.
            f"-Dsun.net.client.defaultConnectTimeout={_CONNECT_MILLIS}",
            f"-Dsun.net.client.defaultReadTimeout={_READ_MILLIS}",
            *("-jar", str(_ivy())),
            *(("-settings", str(settings)) if settings is not None else ()),
            *("-cache", str(Path(home, "cache")), "-ivy", str(request), "-confs", "default", "-warn"),
            *("-retrieve", str(folder / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise JarError(f"Ivy, which fetches jars, could not be run: {error}") from error
    return _complaints(done.stdout + done.stderr)


def file_name(coordinate: str) -> str:
    """The name of a jar's file: artifact, version, and the classifier where it has one."""
    return f"{'-'.join(coordinate.split(':')[1:])}.jar"


def _ivy() -> Path:
    jars = Path(jvm.spark_home()) / "jars"
    found = sorted(jars.glob("ivy-*.jar"))
    if not found:
        raise JarError(
            f"there is no Ivy in {jars}, and it is what fetches jars",
            hint="unset SPARK_HOME, or put the jars into a folder and set jars.folder to it",
        )
    return found[-1]


def _request(coordinates: Sequence[str]) -> str:
    wanted = "".join(map(_dependency, coordinates))
    info = '<info organisation="ematix-flow" module="jars"/>'
    return f'<ivy-module version="2.0" xmlns:m="{_MAVEN}">{info}<dependencies>{wanted}</dependencies></ivy-module>'


def _dependency(coordinate: str) -> str:
    group, artifact, version, *classifier = coordinate.split(":")
    marked = f" m:classifier={quoteattr(classifier[0])}" if classifier else ""
    # Without an artifact of its own a dependency also means its sources and its documentation.
    return (
        f'<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} transitive="false">'
        f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"{marked}/></dependency>'
    )


def _complaints(said: str) -> list[str]:
    """The lines that tell something, each once; the frames around them and the help page do not."""
    lines = (re.sub(r"^(ERROR|WARN):?\s*", "", line.strip(" \t:*")) for line in said.splitlines())
    telling = [line for line in lines if re.search(r"[a-z]{3}", line) and not _CHATTER.search(line)]
    return list(dict.fromkeys(telling))


_CHATTER = re.compile(
    r"Picked up |USE VERBOSE|problems summary|WARNINGS|^-+$|\(http.*\)$|module not found:|UNRESOLVED DEPENDENCIES|==== "
)
