"""One table, in the terminal and on a page."""

from __future__ import annotations

import io

from rich.console import Console

from potluck.report import html as page
from potluck.report.tables import Table

TABLE = Table(["who", "score"], [["[red]ann[/]", "1.5"], ["<b>", "20"]], total=["mean", "10.75"], strong=1)


def shown(table):
    text = io.StringIO()
    Console(file=text, width=60).print(table.to_rich())
    return [line.strip() for line in text.getvalue().splitlines()]


def test_the_terminal_shows_text_as_it_is():
    lines = shown(TABLE)
    assert lines[0].split() == ["who", "score"]
    assert lines[2].split() == ["[red]ann[/]", "1.5"]
    assert lines[-1].split() == ["mean", "10.75"]


def test_without_a_total_there_is_no_last_row():
    table = Table(["who", "score"], [["ann", "1.5"]])
    assert shown(table)[-1].split() == ["ann", "1.5"]
    assert "tfoot" not in page.table(table, "scores")


def test_the_page_escapes_text_and_marks_columns():
    html = page.table(TABLE, "scores")
    assert '<th scope="row" class="text">&lt;b&gt;</th><td class="strong">20</td>' in html
    assert "<tfoot>" in html


def test_markdown_and_latex_hold_every_cell_and_escape():
    table = Table(["who", "a_b %"], [["x|y & z", "1.0 ± 0.5"]], total=["mean", "–"])
    assert table.to_markdown().splitlines() == [
        "| who | a_b % |",
        "| --- | ---: |",
        "| x&#124;y & z | 1.0 ± 0.5 |",
        "| mean | – |",
    ]
    assert table.to_latex().splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"who & a\_b \% \\",
        r"\midrule",
        r"x|y \& z & 1.0 $\pm$ 0.5 \\",
        r"\midrule",
        r"mean & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
