"""``potluck status``: how a federation stands, from its run folder, or from the monitor of its server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.core.duration import readable_duration
from potluck.core.errors import SettingsError

if TYPE_CHECKING:
    from potluck.flower.status import Status

SILENT_AFTER = 30.0
"""Seconds after which a status that nobody has written anew is told to be old."""
OVER = ("finished", "stopped", "failed")


def status(
    where: Annotated[
        str,
        typer.Argument(
            metavar="RUN|HOST:PORT",
            help="A run folder on this machine, or the address of a server's monitor.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show how a federation stands: the round, who works since when, who is away.

    RUN is the folder that `potluck serve` writes. HOST:PORT is where a server
    that was started with --monitor answers.
    """
    from potluck.flower.monitor import fetch_status
    from potluck.flower.status import STATUS_FILE, read_status

    if Path(where).is_dir():
        path = Path(where) / "flower" / STATUS_FILE
        if not path.is_file():
            raise SettingsError(f"{where} holds no federation that was served; `potluck report {where}` shows a run.")
        found = [read_status(path)]
    elif where.rpartition(":")[2].isdigit():
        found = fetch_status(where)
    else:
        raise SettingsError(f"There is no folder {where}; expected a run folder, or HOST:PORT of a server's monitor.")
    if as_json:
        typer.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=1))
    else:
        typer.echo("\n\n".join(map(readable, found)))


def readable(status: Status) -> str:
    """A status for people."""
    from potluck.core.history import readable_bytes
    from potluck.core.metrics import readable as readable_metric
    from potluck.core.metrics import title

    now, over = time.time(), status.state in OVER
    doing = f"playing round {status.round + 1}" if status.state == "playing" else status.state
    lines = [
        f"{status.study}: {status.method}, {status.round} of {status.rounds} rounds are over; {_since(doing, status)}"
    ]
    if status.why:
        lines.append(f"Why: {status.why}")
    if status.metric is not None and status.score is not None:
        score = readable_metric(status.metric, status.score)
        lines.append(f"Mean {title(status.metric)} {score} of {status.score_of} after round {status.round}.")
    travelled = f"Received {readable_bytes(status.bytes_up)}, sent {readable_bytes(status.bytes_down)}"
    left = status.seconds_left
    lines.append(travelled + ("." if over or left is None else f"; about {readable_duration(left)} left."))
    if not over and now - status.updated > SILENT_AFTER:
        lines.append(f"This is {readable_duration(now - status.updated)} old: the server does not run, or hangs.")
    width = max(len("participant"), *(len(each.name) for each in status.participants))
    lines += ["", f"{'participant':{width}}  {'state':9} {'for':>12} {'last round':>11} {'received':>10} {'sent':>10}"]
    for each in status.participants:
        lasting = readable_duration((status.updated if over else now) - each.since)
        last = "" if each.round is None else str(each.round)
        sent = f"{readable_bytes(each.bytes_up):>10} {readable_bytes(each.bytes_down):>10}"
        why = f"  {each.why}" if each.why else ""
        lines.append(f"{each.name:{width}}  {each.state:9} {lasting:>12} {last:>11} {sent}{why}")
    return "\n".join(lines)


def _since(doing: str, status: Status) -> str:
    return f"{doing} since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(status.since))}."
