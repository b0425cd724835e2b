"""``potluck report``: the page of a comparison or of runs, and its figures and tables as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from potluck.report import html
from potluck.report.charts import FEW
from potluck.report.figure_set import figures_of
from potluck.report.rendering import NO_CHARTS, ReportFigure, can_draw, need_charts
from potluck.report.significance import Significance
from potluck.report.standings import Standings
from potluck.report.summary_table import (
    answer,
    failures,
    pairs_table,
    ranking_sentence,
    summary_table,
    tried_table,
)
from potluck.report.tables import Table

PAGE = "report.html"
"""What a page is called."""

EXPLAINED = (
    "All values are those after the last round, mean ± standard deviation over seeds; gains are against the same "
    "participant training alone (Local) under the same seed. Bytes are those of payloads as sent. Nothing was chosen "
    "on test data."
)


def write_report(standings: Standings, path: Path, figures: Path | None = None) -> list[Path]:
    """Writes a self-contained page; figures and tables as files too, if a folder for them is given.

    Args:
        standings: what is reported.
        path: where the page goes.
        figures: a folder for SVG, PNG, PDF, CSV, LaTeX and Markdown files; by default there are none.

    Returns:
        What was written, the page first.
    """
    if figures is not None:
        need_charts()
    significance = standings.significance()
    drawn = list(figures_of(standings, significance)) if can_draw() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = _blocks(standings, significance, drawn)
    path.write_text(html.page(_title(standings), blocks), encoding="utf-8")
    return [path, *(_files(standings, significance, drawn, figures) if figures is not None else [])]


def _title(standings: Standings) -> str:
    return f"{' and '.join(standings.methods) if len(standings.methods) < 3 else 'Methods'} compared"


def _blocks(standings: Standings, significance: Significance, drawn: list[ReportFigure]) -> Iterator[str]:
    yield html.paragraph(answer(standings, significance), lead=True)
    yield html.paragraph(significance.sentence)
    if standings.choice[1]:
        yield html.paragraph(standings.choice[1])
    summary = summary_table(standings)
    yield html.table(summary, "What each method reached and what it cost")
    yield html.paragraph(EXPLAINED)
    yield html.details("The table as Markdown", html.code(summary.to_markdown()))
    yield html.details("The table as LaTeX", html.code(summary.to_latex()))
    if standings.failed:
        yield html.section("Not played")
        yield from map(html.paragraph, failures(standings))
    yield html.section("Figures")
    if drawn:
        yield html.figures(html.figure(f.svg(), f.title, f.caption, f.numbers()) for f in drawn)
    else:
        yield html.paragraph(NO_CHARTS)
    if significance.pairs:
        yield html.section("Which differences are real")
        yield html.table(pairs_table(significance, standings.metric), "Differences in pairs")
        if ranked := ranking_sentence(significance):
            yield html.paragraph(ranked)
    if (tried := tried_table(standings)) is not None:
        yield html.section("What was tried")
        yield html.table(tried, "All settings on validation and test data")
    yield html.section("How it was made")
    yield html.table(_made(standings), "Seeds, versions, commit")
    if commands := _commands(standings):
        yield html.paragraph("The command that repeats it:")
        yield html.code("\n".join(commands))
    if text := standings.about.get("text"):
        yield html.details(f"The run file, {standings.about.get('file', '')}", html.code(text))
    for entry in standings.shown:
        settings = dict(next(iter(standings.of(entry).values())).about)
        if len(settings.get("participants", ())) > FEW:
            del settings["participants"]  # mostly alike, and more than anybody reads
        yield html.details(f"The settings of {entry.label}, as run", html.code(json.dumps(settings, indent=1)))


def _commands(standings: Standings) -> list[str]:
    """What plays everything again: a comparison, or each of the runs."""
    recipes = [standings.about] if standings.about else [trial.about.get("recipe") or {} for trial in standings.trials]
    return [about["command"] for about in recipes if about.get("command")]


def _made(standings: Standings) -> Table:
    """Settings, versions, commit and seeds."""
    about: dict[str, Any] = dict(standings.trials[0].about) | dict(standings.about)
    rows = [
        ["seeds", ", ".join(map(str, standings.seeds))],
        ["rounds", str(standings.rounds)],
        ["compared by", standings.metric.title + ("" if standings.metric.higher else " (less is better)")],
    ]
    rows += [[name, str(version)] for name, version in (about.get("versions") or {}).items()]
    rows += [["commit", str(about["commit"])]] if about.get("commit") else []
    engines = {str(trial.about.get("engine")) for trial in standings.trials if trial.about.get("engine")}
    rows += [["engine", ", ".join(sorted(engines))]] if engines else []
    return Table(["what", "value"], rows, texts=2)


def _files(standings: Standings, significance: Significance, drawn: list[ReportFigure], folder: Path) -> Iterator[Path]:
    """The figures and the tables as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in drawn:
        yield from figure.write(folder)
    tables = {"summary": summary_table(standings), "differences": pairs_table(significance, standings.metric)}
    for name, table in tables.items():
        for kind, text in (("md", table.to_markdown()), ("tex", table.to_latex())):
            path = folder / f"{name}.{kind}"
            path.write_text(text, encoding="utf-8")
            yield path
