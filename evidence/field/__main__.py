"""Plays a comparison, or goes on with it, and keeps its results: ``python -m evidence.field mixed --data FILE``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from evidence.field import choice
from evidence.field.line_up import LINE_UPS, RATES, LineUp
from evidence.field.page import fill
from evidence.field.results import RESULTS, joined, keep, path_of, summarised
from potluck.comparison.compare import Comparison, compare
from potluck.core.errors import PotluckError

FEW = 30.0
"""Seconds between two words of progress."""


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(prog="python -m evidence.field", description=__doc__)
    parser.add_argument("federation", nargs="?", choices=sorted(LINE_UPS), help="by default nothing is played")
    parser.add_argument("--data", type=Path, help="Fashion-MNIST: an .npz of x_train, y_train, x_test, y_test")
    parser.add_argument("--runs", type=Path, help="where runs are kept (by default runs/field-FEDERATION)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of results")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at a time")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="results of other seeds that are there are kept")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rates", default=RATES, help=f"learning rates to try of every method (by default {RATES})")
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="these methods, and Local")
    parser.add_argument("--commit", help="the commit to note, where runs come from elsewhere")
    parser.add_argument("--write", action="store_true", help="put the tables of all results into the docs")
    given = parser.parse_args()
    if given.federation:
        if given.data is None or not given.data.is_file():
            parser.error(f"--data {given.data}: expected a file of Fashion-MNIST.")
        play(LINE_UPS[given.federation], given)
    if given.write:
        fill(given.results)
        choice.fill(given.results)


def play(line_up: LineUp, given: argparse.Namespace) -> None:
    """Plays what is missing of a comparison, and keeps what there is."""
    began = told = time.monotonic()

    def watch(played: int, in_all: int, title: str) -> None:
        nonlocal told
        if time.monotonic() - told > FEW:
            told = time.monotonic()
            print(f"{told - began:6.0f} s: {played} of {in_all} rounds; now {title}", file=sys.stderr, flush=True)

    methods = given.only or list(line_up.methods)
    runs = given.runs or Path("runs") / f"field-{line_up.name}"
    stopped = False
    try:
        comparison = compare(
            methods,
            line_up.file,
            seeds=given.seeds,
            sweep=[f"plan.lr={given.rates}"],
            out=runs,
            jobs=given.jobs,
            changes=[
                f"data.source.path={json.dumps(str(given.data.resolve()))}",
                f"seed={given.first_seed}",
                *line_up.changes(methods),
            ],
            options=[("rounds", given.rounds), ("checkpoint_every", given.rounds)],
            watch=watch,
        )
    except KeyboardInterrupt:
        stopped, comparison = True, Comparison(runs)
    except PotluckError as error:
        sys.exit(f"Error: {error}")
    path = path_of(line_up, given.results)
    content = summarised(line_up, comparison.standings, runs, given.commit)
    if path.exists():
        content = joined(json.loads(path.read_text(encoding="utf-8")), content)
    keep(content, path)
    print(comparison.table())
    print(f"{time.monotonic() - began:.0f} seconds. Results: {path}")
    if stopped:
        sys.exit("Stopped. The same command goes on.")
    for folder in runs.glob("*/seed-*/checkpoints"):
        shutil.rmtree(folder)  # nothing is gone on with


if __name__ == "__main__":
    main()
