"""``potluck check``: which methods fit a federation, why the others do not, and how much would travel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from potluck.cli.console import messages, progress, waiting
from potluck.cli.data_dir import DataDir
from potluck.cli.logs import logged
from potluck.cli.run import Change, File
from potluck.core.errors import PotluckError, RequirementsError

if TYPE_CHECKING:
    from potluck.channel.route import Direction
    from potluck.channel.transmission import Transmission
    from potluck.federation.method import Method
    from potluck.recipes import Recipe
    from potluck.recipes.builder import FederationBuilder


@dataclass(frozen=True)
class Traffic:
    """Bytes of all participants together: those of one round, and those of joining.

    Args:
        up: from participants to the server, in a round.
        down: from the server to participants, in a round.
        joining_up: from participants to the server, while joining.
        joining_down: from the server to participants, while joining.
    """

    up: int
    down: int
    joining_up: int
    joining_down: int

    @property
    def each_round(self) -> int:
        """What methods are ranked by."""
        return self.up + self.down

    def readable(self) -> list[str]:
        """Numbers for people."""
        from potluck.core.history import readable_bytes

        return [readable_bytes(count) for count in (self.up, self.down, self.joining_up, self.joining_down)]


@dataclass
class Sent:
    """Bytes of all participants' payloads of one exchange together, as they are and as they travel, by direction.

    Args:
        plain: the bytes of the payloads as they are.
        coded: the bytes as they travel.
    """

    plain: Counter[Direction] = field(default_factory=Counter)
    coded: Counter[Direction] = field(default_factory=Counter)


Exchanges = dict[tuple[str, str], Sent]
"""What is sent in each exchange, by its name, and whether it is of joining or of a round."""


@dataclass
class DryRuns:
    """What dry runs found.

    Args:
        fits: what would travel, by method.
        misfits: why a method does not fit, one by one.
        exchanges: what is sent in each exchange of the file's own method.
    """

    fits: dict[str, Traffic] = field(default_factory=dict)
    misfits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exchanges: Exchanges = field(default_factory=dict)


def check(file: File, change: Change = None, data_dir: DataDir = None) -> None:
    """Say which methods fit the federation in FILE, why the others do not, and how much would travel.

    FILE is a run file; `potluck new` writes one to start from. Every method
    does a dry run: all of it happens but the training. Those that fit are
    ranked by what travels in a round, up and down. The exit code is 1 if the
    file's own method does not fit.
    """
    from potluck.recipes import read

    recipe = read(file, change or [])
    outcome = dry_runs(recipe)
    show_fits(recipe, outcome)
    if recipe.method.name in outcome.misfits:
        raise typer.Exit(1)


def dry_runs(recipe: Recipe) -> DryRuns:
    """Tries all methods in the federation of a run file: its own with the file's settings, the others as they are."""
    console, outcome = messages(), DryRuns()
    with waiting("dividing the data, building the models", console):
        builder = recipe.builder()
    with logged(console), progress(console) as bar:
        for name, kind in bar.track(_methods(recipe).items(), description="dry runs"):
            own = name == recipe.method.name
            try:
                method = recipe.build_method() if own else kind()
                outcome.fits[name] = rehearse(builder, method, outcome.exchanges if own else None)
            except PotluckError as error:
                outcome.misfits[name] = reasons(error)
    return outcome


def rehearse(builder: FederationBuilder, method: Method, exchanges: Exchanges | None = None) -> Traffic:
    """Joins and plays two rounds without training. The second is what is usual. Notes what is sent in each exchange."""

    def note(sent: Transmission) -> None:
        route = sent.route
        if exchanges is not None and route.round != 1:
            found = exchanges.setdefault((route.exchange, "a round" if route.round else "joining"), Sent())
            found.plain[route.direction] += sent.uncoded_bytes
            found.coded[route.direction] += sent.bytes

    federation = builder.federation(method, "dry-run", audit=None if exchanges is None else note)
    rows = [row for row in federation.run(2).rows() if row["round"] == 2]
    joined = federation.snapshot()["joined"]
    refused = {name: tally["refused"] for name, tally in joined.items()}
    refused |= {row["participant"]: row["refused"] for row in rows if not refused[row["participant"]]}
    reasons = [f"\n- {name} would be refused: {why}" for name, why in refused.items() if why]
    if reasons:
        raise RequirementsError(f"{type(method).__name__} does not fit this federation:{''.join(reasons)}")
    return Traffic(
        sum(row["bytes_up"] for row in rows),
        sum(row["bytes_down"] for row in rows),
        sum(tally["bytes_up"] for tally in joined.values()),
        sum(tally["bytes_down"] for tally in joined.values()),
    )


def reasons(error: PotluckError) -> tuple[str, ...]:
    """Why a method does not fit, one by one."""
    first, *others = str(error).splitlines()
    return tuple(line.removeprefix("- ") for line in others) or (first,)


def show_fits(recipe: Recipe, outcome: DryRuns) -> None:
    """What would travel with the methods that fit, least first, and under it each reason with all whom it concerns."""
    console = Console(highlight=False)
    fits, misfits, exchanges = outcome.fits, outcome.misfits, outcome.exchanges
    own, count = recipe.method.name, sum(party.count for party in recipe.participants)

    def starred(name: str) -> str:
        return f"{name}*" if name == own else name

    if fits:
        shown = Table("method", box=SIMPLE_HEAD)
        for heading in ("each round: up", "down", "joining: up", "down"):
            shown.add_column(heading, justify="right")
        for name, traffic in sorted(fits.items(), key=lambda fit: (fit[1].each_round, fit[0].lower())):
            shown.add_row(starred(name), *traffic.readable())
        console.print(
            f"[bold]What fits,[/] and what would travel between {count} participants and the server, least first:"
        )
        console.print(shown)
        if own in fits and exchanges:
            _show_exchanges(console, own, exchanges, coded=not recipe.channel.is_empty)
        console.print("Counted in a dry run with untrained models; what depends on what is learned will differ.\n")
    if misfits:
        console.print("[bold]What does not fit,[/] and why:\n")
    concerned: dict[str, list[str]] = {}
    for name, why in misfits.items():
        for reason in why:
            concerned.setdefault(reason, []).append(starred(name))
    for reason, names in sorted(concerned.items(), key=lambda found: -len(found[1])):
        console.print(", ".join(names), style="bold")
        bullet = Table.grid(padding=(0, 1))
        bullet.add_row(" -", Text(reason))
        console.print(bullet)
        console.print()
    console.print("* the method of the run file")


def _show_exchanges(console: Console, method: str, exchanges: Exchanges, coded: bool) -> None:
    """What is sent in each exchange of a method, before and after coding."""
    from potluck.core.history import readable_bytes

    shown = Table("exchange", "in", box=SIMPLE_HEAD)
    for heading in ("up", "coded", "down", "coded") if coded else ("up", "down"):
        shown.add_column(heading, justify="right")
    for (name, when), sent in sorted(exchanges.items(), key=lambda item: item[0][1] == "a round"):
        counts = [
            kind[way] for way in ("up", "down") for kind in ((sent.plain, sent.coded) if coded else (sent.plain,))
        ]
        shown.add_row(name, when, *map(readable_bytes, counts))
    console.print(f"[bold]The exchanges of {method}:[/]")
    console.print(shown)


def _methods(recipe: Recipe) -> dict[str, type[Method]]:
    """The file's own method, as it names it, then all others."""
    from potluck.methods import METHODS

    own = METHODS[recipe.method.name]
    others = {name: METHODS[name] for name in METHODS}
    return {recipe.method.name: own} | {name: kind for name, kind in others.items() if kind is not own}
