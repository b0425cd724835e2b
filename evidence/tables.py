"""Turns the results into the tables of the evidence's pages: the last round, the best one marked as such."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from evidence import pairs
from evidence.checks import rounds_to
from evidence.comparisons import by_kind, by_seed, compared, markdown, relative, runs, seeds, stretches
from evidence.differences import differences
from evidence.experiment import kind
from evidence.fedin_cifar import AGAIN, PRECISIONS
from evidence.outcomes import Outcome, Results, best, final, first_at, gains, last_round, measured, spread
from evidence.result_files import RESULTS
from evidence.rows import all_rows
from evidence.statements import LEVELS, sent_in_a_round, statements
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
    FEDIN_LONG_STRETCHES,
    FEDIN_NARROW_STRETCHES,
    FEDIN_PARAMETERS_STRETCHES,
    FEDIN_ROUNDS_PUBLISHED,
    FEDIN_SENT_PUBLISHED,
    FEDIN_STRETCHES,
    FEDIN_TITLES,
    MHAT_PUBLISHED,
    MHAT_ROUNDS,
    MHAT_SETTINGS,
    NAMES,
    PERHEFED,
    PERHEFED_PUBLISHED,
    PROXIMAL_DIGITS,
    narrow,
    prefixed,
)

PAPERS = ("CoFED", "DraftFed", "FedIN", "MHAT", "PerHeFed")


def mhat(results: Results) -> str:
    """MHAT's Table 1."""
    rows = []
    for labels, participants in MHAT_SETTINGS:
        for name, title in NAMES.items():
            outcomes = results.until("mhat_mnist", f"{name}-{labels}-{participants}", MHAT_ROUNDS)
            published = MHAT_PUBLISHED.get((name, labels, participants), "–")
            rows.append(
                [labels, str(participants), title, final(outcomes, 2), best(outcomes, 2), published, seeds(outcomes)]
            )
    heading = ["public data", "participants", "method", f"round {MHAT_ROUNDS}", "best round*", "published*", "seeds"]
    return markdown(heading, rows)


def mhat_rounds(results: Results) -> str:
    """Rounds to a fixed accuracy, the same for both methods, seed by seed."""
    rows = []
    for (labels, participants), score in LEVELS.items():
        fd, mhat = (rounds_to(f"mhat_mnist.{name}-{labels}-{participants}", score)(results) for name in ("fd", "mhat"))
        times = [late / early for early, late in zip(fd, mhat, strict=True) if early and late]
        cells = [" ".join(str(number or "–") for number in found) for found in (fd, mhat)]
        rows.append([labels, str(participants), f"{score}", *cells, f"{min(times):.1f} … {max(times):.1f}"])
    return markdown(["public data", "participants", "to, %", "FD, by seed", "MHAT, by seed", "MHAT over FD"], rows)


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
            kinds.update(kind(name) for name in names)
        counted = spread((len(some) for some in found), 1)
        rows.append([title, ", ".join(sorted(kinds)), counted, spread(float(np.mean(some)) for some in found)])
    return markdown(["", "kinds", "participants of 100", "mean gain, %"], rows)


def fedin(results: Results, prefix: str = "") -> str:
    """FedIN's Table 1, cut off before its end: each run at the last round it reached."""
    published = prefixed(prefix, FEDIN_ROUNDS_PUBLISHED)
    rows = []
    for title, outcome in runs(results, "fedin_cifar", prefixed(prefix, FEDIN_TITLES)):
        there = [str(first_at(outcome, 0.6, over) or "–") for over in (1, 5)]
        where = [str(outcome["seed"]), str(last_round(outcome))]
        rows.append([title, *where, final([outcome]), best([outcome]), *there, published.get(outcome["setting"], "–")])
    heading = [
        "",
        "seed",
        "last measured round",
        "accuracy there",
        "best round*",
        "touches 60%",
        "is at 60%",
        "published",
    ]
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


def counted_fedin(results: Results) -> str:
    """FedIN's Table 4."""
    found = results.read("counts.fedin")
    mean, pairs, sent = found["mean parameters"], found["pairs"], found["mean values sent"]
    counted = {
        "FedAvg": [f"{mean / 1e6:.3f}", f"{sent['FedAvg'] / 1e6:.3f}"],
        "FedIN": [f"{(mean + pairs) / 1e6:.3f}", f"{sent['FedIN'] / 1e6:.3f}"],
    }
    rows = [
        [name, *counted.get(name, ["–", "–"]), f"{sent_in_a_round(name)(results):.3f}", published]
        for name, published in FEDIN_SENT_PUBLISHED.items()
    ]
    heading = [
        "",
        "parameters and features, M",
        "payload, M values",
        "the same in a round that was played",
        "published, M",
    ]
    return markdown(heading, rows)


def proximal_by_width(results: Results) -> str:
    """What FedIN's Prox weighs beside the cross-entropy, in networks of different width."""
    found = results.read("proximal")
    columns = [(when, name) for when, scores in next(iter(found.values()))[0].items() for name in scores]
    rows = [
        [width, *(spread((one[when][name] for one in by_seeds), 1, PROXIMAL_DIGITS[name]) for when, name in columns)]
        for width, by_seeds in found.items()
    ]
    return markdown(["filters in the first stage", *(f"{name}, {when}" for when, name in columns)], rows)


def tuned_mhat(results: Results) -> str:
    """What MHAT's rates were chosen from."""
    rows = [
        [
            one["method"].upper(),
            "labelled" if one["labelled"] else "unlabelled",
            str(one["lr"]),
            str(one["server"] or "–"),
            f"{100 * one['accuracy']:.2f}",
        ]
        for one in results.read("tune.mhat")
    ]
    return markdown(["", "public data", "rate", "rate at the server", "one run"], rows)


def tuned_adult(results: Results) -> str:
    """What Adult's settings were chosen from."""
    networks = [one for one in results.read("tune.adult") if one["method"] == "local"]
    votes = [one for one in results.read("tune.adult") if one["method"] == "cofed"]
    rows = [
        *([f"networks, rate {one['lr']}, {one['epochs']} epochs", one["by kind"]["network"]] for one in networks),
        *([f"CoFED, α = {one['alpha']}{', class weights' * one['weighted']}", one["accuracy"]] for one in votes),
    ]
    return markdown(["", "one run"], ([title, f"{100 * score:.2f}"] for title, score in rows))


def counted_draftfed(results: Results) -> str:
    """Drafts against whole models."""
    published = {"ResNets": "8", "DenseNets": "17"}
    rows = []
    for family, found in results.read("counts.draftfed").items():
        readings = ("share of the mean model", "mean of the devices' shares")
        shares = [f"{100 * found[reading][samples]:.1f}" for samples in ("128", "512") for reading in readings]
        rows.append([family, *shares, published[family]])
    titles = [f"{reading}, {n} samples, %" for n in (128, 512) for reading in ("of the mean model", "mean of shares")]
    return markdown(["", *titles, "published, %"], rows)


def counted_perhefed(results: Results) -> str:
    """The share of FedAvg's parameters at inter = intra = 0.5."""
    published = {"ResNet34": "0.33", "DenseNet121": "0.42"}
    rows = []
    for name, found in results.read("counts.perhefed").items():
        drawn = f"{found['mean']:.3f} ± {found['deviation']:.3f}"
        span = f"{found['least']:.2f} … {found['most']:.2f}"
        readings = ("half the layers, half the filters", "half the layers, half the filters of k×k layers only")
        rows.append([name, drawn, span, *(f"{found[reading]:.3f}" for reading in readings), published[name]])
    heading = ["", "over 50 draws", "least … most", "expected", "expected if 1×1 layers travel whole", "published"]
    return markdown(heading, rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "mhat": mhat,
    "mhat rounds": mhat_rounds,
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
    "fedin stretches": lambda results: stretches(results, "fedin_cifar", FEDIN_TITLES, FEDIN_STRETCHES),
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
    "fedin half": lambda results: compared(results, "fedin_cifar", prefixed("half-", FEDIN_TITLES), 15),
    "fedin proximal": proximal_by_width,
    "fedin narrow": lambda results: compared(
        results, "fedin_cifar", narrow(FEDIN_TITLES), 15, narrow(FEDIN_FASHION_PUBLISHED)
    ),
    "fedin partial": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_BOTH, "partial-"), 75),
    "fedin longer": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_BOTH, "longer-"), 25),
    "fedin narrow cifar": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "cifar-"), 25),
    "fedin whole": lambda results: stretches(
        results, "fedin_cifar", narrow(FEDIN_TITLES, "whole-"), FEDIN_NARROW_STRETCHES
    ),
    "fedin long": lambda results: stretches(
        results, "fedin_cifar", narrow(FEDIN_TITLES, "long-"), FEDIN_LONG_STRETCHES
    ),
    "fedin half parameters": lambda results: compared(
        results, "fedin_cifar", prefixed("half-parameters-", FEDIN_TITLES), 15
    ),
    "fedin parameters": lambda results: fedin(results, "parameters-"),
    "fedin parameters stretches": lambda results: stretches(
        results, "fedin_cifar", prefixed("parameters-", FEDIN_TITLES), FEDIN_PARAMETERS_STRETCHES
    ),
    "fedin long parameters": lambda results: stretches(
        results, "fedin_cifar", narrow(FEDIN_TITLES, "long-parameters-"), FEDIN_LONG_STRETCHES
    ),
    "fedin trained": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "trained-"), 15),
    "fedin trained cifar": lambda results: compared(results, "fedin_cifar", narrow(FEDIN_TITLES, "cifar-trained-"), 25),
    "fedin trained whole": lambda results: stretches(
        results, "fedin_cifar", narrow(FEDIN_TITLES, "whole-trained-"), FEDIN_NARROW_STRETCHES[:1]
    ),
    "draftfed": lambda results: compared(
        results, "draftfed_cifar", DRAFTFED, 20, {"local": "62.76", "draftfed": "64.16"}
    ),
    "draftfed narrow": lambda results: compared(results, "draftfed_cifar", narrow(DRAFTFED), 20),
    "draftfed narrow cifar": lambda results: compared(results, "draftfed_cifar", narrow(DRAFTFED, "cifar-"), 20),
    "perhefed": lambda results: compared(results, "perhefed_cifar", PERHEFED, 20, PERHEFED_PUBLISHED),
    "perhefed narrow": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED), 20),
    "perhefed narrow cifar": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED, "cifar-"), 20),
    "perhefed long": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED, "long-"), 200),
    "perhefed whole": lambda results: compared(results, "perhefed_cifar", narrow(PERHEFED, "whole-"), 200),
    "fedin counts": counted_fedin,
    "draftfed counts": counted_draftfed,
    "perhefed counts": counted_perhefed,
    "tuning": tuned_mhat,
    "tuning adult": tuned_adult,
    "all rows": all_rows,
    **{
        f"{paper.lower()} statements": lambda results, paper=paper: statements(results, paper)  # type: ignore[misc]
        for paper in PAPERS
    },
    "mhat differences": lambda results: differences(results, pairs.MHAT, 2),
    **{
        f"{name} differences": lambda results, listed=listed: differences(results, listed)  # type: ignore[misc]
        for name, listed in {
            "draftfed": pairs.DRAFTFED,
            "perhefed": pairs.PERHEFED,
            "perhefed narrow": pairs.PERHEFED_NARROW,
            "perhefed long": pairs.PERHEFED_LONG,
            "fedin": pairs.FEDIN,
            "fedin small": pairs.FEDIN_SMALL,
            "fedin narrow": pairs.FEDIN_NARROW,
            "fedin steps": pairs.FEDIN_STEPS,
            "fedin long": pairs.FEDIN_LONG,
            "fedin home": pairs.FEDIN_HOME,
        }.items()
    },
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
