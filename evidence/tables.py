"""Turns the results into the tables of docs/evidence.md: the last round, the best one marked as such.

``--write PAGE`` puts each table between its marks in the page, ``<!-- table NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from evidence.experiment import RESULTS
from evidence.fedin_cifar import AGAIN, PRECISIONS
from evidence.outcomes import Outcome, Results, best, final, first_within, gains, last_round, measured, spread
from evidence.titles import (
    ADULT,
    ADULT_KINDS,
    ADULT_RAW,
    COFED,
    COFED_PUBLISHED,
    DRAFTFED,
    FEDIN_BOTH,
    FEDIN_CIFAR_PUBLISHED,
    FEDIN_FASHION_PUBLISHED,
    FEDIN_ROUNDS_PUBLISHED,
    FEDIN_TITLES,
    MHAT_PUBLISHED,
    MHAT_ROUNDS,
    MHAT_SETTINGS,
    NAMES,
    PERHEFED,
    narrow,
    prefixed,
)

MARKED = re.compile(r"(<!-- table (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.S)


def markdown(heading: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def seeds(outcomes: list[Outcome]) -> str:
    return str(len(outcomes)) if outcomes else "–"


def mhat(results: Results) -> str:
    """MHAT's Table 1."""
    rows = []
    for labels, participants in MHAT_SETTINGS:
        for name, title in NAMES.items():
            outcomes = results.until("mhat_mnist", f"{name}-{labels}-{participants}", MHAT_ROUNDS)
            near = spread((first_within(outcome, 0.5) for outcome in outcomes), 1, 0)
            published = MHAT_PUBLISHED.get((name, labels, participants), "–")
            scores = [final(outcomes, 2), best(outcomes, 2), near, published, seeds(outcomes)]
            rows.append([labels, str(participants), title, *scores])
    heading = ["public data", "participants", "method", f"round {MHAT_ROUNDS}", "best round*", "within 0.5 of it"]
    return markdown([*heading, "published*", "seeds"], rows)


def mhat_stopped(results: Results) -> str:
    """The round of the best accuracy, had one stopped sooner."""
    stops = (50, 100, 150, 200)
    rows = []
    for labels, participants in MHAT_SETTINGS:
        for name in ("fd", "mhat"):
            setting = f"{name}-{labels}-{participants}"
            found = [[o for o in results.until("mhat_mnist", setting, stop) if o["seed"] == 0] for stop in stops]
            rows.append([labels, str(participants), NAMES[name], *(best(outcomes, 2) for outcomes in found)])
    return markdown(["public data", "participants", "method", *(f"of {stop}" for stop in stops)], rows)


def mhat_ahead(results: Results) -> str:
    """At how many rounds MHAT is more accurate than FD under the same seed, and the last of them."""
    rows = []
    for labels, participants in MHAT_SETTINGS:
        fd = {outcome["seed"]: measured(outcome) for outcome in results.of("mhat_mnist", f"fd-{labels}-{participants}")}
        for outcome in results.of("mhat_mnist", f"mhat-{labels}-{participants}"):
            other = fd.get(outcome["seed"], {})
            both = {number: score for number, score in measured(outcome).items() if number in other}
            ahead = [number for number, score in both.items() if score > other[number]]
            last = str(max(ahead)) if ahead else "–"
            if both:
                rows.append([labels, str(participants), str(outcome["seed"]), str(len(both)), str(len(ahead)), last])
    return markdown(["public data", "participants", "seed", "rounds", "MHAT ahead in", "the last of them"], rows)


def adult_split(results: Results) -> str:
    """Gains on the census's own columns of those who alone are wrong more often than right, and of all others."""
    reference = {outcome["seed"]: outcome for outcome in results.of("cofed_adult", "raw-local")}
    groups: dict[str, Callable[[float], bool]] = {
        "below 50% alone": lambda score: score < 0.5,
        "all others": lambda score: score >= 0.5,
    }
    rows = []
    for title, belongs in groups.items():
        found: list[list[float]] = []
        kinds: set[str] = set()
        for outcome in results.of("cofed_adult", "raw-cofed"):
            alone = reference[outcome["seed"]]
            names = [name for name, score in alone["participants"].items() if belongs(score)]
            found.append([gains(outcome, alone)[name] for name in names])
            kinds.update(name.rpartition("-")[0] for name in names)
        counted = spread((len(some) for some in found), 1)
        rows.append([title, ", ".join(sorted(kinds)), counted, spread(float(np.mean(some)) for some in found)])
    return markdown(["", "kinds", "participants of 100", "mean gain, %"], rows)


def compared(
    results: Results,
    experiment: str,
    settings: Mapping[str, str],
    last: int,
    published: Mapping[str, str] | None = None,
) -> str:
    """One row for each setting that was played, all at one round; what did not reach it is left out."""
    rows = []
    for name, title in settings.items():
        outcomes = results.until(experiment, name, last)
        if outcomes:
            scores = [final(outcomes), best(outcomes), _megabytes(outcomes)]
            rows.append([title, *scores, (published or {}).get(name, "–"), seeds(outcomes)])
    return markdown(["", f"round {last}", "best round*", "MB up a round", "published", "seeds"], rows)


def _megabytes(outcomes: list[Outcome]) -> str:
    """What a participant sends in a round, when joining is over."""
    return f"{np.mean([outcome['rounds'][-1]['bytes_up'] for outcome in outcomes]) / 1e6:.2f}"


def fedin(results: Results) -> str:
    """FedIN's Table 1, cut off before its end: each run at the last round it reached."""
    rows = []
    for name, title in FEDIN_TITLES.items():
        outcomes = results.of("fedin_cifar", name)
        for number, outcome in enumerate(outcomes, start=1):
            run = title if len(outcomes) == 1 else f"{title}, run {number}"
            there = next((str(reached) for reached, score in measured(outcome).items() if score >= 0.6), "–")
            scores = [final([outcome]), best([outcome]), there]
            where = [str(outcome["seed"]), f"{last_round(outcome)} of 500"]
            rows.append([run, *where, *scores, FEDIN_ROUNDS_PUBLISHED.get(name, "–")])
    heading = ["", "seed", "last measured round", "accuracy there", "best round*", "first at 60% in round", "published"]
    return markdown(heading, rows)


def fedin_again(results: Results) -> str:
    """The first rounds under one seed, again and again: both engines' runs, and beside them those of the table."""
    numbers = (4, 6, 8, 10, 12)
    groups = {
        f"{engine}, {precision}": [
            outcome for number in AGAIN for outcome in results.of("fedin_cifar", f"again-{engine}-{precision}-{number}")
        ]
        for engine in ("serial", "batched")
        for precision in PRECISIONS
    }
    for number, outcome in enumerate(results.of("fedin_cifar", "fedin"), start=1):
        if outcome["seed"] == 0:
            groups[f"run {number}"] = [outcome]
    rows = [[title, *(_span(outcomes, number) for number in numbers)] for title, outcomes in groups.items()]
    return markdown(["", *(f"round {number}" for number in numbers)], rows)


def _span(outcomes: list[Outcome], number: int) -> str:
    """The accuracies of those that were measured in a round, from the least to the most."""
    found = sorted(100 * measured(outcome)[number] for outcome in outcomes if number in measured(outcome))
    return " ".join(f"{score:.1f}" for score in found) or "–"


def by_seed(
    results: Results, experiment: str, settings: Mapping[str, str], last: int, published: Mapping[str, str]
) -> str:
    """What was not played under all seeds: a column for each, so that like is compared with like."""
    found = {name: {o["seed"]: o for o in results.until(experiment, name, last)} for name in settings}
    numbers = sorted({seed for outcomes in found.values() for seed in outcomes})
    rows = [
        [title, *(final([found[name][n]] if n in found[name] else []) for n in numbers), published.get(name, "–")]
        for name, title in settings.items()
        if found[name]
    ]
    return markdown(["", *(f"seed {seed}, round {last}" for seed in numbers), "published"], rows)


def relative(
    results: Results, experiment: str, alone: str, settings: Mapping[str, str], published: Mapping[str, str]
) -> str:
    """Each participant's accuracy over what it has alone: the mean gain, the least, the most, and who gains at all."""
    reference = {outcome["seed"]: outcome for outcome in results.of(experiment, alone)}
    local = final(reference.values())
    rows = [["Local", local, "–", "–", "–", "–", "–", seeds(list(reference.values()))]]
    for name, title in settings.items():
        outcomes = [outcome for outcome in results.of(experiment, name) if outcome["seed"] in reference]
        if outcomes:
            found = [np.array(list(gains(outcome, reference[outcome["seed"]]).values())) for outcome in outcomes]
            rows.append(
                [
                    title,
                    final(outcomes),
                    spread(float(gain.mean()) for gain in found),
                    spread(float(np.median(gain)) for gain in found),
                    f"{100 * min(gain.min() for gain in found):.0f} … {100 * max(gain.max() for gain in found):.0f}",
                    spread((float((gain > 0).mean()) for gain in found), digits=0),
                    published.get(name, "–"),
                    seeds(outcomes),
                ]
            )
    heading = [
        "",
        "accuracy",
        "mean gain, %",
        "median, %",
        "least … most, %",
        "gain at all, %",
        "published gain, %",
        "seeds",
    ]
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


def counted_fedin(results: Results) -> str:
    """FedIN's Table 4."""
    found = results.counts("fedin")
    mean, pairs, sent = found["mean parameters"], found["pairs"], found["mean values sent"]
    rows = [
        ["FedAvg", f"{mean / 1e6:.3f}", f"{sent['FedAvg'] / 1e6:.3f}", "12.28"],
        ["FedIN", f"{(mean + pairs) / 1e6:.3f}", f"{sent['FedIN'] / 1e6:.3f}", "12.35"],
    ]
    return markdown(["", "parameters and features, M", "payload, M values", "published, M"], rows)


def counted_draftfed(results: Results) -> str:
    """Drafts against whole models."""
    published = {"ResNets": "8", "DenseNets": "17"}
    rows = []
    for family, found in results.counts("draftfed").items():
        shares = found["share of the mean model"]
        whole = np.mean(list(found["parameters"].values())) / 1e6
        rows.append([family, f"{whole:.2f}", *(f"{100 * shares[n]:.1f}" for n in ("128", "512")), published[family]])
    return markdown(["", "mean model, M", "128 samples, %", "512 samples, %", "published, %"], rows)


def counted_perhefed(results: Results) -> str:
    """The share of FedAvg's parameters at inter = intra = 0.5."""
    published = {"ResNet34": "0.33", "DenseNet121": "0.42"}
    rows = []
    for name, found in results.counts("perhefed").items():
        drawn = f"{found['mean']:.3f} ± {found['deviation']:.3f}"
        span = f"{found['least']:.2f} … {found['most']:.2f}"
        readings = ("half the layers, half the filters", "half the layers, half the filters of k×k layers only")
        rows.append([name, drawn, span, *(f"{found[reading]:.3f}" for reading in readings), published[name]])
    heading = ["", "over 50 draws", "least … most", "expected", "expected if 1×1 layers travel whole", "published"]
    return markdown(heading, rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "mhat": mhat,
    "mhat stopped sooner": mhat_stopped,
    "mhat ahead": mhat_ahead,
    "mhat slow": lambda results: compared(
        results, "mhat_mnist", {f"{name}-labelled-3-slow": title for name, title in NAMES.items()}, 60
    ),
    "adult": lambda results: relative(results, "cofed_adult", "local", ADULT, {"cofed": "8.5"}),
    "adult raw": lambda results: relative(results, "cofed_adult", "raw-local", ADULT_RAW, {"raw-cofed": "8.5"}),
    "adult raw split": adult_split,
    "adult by kind": lambda results: by_kind(results, "cofed_adult", ADULT_KINDS),
    **{
        f"cofed {kind}": lambda results, kind=kind: relative(  # type: ignore[misc]
            results,
            "cofed_cifar",
            f"{kind}-local",
            {f"{kind}-{name}": title for name, title in COFED.items()},
            COFED_PUBLISHED,
        )
        for kind in ("iid", "non-iid")
    },
    "fedin": fedin,
    "fedin again": fedin_again,
    "fedin small": lambda results: by_seed(
        results, "fedin_cifar", prefixed("small-", FEDIN_TITLES), 15, prefixed("small-", FEDIN_CIFAR_PUBLISHED)
    ),
    "fedin small fashion": lambda results: by_seed(
        results,
        "fedin_cifar",
        prefixed("small-fashion-", FEDIN_TITLES),
        15,
        prefixed("small-fashion-", FEDIN_FASHION_PUBLISHED),
    ),
    "fedin narrow": lambda results: compared(
        results, "fedin_cifar", narrow(FEDIN_TITLES), 15, narrow(FEDIN_FASHION_PUBLISHED)
    ),
    "fedin partial": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_BOTH, "partial-"), 75),
    "fedin longer": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_BOTH, "longer-"), 25),
    "fedin narrow cifar": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "cifar-"), 25),
    "fedin trained": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "trained-"), 15),
    "fedin trained cifar": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "cifar-trained-"), 25),
    "draftfed": lambda results: compared(
        results, "draftfed_cifar", DRAFTFED, 20, {"local": "62.76", "draftfed": "64.16"}
    ),
    "draftfed narrow": lambda results: compared(results, "draftfed_cifar", narrow(DRAFTFED), 20),
    "perhefed": lambda results: compared(results, "perhefed_cifar", PERHEFED, 20, {"all": "75.4", "half": "61.2"}),
    "perhefed narrow": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED), 20),
    "perhefed narrow cifar": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED, "cifar-"), 20),
    "fedin counts": counted_fedin,
    "draftfed counts": counted_draftfed,
    "perhefed counts": counted_perhefed,
}


def filled(page: str, results: Results) -> str:
    """The page with every marked table as the results make it."""
    return MARKED.sub(lambda found: f"{found[1]}{TABLES[found['name']](results)}\n{found[3]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.tables", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into a page")
    chosen = parser.parse_args()
    results = Results(chosen.results)
    if chosen.write:
        chosen.write.write_text(filled(chosen.write.read_text(), results))
        return
    for name in chosen.only:
        print(f"### {name}\n\n{TABLES[name](results)}\n")


if __name__ == "__main__":
    main()
