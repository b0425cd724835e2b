"""A table of plain text, for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich import table as rich_table
from rich.text import Text

from potluck.core.harmless import harmless

Cells = Sequence[str]


@dataclass(frozen=True)
class Table:
    """Headings, rows, and perhaps a last row of totals.

    Args:
        headings: one for each column.
        rows: the cells of each row.
        total: the cells of the last row; by default there is none.
        texts: how many columns are text; the others are numbers. By default 1.
        even: the number of a column in a font of fixed width; by default none.
        strong: the number of a column in bold; by default none.
    """

    headings: Cells
    rows: Sequence[Cells]
    total: Cells | None = None
    texts: int = 1
    even: int | None = None
    strong: int | None = None

    def to_rich(self) -> rich_table.Table:
        """The table for a terminal."""
        shown = rich_table.Table(box=box.SIMPLE, show_edge=False, padding=0, show_footer=self.total is not None)
        for number, heading in enumerate(self.headings):
            shown.add_column(
                Text(heading),
                footer=Text(self.total[number] if self.total else "", style="bold"),
                justify="left" if number < self.texts else "right",
                style="green" if number == self.strong else "",
                no_wrap=True,
            )
        for row in self.rows:
            shown.add_row(*(Text(harmless(cell)) for cell in row))
        return shown

    def to_markdown(self) -> str:
        """The table in Markdown."""
        rows = [self.headings, ["---" if n < self.texts else "---:" for n in range(len(self.headings))], *self._all()]
        return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in rows)

    def to_latex(self) -> str:
        """The table in LaTeX, with the lines of booktabs."""

        def line(row: Cells) -> str:
            return " & ".join(_escaped(cell) for cell in row) + r" \\"

        columns = "l" * self.texts + "r" * (len(self.headings) - self.texts)
        body = [line(row) for row in self.rows]
        foot = [] if self.total is None else [r"\midrule", line(self.total)]
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(self.headings), r"\midrule", *body, *foot]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def _all(self) -> list[Cells]:
        return [*self.rows, *([] if self.total is None else [self.total])]


_IN_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "×": r"$\times$",
}


def _escaped(text: str) -> str:
    return "".join(_IN_LATEX.get(letter, letter) for letter in text)
