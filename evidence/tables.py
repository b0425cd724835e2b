"""Turns the results into the tables and figures of docs/evidence.md: the last round, the best one marked as such."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evidence.experiment import RESULTS

Outcome = dict[str, Any]
"""What one result file holds."""


class Results:
    """All result files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[tuple[str, str], list[Outcome]] = {}
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text())
            if isinstance(content, dict) and any("accuracy" in row for row in content.get("rounds", [])):
                self._found.setdefault((content["experiment"], content["setting"]), []).append(content)

    def of(self, experiment: str, setting: str) -> list[Outcome]:
        """One outcome for each seed; none if it was not played."""
        return self._found.get((experiment, setting), [])

    def counts(self, name: str) -> Any:
        return json.loads((self.folder / f"counts.{name}.json").read_text())


def measured(outcome: Outcome) -> dict[int, float]:
    """Round → mean accuracy, where it was measured."""
    return {row["round"]: row["accuracy"] for row in outcome["rounds"] if "accuracy" in row}


def common_round(groups: Iterable[list[Outcome]]) -> int | None:
    """The last round that was measured in all outcomes: where they can be compared."""
    rounds = [set(measured(outcome)) for outcomes in groups for outcome in outcomes]
    shared = set.intersection(*rounds) if rounds else set()
    return max(shared, default=None)


def spread(values: Iterable[float], scale: float = 100.0, digits: int = 1) -> str:
    """Mean ± deviation over seeds; a single seed has none."""
    found = [scale * value for value in values]
    if not found:
        return "–"
    text = f"{np.mean(found):.{digits}f}"
    return text if len(found) == 1 else f"{text} ± {np.std(found, ddof=1):.{digits}f}"


def at(outcomes: list[Outcome], round: int | None) -> str:
    """Accuracy in percent at a round; the last measured one of each for None."""
    scores = [measured(outcome) for outcome in outcomes]
    return spread(score[max(score) if round is None else round] for score in scores)


def best(outcomes: list[Outcome]) -> str:
    """The best round's accuracy and, in brackets, its number: chosen on test data, not a result."""
    tops = [max(measured(outcome).items(), key=lambda pair: pair[1]) for outcome in outcomes]
    if not tops:
        return "–"
    return f"{spread(accuracy for _, accuracy in tops)} ({spread((number for number, _ in tops), 1, 0)})"


def first_within(outcome: Outcome, points: float) -> int:
    """The first round that comes within so many points of the best one."""
    scores = measured(outcome)
    return min(number for number, score in scores.items() if score >= max(scores.values()) - points / 100)


def first_above(outcome: Outcome, accuracy: float) -> int | None:
    """The first round at or above an accuracy."""
    return min((number for number, score in measured(outcome).items() if score >= accuracy), default=None)


def seeds(outcomes: list[Outcome]) -> str:
    return str(len(outcomes)) if outcomes else "–"


def markdown(heading: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


MHAT_PUBLISHED = {
    ("mhat", "labelled", 3): "95.19 (62)",
    ("fd", "labelled", 3): "95.29 (188)",
    ("mhat", "labelled", 20): "95.32 (150)",
    ("fd", "labelled", 20): "95.38 (176)",
    ("mhat", "unlabelled", 3): "93.88 (83)",
    ("fd", "unlabelled", 3): "93.89 (170)",
    ("mhat", "unlabelled", 20): "94.23 (83)",
    ("fd", "unlabelled", 20): "94.72 (169)",
}


def mhat(results: Results) -> str:
    """MHAT's Table 1."""
    rows = []
    for labels in ("labelled", "unlabelled"):
        for participants in (3, 20):
            methods = {name: results.of("mhat_mnist", f"{name}-{labels}-{participants}") for name in NAMES}
            last = common_round(methods.values())
            for name, outcomes in methods.items():
                published = MHAT_PUBLISHED.get((name, labels, participants), "–")
                near = spread((first_within(outcome, 0.5) for outcome in outcomes), 1, 0)
                scores = [at(outcomes, last), best(outcomes), near, published, seeds(outcomes)]
                rows.append([labels, str(participants), NAMES[name], *scores])
    heading = ["public data", "participants", "method", "last round", "best round*", "within 0.5 of it", "published*"]
    return markdown([*heading, "seeds"], rows)


NAMES = {"local": "Local", "fd": "FD", "mhat": "MHAT"}


def compared(
    results: Results, experiment: str, settings: Mapping[str, str], published: Mapping[str, str] | None = None
) -> str:
    """One row for each setting, all at the last round that all of them reached; what was not played is left out."""
    found = {name: results.of(experiment, name) for name in settings}
    found = {name: outcomes for name, outcomes in found.items() if outcomes}
    last = common_round(found.values())
    rows = []
    for name, outcomes in found.items():
        scores = [at(outcomes, last), best(outcomes), _megabytes(outcomes)]
        rows.append([settings[name], *scores, (published or {}).get(name, "–"), seeds(outcomes)])
    heading = ["", f"round {last}", "best round*", "MB up a round", "published", "seeds"]
    return markdown(heading, rows)


def _megabytes(outcomes: list[Outcome]) -> str:
    """What a participant sends in a round, when joining is over."""
    sent = [outcome["rounds"][-1]["bytes_up"] for outcome in outcomes]
    return f"{np.mean(sent) / 1e6:.2f}"


def relative(results: Results, experiment: str, alone: str, settings: Mapping[str, str]) -> str:
    """Each participant's accuracy over what it has alone: the mean gain, the least, the most, and who gains at all."""
    reference = {outcome["seed"]: outcome["participants"] for outcome in results.of(experiment, alone)}
    rows = []
    for name, title in settings.items():
        outcomes = [outcome for outcome in results.of(experiment, name) if outcome["seed"] in reference]
        if not outcomes:
            continue
        gains = [
            np.array([score / reference[o["seed"]][person] - 1 for person, score in o["participants"].items()])
            for o in outcomes
        ]
        own = [reference[outcome["seed"]] for outcome in outcomes]
        rows.append(
            [
                title,
                spread(float(np.mean(list(scores.values()))) for scores in own),
                at(outcomes, None),
                spread(float(gain.mean()) for gain in gains),
                f"{100 * min(gain.min() for gain in gains):.0f} … {100 * max(gain.max() for gain in gains):.0f}",
                spread((float((gain > 0).mean()) for gain in gains), digits=0),
                seeds(outcomes),
            ]
        )
    heading = ["", "Local", "accuracy", "mean gain, %", "least … most, %", "gain at all, %", "seeds"]
    return markdown(heading, rows)


def by_kind(results: Results, experiment: str, settings: Mapping[str, str]) -> str:
    """The mean accuracy of each kind of participant (the first part of their names)."""
    kinds: list[str] = []
    rows = []
    for name, title in settings.items():
        outcomes = results.of(experiment, name)
        if outcomes:
            kinds = sorted({person.rpartition("-")[0] for person in outcomes[0]["participants"]})
            rows.append([title, *(spread(_mean_of(outcome, kind) for outcome in outcomes) for kind in kinds)])
    return markdown(["", *kinds], rows)


def _mean_of(outcome: Outcome, kind: str) -> float:
    scores = outcome["participants"].items()
    return float(np.mean([score for name, score in scores if name.rpartition("-")[0] == kind]))


ADULT = {
    "local": "Local",
    "cofed": "CoFED",
    "cofed-weighted": "CoFED, class-weighted update",
    "cofed-alpha-0.3": "CoFED, α = 0.3",
    "raw-local": "Local, columns as in the census",
    "raw-cofed": "CoFED, columns as in the census",
}
FEDIN_PUBLISHED = {"fedavg": "66.2", "fedin": "75.9", "fedin-noise": "77.3", "without-in": "72.0"}
FEDIN_TITLES = {
    "local": "Local",
    "fedavg": "FedAvg, layer-wise",
    "without-in": "FedIN without IN",
    "without-prox": "FedIN without Prox",
    "without-opt": "FedIN without Opt",
    "fedin": "FedIN",
    "exact": "FedIN, eq. 12",
    "fedin-noise": "FedIN, noise 0.8σ",
    **{f"noise-{level}": f"FedIN, noise {level}σ" for level in (0.2, 0.8, 2.0, 5.0)},
}
SMALL_PUBLISHED = {
    "fedavg": "66.2",
    "without-in": "72.0",
    "without-prox": "66.4",
    "without-opt": "74.9",
    "fedin": "75.9",
    "noise-0.2": "76.4",
    "noise-0.8": "77.3",
    "noise-2.0": "73.5",
    "noise-5.0": "30.6",
}
PERHEFED = {
    "local": "Local",
    "fedavg": "FedAvg",
    "all": "PerHeFed, all layers",
    "half": "PerHeFed, half of the layers",
    "all-same-start": "all layers, one start",
    "half-same-start": "half of the layers, one start",
    "same-half": "the same half",
    "same-half-same-start": "the same half, one start",
}
DRAFTFED = {
    "local": "Local",
    "draftfed": "DraftFed",
    "draftfed-weighted": "DraftFed, λ = 0.1, 1, 0.1",
    "draftfed-logits": "DraftFed, logits alone",
    "draftfed-cifar100": "DraftFed, drafts of CIFAR-100",
    "draftfed-svhn": "DraftFed, drafts of SVHN",
}
COFED = {"cofed": "CoFED", "cofed-margin": "CoFED, margin 0.3", "local-longer": "Local, twice as long"}

TABLES: dict[str, Callable[[Results], str]] = {
    "mhat": mhat,
    "adult": lambda results: relative(results, "cofed_adult", "local", ADULT),
    "adult, raw": lambda results: relative(results, "cofed_adult", "raw-local", ADULT),
    "adult by kind": lambda results: by_kind(results, "cofed_adult", ADULT),
    **{
        f"cofed {kind}": lambda results, kind=kind: relative(  # type: ignore[misc]
            results, "cofed_cifar", f"{kind}-local", {f"{kind}-{name}": title for name, title in COFED.items()}
        )
        for kind in ("iid", "non-iid")
    },
    "fedin": lambda results: compared(results, "fedin_cifar", FEDIN_TITLES, FEDIN_PUBLISHED),
    "fedin small": lambda results: compared(
        results,
        "fedin_cifar",
        {f"small-{name}": title for name, title in FEDIN_TITLES.items()},
        {f"small-{name}": number for name, number in SMALL_PUBLISHED.items()},
    ),
    "draftfed": lambda results: compared(results, "draftfed_cifar", DRAFTFED, {"local": "62.76", "draftfed": "64.16"}),
    "perhefed": lambda results: compared(results, "perhefed_cifar", PERHEFED, {"all": "75.4", "half": "61.2"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.tables", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", default=list(TABLES), choices=list(TABLES))
    chosen = parser.parse_args()
    results = Results(chosen.results)
    for name in chosen.only:
        print(f"### {name}\n\n{TABLES[name](results)}\n")


if __name__ == "__main__":
    main()
