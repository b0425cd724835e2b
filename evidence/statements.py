"""What each of the papers' tables and figures says, put to the results; how many statements hold is its verdict."""

from __future__ import annotations

from collections.abc import Callable

from evidence.checks import (
    Check,
    Found,
    Statement,
    accuracy,
    ahead,
    counted,
    everyone_gains,
    larger_gain,
    largest_gain,
    level,
    mean_gain,
    near,
    rounds_near,
    sooner,
    unplayed,
)
from evidence.comparisons import markdown
from evidence.outcomes import Results


def _share(family: str, samples: str) -> Callable[[Results], float]:
    return lambda results: float(100 * results.read("counts.draftfed")[family]["mean of the devices' shares"][samples])


def _sent(network: str) -> Callable[[Results], float]:
    return lambda results: float(results.read("counts.draftfed")["DenseNets"]["values sent"]["128"][network])


def _drawn(network: str, of: str = "mean") -> Callable[[Results], float]:
    return lambda results: float(results.read("counts.perhefed")[network][of])


def _single_draw(network: str, published: float) -> Check:
    """Whether one draw of layers and filters can give it: within two deviations of the mean over draws."""

    def check(results: Results) -> Found:
        found = results.read("counts.perhefed")[network]
        mean, deviation = found["mean"], found["deviation"]
        return Found(f"{mean:.3f} ± {deviation:.3f}", abs(published - mean) <= 2 * deviation)

    return check


def _table_4(pairs: bool) -> Callable[[Results], float]:
    def read(results: Results) -> float:
        found = results.read("counts.fedin")
        return float((found["mean parameters"] + (found["pairs"] if pairs else 0)) / 1e6)

    return read


def sent_in_a_round(method: str) -> Callable[[Results], float]:
    """Millions of values that a participant sent in the last round of FedIN's Table 4 as it is played."""

    def read(results: Results) -> float:
        (run,) = results.runs(f"fedin-table-4.small.{method}").values()
        return float(run["about"]["measures"]["M values sent"])

    return read


D, P, M, F = "draftfed_cifar.", "perhefed_cifar.", "mhat_mnist.", "fedin_cifar."
ADULT, IID, NON_IID = (
    ("cofed_adult.cofed", "cofed_adult.local"),
    ("cofed_cifar.iid-cofed", "cofed_cifar.iid-local"),
    ("cofed_cifar.non-iid-cofed", "cofed_cifar.non-iid-local"),
)
LEVELS = {("labelled", 3): 94.8, ("labelled", 20): 95.0, ("unlabelled", 3): 93.8, ("unlabelled", 20): 94.5}
"""The accuracy to which MHAT's and FD's rounds are counted: one that all runs reach."""
MHAT_NEAR = 0.3
"""Points: so near to the published accuracy came back."""


def _mhat_is_sooner(labels: str, participants: int) -> Statement:
    score = LEVELS[labels, participants]
    return Statement(
        f"MHAT takes fewer rounds than FD ({labels}, {participants}; here to {score}%)",
        sooner(f"{M}mhat-{labels}-{participants}", f"{M}fd-{labels}-{participants}", score, 0.9),
    )


def _mhat_accuracy(method: str, labels: str, participants: int, published: float) -> Statement:
    return Statement(
        f"{method.upper()}, {labels}, {participants}: {published}% (within {MHAT_NEAR})",
        near(accuracy(f"{M}{method}-{labels}-{participants}"), published, MHAT_NEAR, 2),
    )


STATEMENTS: dict[str, list[Statement]] = {
    "DraftFed, Table I": [
        Statement(
            "DraftFed sends 2,228,352 values (DenseNet121, within 1%)",
            counted(_sent("densenet121"), 2_228_352, 22_284, 0),
        ),
    ],
    "DraftFed, Table II": [
        Statement("ResNets: DraftFed is above Local", ahead(f"{D}draftfed", f"{D}local")),
        Statement("ResNets: Local has 62.76% (within 2)", near(accuracy(f"{D}local"), 62.76, 2)),
        Statement("ResNets: DraftFed has 64.16% (within 2)", near(accuracy(f"{D}draftfed"), 64.16, 2)),
        Statement("DraftFed is above FedProto, FedMD, FedPer; DenseNets likewise", unplayed),
    ],
    "DraftFed, Table III": [
        Statement(
            "ResNets send 8% of FedAvg, at the text's 512 samples (within 1)",
            counted(_share("ResNets", "512"), 8, 1, 1),
        ),
        Statement("the same at 128 samples", counted(_share("ResNets", "128"), 8, 1, 1)),
        Statement("DenseNets send 17%, at 512 samples (within 1)", counted(_share("DenseNets", "512"), 17, 1, 1)),
        Statement("the same at 128 samples", counted(_share("DenseNets", "128"), 17, 1, 1)),
    ],
    "DraftFed, Table V": [
        Statement("all three losses are above the logits' alone", ahead(f"{D}draftfed", f"{D}draftfed-logits")),
        Statement("the same, narrow, Fashion-MNIST", ahead(f"{D}narrow-draftfed", f"{D}narrow-draftfed-logits")),
        Statement("five other combinations", unplayed),
    ],
    "DraftFed, Figure 6": [
        Statement("DraftFed is above Local by rounds", ahead(f"{D}draftfed", f"{D}local", (4, 20))),
        Statement("and above FedProto, FedMD, FedPer", unplayed),
    ],
    "DraftFed, Figure 8": [
        Statement(
            "global CIFAR-100: DraftFed is above Local",
            ahead(f"{D}narrow-cifar-draftfed-cifar100", f"{D}narrow-cifar-local"),
        ),
        Statement(
            "global SVHN: DraftFed is above Local", ahead(f"{D}narrow-cifar-draftfed-svhn", f"{D}narrow-cifar-local")
        ),
        Statement("sizes of the global set; FedMD, FedProto", unplayed),
    ],
    "PerHeFed, Table 2": [
        Statement("all layers are above half of the layers", ahead(f"{P}all", f"{P}half")),
        Statement("CIFAR-10, all layers: 75.4% (within 2)", near(accuracy(f"{P}all"), 75.4, 2)),
        Statement("CIFAR-10, half of the layers: 61.2% (within 2)", near(accuracy(f"{P}half"), 61.2, 2)),
        Statement("SVHN; four ratios between", unplayed),
    ],
    "PerHeFed, Figure 5": [
        Statement("0.33 of the parameters on average (within 0.02)", counted(_drawn("ResNet34"), 0.33, 0.02, 3)),
        Statement("0.33 in a single draw (within two deviations)", _single_draw("ResNet34", 0.33)),
        Statement("the rest of the grid", unplayed),
    ],
    "PerHeFed, Figure 6": [
        Statement("0.42 of the parameters on average (within 0.02)", counted(_drawn("DenseNet121"), 0.42, 0.02, 3)),
        Statement(
            "the same if 1×1 layers travel whole",
            counted(_drawn("DenseNet121", "half the layers, half the filters of k×k layers only"), 0.42, 0.02, 3),
        ),
        Statement("the rest of the grid", unplayed),
    ],
    "PerHeFed, Figure 9": [
        Statement("CIFAR-10, all layers: level with FedAvg (within 1)", level(f"{P}all", f"{P}fedavg", 1)),
        Statement("level with FLOP; SVHN", unplayed),
    ],
    "MHAT, Table 1": [
        _mhat_accuracy("mhat", "labelled", 3, 95.19),
        _mhat_accuracy("fd", "labelled", 3, 95.29),
        _mhat_accuracy("mhat", "labelled", 20, 95.32),
        _mhat_accuracy("fd", "labelled", 20, 95.38),
        _mhat_accuracy("mhat", "unlabelled", 3, 93.88),
        _mhat_accuracy("fd", "unlabelled", 3, 93.89),
        _mhat_accuracy("mhat", "unlabelled", 20, 94.23),
        _mhat_accuracy("fd", "unlabelled", 20, 94.72),
        *(_mhat_is_sooner(*setting) for setting in LEVELS),
    ],
    "MHAT, Figure 4": [
        Statement(
            "20 participants are above 3, labelled", ahead(f"{M}mhat-labelled-20", f"{M}mhat-labelled-3", None, 2)
        ),
        _mhat_accuracy("mhat", "labelled", 3, 95.19),
        _mhat_accuracy("mhat", "labelled", 20, 95.32),
    ],
    "MHAT, Figure 5": [
        Statement(
            "MHAT and FD end level (within 0.6), labelled, 20",
            level(f"{M}mhat-labelled-20", f"{M}fd-labelled-20", 0.6, None, 2),
        ),
        _mhat_is_sooner("labelled", 20),
    ],
    "MHAT, Figure 6": [
        Statement(
            "MHAT and FD end level (within 0.6), unlabelled, 3",
            level(f"{M}mhat-unlabelled-3", f"{M}fd-unlabelled-3", 0.6, None, 2),
        ),
        Statement("the same with 20", level(f"{M}mhat-unlabelled-20", f"{M}fd-unlabelled-20", 0.6, None, 2)),
        _mhat_is_sooner("unlabelled", 3),
        _mhat_is_sooner("unlabelled", 20),
    ],
    "FedIN, Table 1": [
        Statement("CIFAR-10, non-IID: FedIN has 60% after 54 rounds (within 10)", rounds_near(f"{F}fedin", 60, 54, 10)),
        Statement("FedAvg has it after 109 (within 20)", rounds_near(f"{F}fedavg", 60, 109, 20)),
        Statement("FedIN is above FedAvg (rounds 4 to 52)", ahead(f"{F}fedin", f"{F}fedavg", (4, 52))),
        Statement("ten other methods, IID, the other sets, 500 rounds", unplayed),
    ],
    "FedIN, Table 2b": [
        Statement("FedIN is above FedAvg (20 ResNets, 15 rounds)", ahead(f"{F}small-fedin", f"{F}small-fedavg")),
        Statement(
            "the same (10 narrow, Fashion-MNIST, rounds 201 to 500)",
            ahead(f"{F}narrow-long-fedin", f"{F}narrow-long-fedavg", (201, 500)),
        ),
        Statement(
            "without Prox is level with FedAvg (within 1; as the last)",
            level(f"{F}narrow-long-without-prox", f"{F}narrow-long-fedavg", 1, (201, 500)),
        ),
        Statement(
            "without IN is above FedAvg (as the last)",
            ahead(f"{F}narrow-long-without-in", f"{F}narrow-long-fedavg", (201, 500)),
        ),
        Statement("Opt gains (10 narrow, 15 rounds)", ahead(f"{F}narrow-fedin", f"{F}narrow-without-opt")),
    ],
    "FedIN, Table 4": [
        Statement("FedAvg sends 12.28 M (within 0.1%)", counted(_table_4(False), 12.28, 0.0123, 3)),
        Statement("FedIN sends 12.35 M (within 0.1%)", counted(_table_4(True), 12.35, 0.0124, 3)),
        Statement("SCAFFOLD sends 24.56 M (within 0.2%)", counted(sent_in_a_round("SCAFFOLD"), 24.56, 0.0491, 3)),
        Statement("MOON sends 12.28 M (within 0.2%)", counted(sent_in_a_round("MOON"), 12.28, 0.0246, 3)),
        Statement("HeteroFL, FedRolex; memory", unplayed),
    ],
    "FedIN, Table 6": [
        Statement(
            "0.8σ is level with none (within 1; narrow, Fashion-MNIST)",
            level(f"{F}narrow-noise-0.8", f"{F}narrow-fedin", 1),
        ),
        Statement(
            "2σ costs little (within 3; likewise; published: 1.6)", level(f"{F}narrow-noise-2.0", f"{F}narrow-fedin", 3)
        ),
        Statement("5σ costs (likewise; published: 20.9)", ahead(f"{F}narrow-fedin", f"{F}narrow-noise-5.0")),
        Statement("four other levels, SVHN", unplayed),
    ],
    "FedIN, Figure 5": [
        Statement("FedIN is above FedAvg (rounds 4 to 52)", ahead(f"{F}fedin", f"{F}fedavg", (4, 52))),
        Statement("later rounds; other methods", unplayed),
    ],
    "FedIN, Figure 9": [
        Statement(
            "without Prox is level with without IN (within 1) to round 200 (10 narrow)",
            level(f"{F}narrow-long-without-prox", f"{F}narrow-long-without-in", 1, (1, 200)),
        ),
        Statement(
            "after it FedIN is above without Prox (likewise)",
            ahead(f"{F}narrow-long-fedin", f"{F}narrow-long-without-prox", (201, 500)),
        ),
        Statement("FedIN is above without Opt", unplayed),
    ],
    "CoFED, Figure 2": [
        Statement("IID: everyone gains", everyone_gains(*IID)),
        Statement("IID: 17.3% on average (within 2)", near(mean_gain(*IID), 17.3, 2)),
        Statement("non-IID: everyone gains", everyone_gains(*NON_IID)),
        Statement("non-IID: 35.6% on average (within 2)", near(mean_gain(*NON_IID), 35.6, 2)),
        Statement("the gain is larger non-IID", larger_gain(NON_IID, IID)),
    ],
    "CoFED, Figure 9": [
        Statement("8.5% on average (within 2)", near(mean_gain(*ADULT), 8.5, 2)),
        Statement("the largest gain is above 25%", largest_gain(*ADULT, 25)),
    ],
}


def statements(results: Results, paper: str) -> str:
    """What one paper says, what came out, and whether that is so."""
    names = {True: "yes", False: "no", None: "not told apart"}
    rows = []
    for item, listed in STATEMENTS.items():
        if item.startswith(f"{paper}, "):
            for statement in listed:
                found = statement.check(results)
                holds = "–" if statement.check is unplayed else names[found.holds]
                rows.append([item.removeprefix(f"{paper}, "), statement.says, found.text, holds])
    return markdown(["", "the paper", "here", "holds"], rows)
