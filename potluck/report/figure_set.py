"""Which figures a report has, with what each of them says."""

from __future__ import annotations

from collections.abc import Iterator

from potluck.report import charts, figure_data
from potluck.report.rendering import ReportFigure
from potluck.report.significance import Significance
from potluck.report.standings import FLOOR, Standings
from potluck.report.trials import Entry

BY = {
    "round": ("rounds", "round"),
    "bytes": ("bytes", "sent and received by all so far"),
    "seconds": ("seconds", "seconds that all have worked so far"),
    "simulated seconds": ("simulated seconds", "seconds by the virtual clock"),
}
"""What curves are drawn by: how it is called, and what stands at the axis."""


def figures_of(standings: Standings, significance: Significance) -> Iterator[ReportFigure]:
    """The figures that there are data for, in the order of a report."""
    yield from _curves(standings)
    if len(standings.rivals) > 1:
        rows = figure_data.costs(standings)
        yield ReportFigure(
            "cost",
            f"{_title(standings)} against bytes",
            "Each dot is a method after the last round, with its deviation over seeds. The dotted line joins those "
            "that no other beats both in bytes and in what is reached.",
            rows,
            charts.costs(rows, standings.metric.heading),
        )
    yield from _gains(standings)
    if rows := figure_data.ranks(significance):
        ranking = significance.ranking
        assert ranking is not None
        yield ReportFigure(
            "ranks",
            "Which methods differ",
            f"Mean ranks over {ranking.seeds} seeds. Methods joined by a bar do not differ by Nemenyi's test, "
            "which looks at all of them at once and is stricter than the test of pairs.",
            rows,
            charts.ranks(rows, ranking.alike, ranking.critical),
        )
    if rows := figure_data.holdings(standings):
        yield ReportFigure(
            "data",
            "Who holds what",
            "Training samples of each label at each participant, under the first seed.",
            rows,
            charts.heat(rows, "label", "participant", "samples", "samples"),
        )
    rows = figure_data.traffic(standings)
    if any(row["bytes"] for row in rows):
        yield ReportFigure(
            "traffic",
            "What travelled",
            "Bytes of one participant in one round at each exchange of a method, as sent.",
            rows,
            charts.traffic(rows),
        )
    for entry in standings.rivals:
        if rows := figure_data.crossed(standings, entry):
            yield ReportFigure(
                f"cross-{_slug(entry)}",
                f"Everybody's model on everybody's data: {entry.label}",
                f"{_title(standings)} of each participant's model on each one's test data, on the labels it knows.",
                rows,
                charts.heat(rows, "data of", "model of", "value", standings.metric.heading),
            )


def _curves(standings: Standings) -> Iterator[ReportFigure]:
    rows = figure_data.curves(standings)
    if standings.rounds < 2:
        return  # a single point is no curve
    for by, (called, title) in BY.items():
        if any(row.get(by) for row in rows) and all(by in row for row in rows):
            yield ReportFigure(
                f"curve-{called.replace(' ', '-')}",
                f"{_title(standings)} by {called}",
                "The mean over participants, with a band of one standard deviation over seeds.",
                rows,
                charts.curves(rows, by, standings.metric.heading, title),
            )


def _gains(standings: Standings) -> Iterator[ReportFigure]:
    """Who won and who lost, method by method, the best one first."""
    unit = f"gain over {FLOOR}" + (" (points)" if standings.metric.share else "")
    for entry in standings.ranked:
        rows = figure_data.gains(standings, entry)
        if not rows:
            continue
        won = sum(row["gain"] > 0 for row in rows)
        yield ReportFigure(
            f"gain-{_slug(entry)}",
            f"Who gains with {entry.label}",
            f"{won} of {len(rows)} participants are better off than alone, on average over seeds. Beside each name "
            f"stand its model and how many samples it trains on, where known.",
            rows,
            charts.gains(rows, unit),
        )


def _title(standings: Standings) -> str:
    return standings.metric.title.capitalize()


def _slug(entry: Entry) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in entry.label).strip("-").lower()
