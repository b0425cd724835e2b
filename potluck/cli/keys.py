"""``potluck keys``: certificates and node keys for a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.serve import need_flower


def keys(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The participants.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where they go.")] = Path("keys"),
    host: Annotated[
        list[str] | None, typer.Option(help="Host names and addresses of the server. Repeatable.", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")] = 90,
) -> None:
    """Make certificates for the server and a key for each participant, for a trial.

    An authority of its own (ca.crt), the server's certificate (server.pem,
    server.key), and for each participant a key NAME with its public half
    NAME.pub. Nothing is overwritten.
    """
    need_flower()
    from potluck.flower.certificates import make_keys

    made = make_keys(out, names, [*(host or []), "localhost", "127.0.0.1"], days)
    typer.echo("Wrote:")
    for path, purpose in made.items():
        typer.echo(f"  {path}  {purpose}")
    typer.echo(
        f"\nThese are for a trial: one machine has made every secret. In production let your own authority sign the\n"
        f"server's certificate (for its host names and 127.0.0.1); have each participant make its own key where it\n"
        f"is used (ssh-keygen -t ecdsa -b 384 -N '' -f NAME) and give away NAME.pub alone. Keys and certificates are\n"
        f"good for {days} days here; docs/deployment.md says how to change them."
    )
