"""``potluck keys``: certificates and node keys: made, added, renewed, listed, revoked."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from potluck.cli.serve import need_flower
from potluck.core.errors import SettingsError


class KeysGroup(TyperGroup):
    """Names the command that takes the place of the old form, ``potluck keys NAME…``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise SettingsError(
                f"`potluck keys {shlex.join(args)}` is no command; expected init, add, renew, list or revoke. To make "
                f"certificates and keys for a trial: potluck keys init {shlex.join(args)}"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=KeysGroup,
    no_args_is_help=True,
    help="Make and look after certificates and keys of a real federation: init, add, renew, list, revoke.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)

Out = Annotated[Path, typer.Option(help="The folder of keys.")]
Days = Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")]
Hosts = Annotated[
    list[str] | None, typer.Option(help="Host names and addresses of the server. Repeatable.", show_default=False)
]
ParticipantName = Annotated[str, typer.Argument(metavar="NAME", help="The participant.", show_default=False)]


@app.command("init")
def init(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="The participants.", show_default=False)
    ] = None,
    out: Out = Path("keys"),
    host: Hosts = None,
    days: Days = 90,
) -> None:
    """Make certificates for the server and a key for each participant, for a trial.

    An authority of its own (ca.crt), the server's certificate (server.pem,
    server.key), and for each participant a key NAME with its public half
    NAME.pub. Nothing is overwritten.
    """
    need_flower()
    from potluck.flower.key_folder import LOCAL, make_keys

    _tell(make_keys(out, names or [], [*(host or []), *LOCAL], days))
    typer.echo(
        f"\nThese are for a trial: one machine has made every secret. In production let your own authority sign the\n"
        f"server's certificate (for its host names and 127.0.0.1); have each participant make its own key where it\n"
        f"is used (potluck keys add NAME) and give away NAME.pub alone. The certificates are good for {days} days;\n"
        f"potluck keys renew makes others."
    )


@app.command("add")
def add(
    name: ParticipantName,
    out: Out = Path("keys"),
    public: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pub", help="A public half that was made elsewhere.", show_default=False),
    ] = None,
) -> None:
    """Make a participant's key; or, at the server, take in the public half of one.

    At a site: NAME stays there, NAME.pub goes to those who run the server. At the
    server: --public NAME.pub, and a line `key = "keys/NAME.pub"` in its file.
    """
    need_flower()
    from potluck.flower.key_folder import add_key

    _tell(add_key(out, name, public))


@app.command("renew")
def renew(
    name: Annotated[
        str | None, typer.Argument(help="A participant who gets a new key.", show_default="the certificates")
    ] = None,
    out: Out = Path("keys"),
    host: Hosts = None,
    days: Days = 90,
) -> None:
    """Make a new certificate for the server, or a new key for a participant.

    The certificate is for the hosts of the old one unless --host says others. The
    authority is renewed with it if it would end first. A running server takes
    them up when it is started again. A participant's old key is revoked at once.
    """
    need_flower()
    from potluck.flower.key_folder import renew_certificates, renew_key

    if name is not None and host:
        raise SettingsError(f"--host is for the server's certificate; a key as {name!r} has none.")
    _tell(renew_certificates(out, host or [], days) if name is None else renew_key(out, name))
    typer.echo("Start the server again to have it take them up: potluck serve … --resume")


@app.command("list")
def list_keys(out: Out = Path("keys")) -> None:
    """List certificates with the days on which they end, and participants' keys with their fingerprints."""
    need_flower()
    from potluck.flower.certificates import WARN_DAYS
    from potluck.flower.key_folder import entries

    table = Table(box=SIMPLE_HEAD)
    for heading in ("name", "what", "file", "ends", "SHA-256", ""):
        table.add_column(heading, overflow="fold")
    soon = False
    for entry in entries(out):
        left = "" if entry.days is None else f" ({entry.days:.0f} days)" if entry.days >= 0 else " (ended)"
        soon = soon or (entry.days is not None and entry.days <= WARN_DAYS)
        table.add_row(entry.name, entry.what, entry.file, entry.until + left, entry.fingerprint[:16], entry.note)
    Console(highlight=False).print(table)
    if soon:
        typer.echo(f"A certificate ends within {WARN_DAYS} days, or has ended: potluck keys renew")


@app.command("revoke")
def revoke(name: ParticipantName, out: Out = Path("keys")) -> None:
    """Have the server refuse a participant's key, from its next message on.

    The key's fingerprint goes to revoked.json in the folder, which a running
    server looks at. `potluck keys renew NAME` makes the participant another key.
    """
    need_flower()
    from potluck.flower.key_folder import REVOKED
    from potluck.flower.key_folder import revoke as revoke_key

    known = revoke_key(out, name)
    typer.echo(f"{name}'s key ({known[:16]}…) is in {out / REVOKED}: it is refused from its next message on.")


def _tell(made: dict[Path, str]) -> None:
    typer.echo("Wrote:")
    for path, purpose in made.items():
        typer.echo(f"  {path}  {purpose}")
