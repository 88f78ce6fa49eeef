"""The commands of `flow`, put together; what a command needs is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from .._version import __version__
from . import (
    config,
    connections,
    doctor,
    init,
    jars,
    pipelines,
    preview,
    run,
    runs,
    secrets,
    transform,
    validate,
    watermark,
)

app = typer.Typer(
    name="flow",
    help="Declare tables, connections and pipelines as typed Python; plan and load them with Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("list")(pipelines.list_pipelines)
app.command("run")(run.run_pipeline)
app.command("preview")(preview.preview_pipeline)
app.command("dry-run")(preview.dry_run_pipeline)
app.command("init")(init.init_project)
app.command("validate")(validate.validate_pipelines)
app.command("config")(config.show_config)
app.command("doctor")(doctor.run_doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(transform.app, name="transform")
app.add_typer(connections.app, name="connections")
app.add_typer(jars.app, name="jars")
app.add_typer(secrets.app, name="secrets")
app.add_typer(watermark.app, name="watermark")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flow {__version__}")
        raise typer.Exit


@app.callback()
def flow(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Declare tables, connections and pipelines as typed Python; plan and load them with Apache Spark."""
