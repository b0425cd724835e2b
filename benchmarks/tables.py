"""Puts the figures of ``results/*.json`` into the docs, and into what ``potluck bench`` compares with.

python -m benchmarks.tables
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.script import run_script, say
from potluck.bench.measure import machine_in_words
from potluck.bench.results import HEADINGS, Results, make_reference

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
REFERENCE = HERE.parent / "potluck" / "bench" / "reference.json"
BLOCK = re.compile(r"(<!-- figures: (\w+)((?: [^-\n]+)?) -->\n).*?(<!-- end -->)", re.S)
MISSING = "Not measured yet.\n"


def markdown(results: Results, words: str = "") -> str:
    """A table of the figures whose names begin with some words, and the machine under it."""
    rows = [figure.cells() for figure in results.figures if figure.name.startswith(words)]
    lines = [" | ".join(row) for row in (HEADINGS, ["---", "---:", "---:", "---:", "---"], *rows)]
    table = "".join(f"| {line} |\n" for line in lines)
    return f"{table}\nMeasured on {results.measured}: {machine_in_words(results.machine)}.\n"


def filled(page: str, folder: Path) -> str:
    """The page with a table, and the picture there is, in every block that names a benchmark and perhaps a first word.

    ``<!-- figures: cpu_round MLP -->`` begins a block, ``<!-- end -->`` ends it.
    """

    def fill(block: re.Match[str]) -> str:
        path = folder / f"{block[2]}.json"
        text = markdown(Results.read(path), block[3].strip()) if path.exists() else MISSING
        if path.with_suffix(".png").exists():
            text += f"\n![{block[2]}](../benchmarks/results/{block[2]}.png)\n"
        return f"{block[1]}\n{text}\n{block[4]}"

    return BLOCK.sub(fill, page)


def main(
    write: Annotated[bool, typer.Option("--write", help="Write docs and reference, not only print.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the results are.")] = HERE / "results",
) -> None:
    """Print all results as Markdown tables; with --write, put them into docs/performance.md and reference.json.

    What `potluck bench --json` wrote to bench*.json becomes the reference.
    """
    found = {path.stem: Results.read(path) for path in sorted(folder.glob("*.json"))}
    for name, results in found.items():
        say(f"## {name}\n\n{markdown(results)}")
    if write:
        PAGE.write_text(filled(PAGE.read_text(), folder))
        REFERENCE.write_text(make_reference(one for name, one in found.items() if name.startswith("bench")))
        say(f"Wrote {PAGE} and {REFERENCE}")


if __name__ == "__main__":
    run_script(main)
