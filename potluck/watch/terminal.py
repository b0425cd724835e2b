"""Shows how a run or a comparison stands in the terminal, again and again until it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from potluck.core.harmless import harmless
from potluck.core.history import readable_bytes
from potluck.watch.comparison_view import Candidate, ComparisonView
from potluck.watch.run_view import RunView
from potluck.watch.words import STATES, duration, sparkline, value

View = RunView | ComparisonView
COLOURS = {"waiting": "yellow", "playing": "green", "ended": "cyan", "interrupted": "yellow", "failed": "red"}
NAMED = 12
"""So many participants are named in a line."""
LISTED = 10
"""So many participants, and runs that are played, have a line of their own."""
BAR = 40


def follow(look: Callable[[], View], console: Console, every: float) -> View:
    """Shows what ``look`` finds until it is over, and returns the last of it.

    Args:
        look: reads how things stand.
        console: where it is shown.
        every: seconds between two looks.
    """
    view = look()
    with Live(rendered(view), console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while not view.over:
            time.sleep(every)
            view = look()
            live.update(rendered(view), refresh=True)
    return view


def rendered(view: View) -> RenderableType:
    """A view, for a terminal."""
    return Group(*(_run(view) if isinstance(view, RunView) else _comparison(view)))


def _run(view: RunView) -> Iterator[RenderableType]:
    yield _heading(view.title or "A run", view.folder, view.state, view.why)
    yield _progress(view.round, view.rounds, "round", view.left if view.state == "playing" else None)
    if view.points:
        facts = Table.grid(padding=(0, 2))
        yield facts
        line = sparkline([point for _, point in view.points], BAR)
        shown = Text.assemble((value(view.score, view.share), "bold"), f"  worst {value(view.worst, view.share)}")
        facts.add_row(view.metric, Text(line, style="cyan"), shown)
        if view.validation:
            line = sparkline([point for _, point in view.validation], BAR)
            shown = Text(value(view.validation[-1][1], view.share))
            facts.add_row("on validation", Text(line, style="cyan"), shown)
        yield Text(
            f"sent {readable_bytes(view.sent)}, received {readable_bytes(view.received)}; "
            f"worked {duration(view.seconds)}"
        )
    if view.state == "playing" and view.phase:
        yield _doing(view)
    if view.out:
        yield Text("dropped out now: " + _some([f"{name} ({why})" for name, why in view.out.items()]), style="yellow")
    if view.dropped:
        yield Text(f"dropped out so far: {view.dropped} times", style="yellow")
        for drop in list(view.drops)[-3:]:
            yield Text(f"  round {drop.round}: {harmless(drop.name)}, {harmless(drop.why)}", style="yellow")
    for line in view.news if not view.points else view.news[-1:]:
        yield Text(f"  {harmless(line)}", style="dim")
    if view.people:
        yield Text()
        yield _people(view)


def _doing(view: RunView) -> Text:
    doing = view.doing
    what = "joining" if view.phase == "join" else f"round {view.round + 1}"
    parts = [f"{what} for {duration(view.since)}"]
    if doing.get("working"):
        parts.append(f"at work: {_some(view.working, doing['working'])}")
    parts += [f"{said}: {doing[key]}" for key, said in (("waiting", "waiting"), ("done", "done")) if doing.get(key)]
    return Text("; ".join(parts))


def _people(view: RunView) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, 1))
    table.add_column("worst off first" if len(view.people) > 1 else "participant")
    for heading in (view.metric, "sent", "received", ""):
        table.add_column(heading, justify="right")
    for person in view.people[:LISTED]:
        sent, received = readable_bytes(person.sent), readable_bytes(person.received)
        table.add_row(Text(harmless(person.name)), value(person.score, view.share), sent, received, person.doing)
    if len(view.people) > LISTED:
        table.add_row(Text(f"and {len(view.people) - LISTED} more", style="dim"), "", "", "", "")
    return table


def _comparison(view: ComparisonView) -> Iterator[RenderableType]:
    yield _heading(f"Comparison of {view.title}", view.folder, view.state, view.why)
    yield _progress(view.played, view.rounds, "rounds of all runs", view.left)
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, 1))
    table.add_column("method")
    for heading in (view.metric or "so far", "runs over", "now", "failed"):
        table.add_column(heading, justify="right")
    for candidate in view.candidates:
        over = f"{candidate.done} of {candidate.runs}"
        if candidate.tried is not None:
            over = f"{candidate.tried[0]} of {candidate.tried[1]} settings tried"
        table.add_row(
            Text(harmless(candidate.name)),
            spread(candidate, view.share),
            over,
            ", ".join(f"seed {seed}: {round} of {rounds}" for seed, round, rounds in candidate.playing),
            Text(str(len(candidate.failed)) if candidate.failed else "", style="red"),
        )
    yield table
    for candidate in view.candidates:
        for seed, why in candidate.failed[:1]:
            more = f" (and {len(candidate.failed) - 1} more)" if len(candidate.failed) > 1 else ""
            yield Text(f"{harmless(candidate.name)}, seed {seed}: {harmless(why)}{more}", style="red")
    for run in view.running[:LISTED]:
        line = sparkline([point for _, point in run.points], BAR)
        yield Text.assemble(harmless(run.title), "  ", (line, "cyan"), f"  {value(run.score, run.share)}")


def spread(candidate: Candidate, share: bool) -> str:
    """Mean ± deviation of what is over."""
    if candidate.mean is None:
        return "–"
    more = f" ± {value(candidate.deviation, share)}" if candidate.done > 1 else ""
    return value(candidate.mean, share) + more


def _heading(title: str, folder: str, state: str, why: str) -> Text:
    style = COLOURS.get(state, "red")
    line = Text.assemble((harmless(title), "bold"), f"  {harmless(folder)}  ", (STATES.get(state, state), style))
    return line.append(f": {harmless(why)}", style=style) if why else line


def _progress(done: int, of: int, what: str, left: float | None) -> RenderableType:
    text = f"{what} {done}" + (f" of {of}" if of else "") + ("" if left is None else f", {duration(left)} left")
    grid = Table.grid(padding=(0, 2))
    grid.add_row(ProgressBar(total=of or 1, completed=min(done, of or 1), width=BAR), Text(text))
    return grid


def _some(names: Sequence[str], count: int | None = None) -> str:
    """Some names, and how many more there are."""
    count = len(names) if count is None else count
    shown = ", ".join(harmless(name) for name in names[:NAMED])
    return shown + (f" and {count - NAMED} more" if count > NAMED else "")
