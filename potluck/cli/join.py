"""``potluck join``: take part in a federation with a model and data that stay on this machine."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import potluck
from potluck.cli.console import LiveLine
from potluck.cli.logs import Level, LogJson, LogLevel, log_console, logged
from potluck.cli.serve import need_flower
from potluck.core.duration import Pace, readable_duration
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.harmless import harmless
from potluck.core.interruptions import INTERRUPTED, Interruptions
from potluck.core.processes import held_alone

if TYPE_CHECKING:
    from potluck.flower.config import ParticipantFile
    from potluck.flower.consent import AskOwner
    from potluck.flower.protocol import Finished
    from potluck.flower.reach import Site
    from potluck.flower.supernode import Ending

DECLINED = 3
"""The exit code where an invitation was declined, by its owner or their policy."""
FAILED = 4
"""The exit code where the run failed at the server, or the server does not answer any more: it may come back."""


def join(
    file: Annotated[Path, typer.Argument(metavar="PARTICIPANT.toml", help="Your own file.", show_default=False)],
    server: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the server is.", show_default=False)
    ] = None,
    root_certificates: Annotated[
        Path | None, typer.Option(help="The authority that signed the server's certificate.", show_default=False)
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your private key.", show_default=False)] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="A folder for what must last.", show_default="as in the file")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Consent to what the method sends, without being asked.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Look at data, model, key, server and terms; join nothing.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would leave, and what your policy says; then go away.")
    ] = False,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Take part in a federation. Data, model code and plan stay on this machine.

    PARTICIPANT.toml names your model, data, test data, plan and labels. Before
    anything is sent you read what the method will send, and are asked. State is
    kept on this machine: after a break, the same command goes on.
    """
    need_flower()
    from potluck.channel.audit_log import AuditLog
    from potluck.engines import keep_freed_memory, pick_device
    from potluck.flower.certificates import fingerprint, sealing
    from potluck.flower.client import Client
    from potluck.flower.client_store import private_folder
    from potluck.flower.config import read_participant
    from potluck.flower.consent import Consent
    from potluck.flower.reach import Site
    from potluck.flower.site_state import note_site
    from potluck.flower.supernode import participate

    keep_freed_memory()
    console = log_console(log_json)
    paths = {"root_certificates": root_certificates, "key": key, "state_dir": state_dir}
    settings = read_participant(file, **{name: str(path.resolve()) for name, path in paths.items() if path})
    if check:
        _look_over(settings, server, console)
        return
    if server is None:
        raise SettingsError("There is no --server; expected HOST:PORT, where the server is.")
    site = Site(settings.name, settings.root_certificates, settings.key)
    _reach_first(server, site, console)
    state = Path(settings.state_dir)
    os.umask(0o077)  # what is written from here on is nobody else's
    private_folder(state)
    lock = held_alone(state / ".lock", f"{state} is in use: another `potluck join` takes part with it. Stop that one.")
    note_site(state, file, _identity_of(server, settings).strip())
    audit_log = AuditLog(state / "audit.jsonl", settings.name, sealing(settings.key))
    audit_log.note(
        "opened",
        potluck=potluck.__version__,
        key=None if settings.key is None else fingerprint(settings.key),
        server=_identity_of(server, settings).strip(),
    )
    interruptions, line, pace = Interruptions(), LiveLine(console), Pace()
    client = Client(
        settings.build(),
        pick_device(settings.device),
        state,
        Consent(
            state / "consent.json",
            owner(console, yes, dry_run, line.hidden),
            settings.public is not None,
            _identity_of(server, settings),
        ),
        public=settings.public.load if settings.public else None,
        allow_imports=tuple(settings.allow_imports),
        max_payload_bytes=settings.max_payload_bytes,
        policy=settings.policy,
        audit_log=audit_log,
        dry_run=dry_run,
        interruptible=interruptions.interruptible,
    )

    def look() -> None:
        interruptions.check()
        round, rounds = client.progress
        line.say(f"round {round} of {rounds}{pace.in_words(round, rounds)}" if round else "waiting for the server")

    shown = logged(console, log_level, at_terminal=Level.INFO, tracebacks=True)
    try:
        with interruptions, shown, line:
            console.print(f"{settings.name} waits for the server at {server}. Ctrl-C stops; the same command goes on.")
            ending = participate(
                client,
                server,
                state / "flower",
                certificates=settings.root_certificates,
                key=settings.key,
                max_payload_bytes=settings.max_payload_bytes,
                server_timeout=settings.server_timeout,
                check=look,
                ask=partial(_reach_first, server, site, console),
            )
    except PotluckError:
        _reach_first(server, site, console)  # which may know a better reason, as a key that was revoked
        raise
    except KeyboardInterrupt:
        console.print(f"Stopped. Your state is in {state}; the same command goes on.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        lock.release()
    if dry_run:
        typer.echo("Nothing was agreed to, and nothing has left.")
        return
    if client.declined is not None:
        console.print("Nothing was agreed to. The same command asks again, also while the federation runs.")
        raise typer.Exit(DECLINED)
    typer.echo(f"{how_it_ended(client.farewell, ending, settings.server_timeout)} Your model's state is in {state}.")
    typer.echo(f"To use it elsewhere: {shlex.join(['potluck', 'export', str(state), '--out', 'model'])}")
    if ending == "silent" or (client.farewell is not None and client.farewell.outcome == "failed"):
        console.print("The same command goes on, when the server does.")
        raise typer.Exit(FAILED)


def how_it_ended(farewell: Finished | None, ending: Ending, timeout: float) -> str:
    """How the federation has ended, as far as it is known here."""
    if ending == "silent":
        return f"The server has not answered for {readable_duration(timeout)}."
    if farewell is None:
        return "The federation has ended: all rounds are over here, and the server has gone without a word."
    how = {"finished": "ended", "stopped": "was stopped", "failed": "failed"}[farewell.outcome]
    reason = f" ({farewell.reason})" if farewell.reason else ""
    return f"The federation {'has ' * (how == 'ended')}{how} after {farewell.rounds} rounds{reason}."


def _look_over(settings: ParticipantFile, server: str | None, console: Console) -> None:
    """Shows what is found about everything that joining takes. Exits with 2 if something is wrong."""
    from potluck.flower.site_check import SiteCheck

    wrong, marks = 0, {True: "✓", False: "✗", None: "!"}
    with logged(console):
        for finding in SiteCheck(settings, server).findings():
            wrong += finding.fine is False
            typer.echo(harmless(f"{marks[finding.fine]} {finding.what}: {finding.text}"))
    if server is None:
        typer.echo("! server: not looked at; say where it is with --server HOST:PORT")
    if wrong:
        raise typer.Exit(2)


def _reach_first(server: str, site: Site, console: Console) -> None:
    """Asks the server how it stands with this site, so that a mistake is told at once and in a sentence."""
    from potluck.flower.reach import ReachError, reach

    try:
        found = reach(server, site)
    except ReachError as error:
        if not error.passing:
            raise
        console.print(f"{error} Trying on.", markup=False)
        return
    for warning in found.warnings(site):
        console.print(warning, markup=False)


def _identity_of(server: str, settings: ParticipantFile) -> str:
    """Whom the owner deals with: the address, and the authority that vouches for who answers there."""
    path = settings.root_certificates
    return f"{server} {'' if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


def owner(
    console: Console,
    yes: bool,
    dry_run: bool = False,
    asking: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> AskOwner:
    """Shows the owner the terms, and asks unless they were agreed to before, or ``--yes`` agrees to all."""

    def ask(terms: str, agreed: bool) -> str | None:
        console.print(f"\n{terms}\n", markup=False)
        if dry_run:
            return "its owner looks at the terms, and does not take part yet"
        if agreed:
            console.print("You have agreed to this before.")
        elif not yes and not sys.stdin.isatty():
            return "nobody is there to be asked; start `potluck join` at a terminal, or with --yes"
        elif not yes:
            with asking():
                agrees = typer.confirm("Do you agree?", default=False, err=True)
            return None if agrees else "its owner did not agree"
        return None

    return ask
