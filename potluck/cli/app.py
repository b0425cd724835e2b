"""The commands, and what they have in common: one console, and error messages instead of tracebacks."""

from __future__ import annotations

import errno
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from potluck.cli import (
    audit_log,
    bench,
    catalog,
    check,
    compare,
    control,
    demo,
    describe,
    download,
    export,
    join,
    keys,
    new,
    report,
    reproduce,
    run,
    serve,
    status,
    watch,
)
from potluck.cli.logs import tell_error
from potluck.core.errors import PotluckError
from potluck.core.user_code import error_in_user_code


class Plainly(TyperGroup):
    """Prints the errors that a user can correct as one line, in the user's own code, too; tracebacks are for bugs."""

    # typer 0.26 and newer bring click inside: no name of that type is right for all versions.
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PotluckError as error:
            tell_error(ctx.meta, error, str(error))
            raise typer.Exit(2) from error
        except Exception as error:
            told = error_in_user_code(error) or disk_error(error)
            if told is None:
                raise
            tell_error(ctx.meta, error, told)
            raise typer.Exit(1) from error


def disk_error(error: Exception) -> str | None:
    """What a disk that is full, or must not be written, says; None for another error."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
        return None
    return f"{error.strerror}{'' if error.filename is None else f': {error.filename}'}."


app = typer.Typer(
    cls=Plainly,
    help="Potluck: federated learning where everyone brings their own model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from potluck import __version__

        typer.echo(f"potluck {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated learning where everyone brings their own model."""


app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("check")(check.check)
app.command("describe")(describe.describe)
app.command("compare")(compare.compare)
app.command("watch")(watch.watch)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.command("new")(new.new)
app.command("serve")(serve.serve)
app.command("status")(status.status)
app.command("control")(control.control)
app.command("join")(join.join)
app.command("export")(export.export)
app.command("predict")(export.predict)
app.add_typer(keys.app, name="keys")
app.command("audit-log")(audit_log.audit_log)
app.command("bench")(bench.bench)
app.command("methods")(catalog.methods)
app.command("models")(catalog.models)
app.command("data")(catalog.data)
app.command("codecs")(catalog.codecs)
app.command("download")(download.download)
