"""``potluck control``: pause a federation that is being served, have it go on, or stop it after the round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from potluck.core.errors import SettingsError
from potluck.core.processes import is_held
from potluck.flower.control import CONTROL_FILE, WISHES, Control, Wish

ANSWERS: dict[Wish, str] = {
    "pause": "After this round no other begins, until `potluck control {run} go`.",
    "go": "It goes on.",
    "stop": "After this round it ends, with a checkpoint, and all who take part are told.",
}


def control(
    run: Annotated[Path, typer.Argument(help="The run folder that `potluck serve` writes.", show_default=False)],
    wish: Annotated[str, typer.Argument(metavar="pause|go|stop", help="What it is to do.", show_default=False)],
) -> None:
    """Pause a federation that is being served, have it go on, or stop it in order.

    The round that is being played is played to its end in any case. After a
    stop `potluck serve --resume` goes on, and participants join again.
    """
    found = next((known for known in WISHES if known == wish), None)
    if found is None:
        raise SettingsError(f"{wish!r} is nothing that a federation can do; expected {', '.join(WISHES)}.")
    if not is_held(run / "flower" / ".lock"):
        raise SettingsError(f"{run} is not being served; expected the run folder of a `potluck serve` that is running.")
    Control(run / "flower" / CONTROL_FILE).ask(found)
    typer.echo(f"{ANSWERS[found].format(run=run)} `potluck status {run}` shows how it stands.")
