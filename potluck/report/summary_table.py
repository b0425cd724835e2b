"""The table of a comparison, and the sentences around it, in plain text."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rich.console import Console

from potluck.core.history import readable_bytes
from potluck.report.metric import Metric, number
from potluck.report.significance import Significance
from potluck.report.standings import CEILING, FLOOR, EntrySummary, Standings
from potluck.report.tables import Table
from potluck.report.trials import Entry


def summary_table(standings: Standings) -> Table:
    """What each entry reached and what it cost, the best one first, the ceiling last."""
    metric = standings.metric
    ordered = [*standings.ranked, *(entry for entry in standings.shown if entry not in standings.ranked)]
    summaries = [standings.summary(entry) for entry in ordered]
    unseen = any(row.newcomers for row in summaries)
    headings = ["method", metric.heading, f"gain over {FLOOR}", f"worse than {FLOOR}", "worst tenth"]
    headings += ["newcomers"] * unseen + ["sent each round", "received", "in all"]
    if standings.target is not None:
        goal = metric.text(standings.target) + metric.unit
        headings += [f"rounds to {goal}", f"bytes to {goal}"]
        headings += [f"simulated seconds to {goal}"] if standings.clocked else []
    headings += ["seconds"]
    return Table(headings, [_row(standings, row, unseen) for row in summaries], strong=1)


def _row(standings: Standings, row: EntrySummary, unseen: bool) -> list[str]:
    metric = standings.metric
    name = row.entry.label + (" (ceiling)" if row.entry.method == CEILING else "")
    cells = [
        name,
        metric.spread(row.scores),
        metric.spread(row.gains, "+"),
        f"{number(row.lost)} of {row.participants}" if row.lost else "–",
        metric.spread(row.worst),
        *([metric.spread(row.newcomers)] * unseen),
        *(readable_bytes(round(fmean(side))) for side in (row.up, row.down, row.total)),
    ]
    if standings.target is not None:
        reached = [found for found in row.to_target if found is not None]
        few = f" ({len(reached)} of {len(row.to_target)})" if 0 < len(reached) < len(row.to_target) else ""
        cells += [f"{number([found.round for found in reached])}{few}"]
        cells += [readable_bytes(round(fmean(found.bytes for found in reached))) if reached else "–"]
        late = [found.simulated for found in reached if found.simulated is not None]
        cells += [number(late) if late else "–"] if standings.clocked else []
    return [*cells, number(row.seconds)]


def pairs_table(significance: Significance, metric: Metric) -> Table:
    """Every difference with its interval and its p."""
    rows = []
    for pair in significance.pairs:
        low, high = pair.interval or (None, None)
        between = (
            f"{metric.text(low, '+')} to {metric.text(high, '+')}" if low is not None and high is not None else "–"
        )
        p = "–" if pair.p is None else _chance(pair.p).removeprefix("= ")
        rows.append([pair.one, pair.other, metric.text(pair.mean, "+"), between, p, _verdict(significance, pair.real)])
    unit = " (points)" if metric.share else ""
    headings = ["better", "worse", f"difference{unit}", "95% interval", "p (Holm)", "real?"]
    return Table(headings, rows, texts=2)


def _chance(p: float) -> str:
    """How large a p is: none is 0."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _verdict(significance: Significance, real: bool) -> str:
    return "yes" if real else "not shown" if significance.possible else "too few seeds"


def tried_table(standings: Standings) -> Table | None:
    """All settings of a sweep with what they reached on validation and test data; None without a sweep."""
    if standings.about.get("tuning"):
        return _trials_table(standings)
    if len(standings.entries) == len(standings.methods):
        return None
    chosen = standings.shown
    rows = []
    for entry in standings.entries:
        row = standings.summary(entry)
        mark = "chosen" if entry in chosen and len(chosen) < len(standings.entries) else ""
        rows.append([entry.label, standings.metric.spread(row.validated), standings.metric.spread(row.scores), mark])
    return Table(["setting", "validation", "test", ""], rows)


def _trials_table(standings: Standings) -> Table:
    """What Optuna tried of each method, and what became of it."""
    rows, chosen = [], set(standings.shown)
    for search in standings.about["tuning"]:
        for trial in search["tried"]:
            entry = Entry(search["method"], tuple((key, value) for key, value in trial["settings"]))
            value = "–" if trial["value"] is None else standings.metric.text(trial["value"])
            became = {"complete": "", "pruned": "cut off", "failed": "failed"}[trial["state"]]
            why = f"{became}: {trial['why']}" if became and trial["why"] else became or trial["why"]
            rows.append([entry.label, value, str(len(trial["values"])), "chosen" if entry in chosen else why])
            chosen.discard(entry)  # what was tried twice was chosen once
    return Table(["setting", "validation", "rounds", ""], rows)


def answer(standings: Standings, significance: Significance) -> str:
    """What the comparison says, in a sentence."""
    metric, ranked = standings.metric, standings.ranked
    best = ranked[0]
    row = standings.summary(best)
    said = f"{metric.spread(row.scores)}{metric.unit}"
    seeds = f"{len(row.seeds)} seed{'s' * (len(row.seeds) != 1)}"
    people = f"{row.participants} participant{'s' * (row.participants != 1)}"
    what = f"{metric.title} after round {standings.rounds}, on average over {people} and {seeds}"
    if len(ranked) == 1:
        return f"{best.label} reaches {said} {what}."
    second = ranked[1]
    pair = significance.of(best.label, second.label)
    lead = metric.text(abs(pair.mean)) + (" points" if metric.share else "")
    begin = f"Nothing beats {FLOOR}, which is training alone" if best.method == FLOOR else f"{best.label} is best"
    sure = "a difference that is real" if pair.real else _unsure(significance)
    return f"{begin}: {said} {what}, {lead} ahead of {second.label}, {sure}."


def _unsure(significance: Significance) -> str:
    if significance.possible:
        return "which may be chance"
    return f"which {significance.seeds} seed{'s' * (significance.seeds != 1)} cannot tell from chance"


def summary_text(standings: Standings) -> str:
    """Everything for a terminal."""
    significance = standings.significance()
    lines: list[object] = [answer(standings, significance), "", summary_table(standings).to_rich(), ""]
    lines += [standings.choice[1]] if standings.choice[1] else []
    if (tried := tried_table(standings)) is not None:
        lines += ["", tried.to_rich(), ""]
    lines += [significance.sentence, *([ranked] if (ranked := ranking_sentence(significance)) else [])]
    if significance.possible and significance.pairs:
        lines += ["", pairs_table(significance, standings.metric).to_rich()]
    if standings.failed:
        lines += ["", "Not played:", *(f"- {line}" for line in failures(standings))]
    console = Console(width=200, force_terminal=False, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=isinstance(line, str))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def failures(standings: Standings) -> Sequence[str]:
    """What could not be played and why. Where several seeds failed, the reason of the first is given."""
    by_entry: dict[str, list[tuple[str, str]]] = {}
    for title, reason in standings.failed.items():
        label, _, seed = title.partition(", seed ")
        by_entry.setdefault(label, []).append((seed, reason))
    return [f"{label}{_of_seeds([seed for seed, _ in found])}: {found[0][1]}" for label, found in by_entry.items()]


def _of_seeds(seeds: Sequence[str]) -> str:
    """Which seeds are meant; nothing for what has none, as the search for settings."""
    return f", seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" if any(seeds) else ""


def ranking_sentence(significance: Significance) -> str:
    """What Friedman's test says of all at once; empty for fewer than four."""
    ranking = significance.ranking
    if ranking is None:
        return ""
    ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(ranking.ranks.items(), key=lambda pair: pair[1]))
    return (
        f"All at once (Friedman's test over {ranking.seeds} seeds): p {_chance(ranking.p)}. Mean ranks: {ranks}; those "
        f"that are {ranking.critical:.2f} or less apart do not differ (Nemenyi)."
    )
