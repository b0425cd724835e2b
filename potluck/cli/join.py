"""``potluck join``: take part in a federation with a model and data that stay on this machine."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from potluck.cli.console import messages
from potluck.cli.serve import need_flower, terminable
from potluck.core.errors import SettingsError
from potluck.federation.method import Method

if TYPE_CHECKING:
    from potluck.flower.protocol import Invitation


def join(
    file: Annotated[Path, typer.Argument(metavar="PARTICIPANT.toml", help="Your own file.", show_default=False)],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the server is.", show_default=False)],
    root_certificates: Annotated[
        Path | None, typer.Option(help="The authority that signed the server's certificate.", show_default=False)
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your private key.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Consent to what the method sends, without being asked.")] = False,
) -> None:
    """Take part in a federation. Data, model code and plan stay on this machine.

    PARTICIPANT.toml names your model, data, test data, plan and labels. Before
    anything is sent you are told what the method will send, and asked. State is
    kept on this machine: after a break, the same command goes on.
    """
    need_flower()
    from potluck.channel.limits import Limits
    from potluck.engines import Serial, pick_device
    from potluck.flower.client import Host
    from potluck.flower.config import read_participant
    from potluck.flower.supernode import take_part

    console = messages()
    paths = {"root_certificates": root_certificates, "key": key}
    settings = read_participant(file, **{name: str(path.resolve()) for name, path in paths.items() if path})
    if not server.rpartition(":")[2].isdigit():
        raise SettingsError(f"--server is {server!r}; expected HOST:PORT.")
    logging.getLogger("potluck").addHandler(_Log(console))
    state = Path(settings.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    host = Host(
        settings.build(),
        Serial(pick_device(settings.device)),
        state,
        Consent(console, state, yes, settings.public is not None),
        public=settings.public.load if settings.public else None,
        allowed=tuple(settings.allow),
        limits=Limits(bytes=settings.limit),
    )
    console.print(f"{settings.name} waits for the server at {server}. Ctrl-C stops; the same command goes on.")
    try:
        with terminable():
            rounds = take_part(
                host,
                server,
                state / "flower",
                certificates=settings.root_certificates,
                key=settings.key,
                limit=settings.limit,
                tell=lambda line: console.print(line, markup=False),
            )
    except KeyboardInterrupt:
        console.print(f"Stopped. Your state is in {state}; the same command goes on.")
        raise typer.Exit(130) from None
    typer.echo(f"The federation has ended after {rounds} rounds. Your model's state is in {state}.")


class Consent:
    """Tells the owner what will be sent, and asks once for each set of terms."""

    def __init__(self, console: Console, state: Path, yes: bool, own_public: bool) -> None:
        self._console, self._path, self._yes, self._own_public = console, state / "consent.json", yes, own_public

    def __call__(self, invitation: Invitation, method: type[Method]) -> str | None:
        from potluck.flower.consent import consent_text

        text = consent_text(invitation, method, self._own_public)
        terms = hashlib.sha256(text.encode()).hexdigest()
        self._console.print(f"\n{text}\n", markup=False)
        if self._given(terms):
            self._console.print("You have agreed to this before.")
            return None
        if not self._yes and not sys.stdin.isatty():
            return "nobody is there to be asked; start `potluck join` at a terminal, or with --yes"
        if not self._yes and not typer.confirm("Do you agree?", default=False, err=True):
            return "its owner did not agree"
        self._path.write_text(json.dumps({"agreed": [*self._agreed(), terms]}))
        return None

    def _given(self, terms: str) -> bool:
        return terms in self._agreed()

    def _agreed(self) -> list[str]:
        return list(json.loads(self._path.read_text())["agreed"]) if self._path.exists() else []


class _Log(logging.Handler):
    """Shows what is logged on this machine, with the traceback of what failed in the owner's own code."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(self.format(record), markup=False)
