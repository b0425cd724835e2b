"""What the papers leave open, chosen on validation data: training samples that no participant has. Never on test data.

The choices are written into the experiments by hand; what they were chosen from stays in the results.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evidence import cofed_adult, mhat_mnist
from evidence.experiment import Data, Setup, kind
from evidence.result_files import RESULTS, keep_content
from potluck.methods import Local

SEED = 100
"""None of those that results are given for."""

Candidates = Iterator[tuple[dict[str, Any], Setup]]


def mhat(data: Data) -> Candidates:
    """3 participants, as the paper chose its settings, 20 rounds; measured on 10,000 images that nobody has."""
    mnist = data["mnist"]
    unused = np.random.default_rng(SEED).permutation(len(mnist.y))[-10_000:]
    for labelled in (True, False):
        tried = [("fd", lr, None) for lr in (0.1, 0.5)] + [("mhat", 0.1, rate) for rate in (0.1, 0.5, 1.0)]
        for name, lr, rate in tried:
            method = mhat_mnist.methods(3, mhat_mnist.SERVER.replace(lr=rate))[name]
            setup = mhat_mnist.table(data, SEED, method, labelled, 3, rounds=20, plan=mhat_mnist.PLAN.replace(lr=lr))
            setup.test = (mnist.x[unused], mnist.y[unused])
            yield {"method": name, "labelled": labelled, "lr": lr, "server": rate}, setup


def adult(data: Data) -> Candidates:
    """Everything at full scale; measured on the 12,561 training rows that nobody has."""
    for lr in (1e-3, 3e-3, 1e-2):
        for epochs in (10, 20, 40):
            plan = cofed_adult.PLAN.replace(lr=lr, epochs=epochs)
            yield (
                {"method": "local", "lr": lr, "epochs": epochs},
                cofed_adult.table(data, SEED, Local(), plan=plan, validating=True),
            )
    for alpha in (0.3, 0.5, 0.7, 0.9):
        for weighted in (False, True):
            method = cofed_adult.cofed(alpha=alpha, class_weighted=weighted)
            setup = cofed_adult.table(data, SEED, method, validating=True)
            yield {"method": "cofed", "alpha": alpha, "weighted": weighted}, setup


CHOICES = {"mhat": mhat, "adult": adult}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.tune", description=__doc__)
    parser.add_argument("what", choices=list(CHOICES))
    parser.add_argument("--data", required=True, help="the folder with the data sets")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for candidate, setup in CHOICES[chosen.what](Data(chosen.data)):
        setup.federation.run(setup.rounds)
        scores = setup.accuracies()
        kinds = {name: kind(name) or "all" for name in scores}
        means = {
            one: round(float(np.mean([score for name, score in scores.items() if kinds[name] == one])), 4)
            for one in sorted(set(kinds.values()))
        }
        rows.append(candidate | {"accuracy": round(float(np.mean(list(scores.values()))), 4), "by kind": means})
        print(rows[-1], flush=True)
    keep_content("tune", chosen.what, rows, chosen.results)


if __name__ == "__main__":
    main()
