"""The claims of FedIN's page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evidence.checks import rounds_to
from evidence.claims.kinds import Claims, Value, claim, difference, every, sign
from evidence.differences import Rounds, paired
from evidence.fedin_cifar import AGAIN, PRECISIONS
from evidence.outcomes import Results, first_at, last_round, measured

F, N = "fedin_cifar.", "fedin_cifar.narrow-"
LONG, LATE = "fedin_cifar.narrow-long-", (201, 500)


def _fedin(one: str, other: str, rounds: Rounds | None = None, prefix: str = "") -> Value:
    return difference(f"fedin_cifar.{prefix}{one}", f"fedin_cifar.{prefix}{other}", rounds)


def _not_there(results: Results) -> str:
    """The last round of the one FedAvg run that is not at 60%."""
    (run,) = (run for run in results.runs("fedin_cifar.fedavg").values() if first_at(run, 0.6, 5) is None)
    return str(last_round(run))


def _at_60(setting: str, index: int) -> Value:
    def found(results: Results) -> str:
        there = [number for number in rounds_to(f"fedin_cifar.{setting}", 60)(results) if number is not None]
        return str(there[index])

    return found


def _nudged(results: Results) -> str:
    moved = [
        paired(results, f"fedin_cifar.narrow-cifar-{name}-nudged", f"fedin_cifar.narrow-cifar-{name}", (5, 25)).mean
        for name in ("fedin", "fedavg")
    ]
    return f"{max(map(abs, moved)):.1f}"


def _prox_weighs(width: str, steps: str) -> Value:
    return lambda results: (
        f"{np.mean([one[steps]['ratio of gradients'] for one in results.read('proximal')[width]]):.3f}"
    )


def _counted_fedin(what: str) -> Value:
    return lambda results: f"{results.read('counts.fedin')[what] / 1e6:.3f}"


def _round_8(engine: str) -> Callable[[Results], list[float]]:
    """What the runs of an engine have in round 8, in percent."""

    def found(results: Results) -> list[float]:
        names = [f"again-{engine}-{precision}-{number}" for precision in PRECISIONS for number in AGAIN]
        runs = [measured(run) for name in names for run in results.of("fedin_cifar", name)]
        return [100 * scores[8] for scores in runs if 8 in scores]

    return found


def _engines_overlap(results: Results) -> bool:
    one, other = _round_8("serial")(results), _round_8("batched")(results)
    return min(max(one) - min(one), max(other) - min(other)) > 3 and max(min(one), min(other)) < min(
        max(one), max(other)
    )


CLAIMS = Claims(
    numbers=[
        claim("60% after {}, {} and {} rounds; published", *(_at_60("fedin", index) for index in range(3))),
        claim("there after {} and {} under", *(_at_60("fedavg", index) for index in range(2))),
        claim("in its {} rounds;", _not_there),
        claim("with it {} points from it", _fedin("fedin", "fedavg", (4, 52))),
        claim("without it is {} in rounds 101 to 120", _fedin("fedin", "without-prox", (101, 120))),
        claim("by up to {} points (table", _nudged),
        claim("Prox costs: FedIN is {} points", _fedin("fedin", "without-prox", None, "small-")),
        claim("weaker gains {} points", _fedin("prox-0.005", "fedin", None, "small-")),
        claim("training gains**: {} points", _fedin("fedin", "without-in", None, "narrow-")),
        claim("FedIN is {} above", _fedin("fedin", "fedavg", None, "half-")),
        claim(
            "5σ cost {} and {} points, far",
            *(_fedin(f"noise-{level}", "fedin", None, "narrow-") for level in (2.0, 5.0)),
        ),
        claim("Prox weighs {} of the", _prox_weighs("8", "25 steps")),
        claim("and {} in a full one", _prox_weighs("64", "150 steps")),
        claim("it does: {} from FedIN", _fedin("prox-0.5", "fedin", None, "half-")),
        claim("its cost of {} has zero", _fedin("prox-0.5", "fedin", None, "narrow-")),
        claim("alone FedIN is {} points above FedAvg", _fedin("own-statistics", "fedavg", (5, 25), "narrow-cifar-")),
        claim("rounds**: {} points over", _fedin("fedin", "fedavg", (1, 100), "narrow-long-")),
        claim("hundred, {} after round 200", _fedin("fedin", "fedavg", (201, 500), "narrow-long-")),
        claim("FedIN without Prox is {} points ahead", _fedin("without-prox", "fedavg", (201, 500), "narrow-long-")),
        claim("after round 200, {}, has zero", _fedin("fedin", "without-prox", (201, 500), "narrow-long-")),
        claim(
            "slower so**, {} points in rounds 4 to 52",
            difference("fedin_cifar.parameters-fedavg", "fedin_cifar.fedavg", (4, 52)),
        ),
        claim(
            "it is better, {} points after round 200",
            difference("fedin_cifar.narrow-long-parameters-fedavg", "fedin_cifar.narrow-long-fedavg", (201, 500)),
        ),
        claim("five ResNets has {} M", _counted_fedin("mean parameters")),
        claim("pairs adds {} M", _counted_fedin("pairs")),
    ],
    words=[
        (
            "Within each engine runs differ by several points in round 8, and the engines' ranges overlap",
            _engines_overlap,
        ),
        (
            "IN training alone brings most of it",
            lambda results: (
                paired(results, f"{LONG}without-prox", f"{LONG}fedavg", LATE).mean
                > 0.5 * paired(results, f"{LONG}fedin", f"{LONG}fedavg", LATE).mean
            ),
        ),
        (
            "which under two of three seeds is at 60% in less than half of the published rounds",
            lambda results: [bool(at and at < 109 / 2) for at in rounds_to(f"{F}fedavg", 60)(results)].count(True) == 2,
        ),
        ("without Prox the two are not told apart", sign(f"{F}without-prox", f"{F}fedavg", (4, 52))),
        (
            "In narrow and half as wide ones no cost is told apart from none",
            every(*(sign(f"{F}{kind}-fedin", f"{F}{kind}-without-prox") for kind in ("narrow", "half"))),
        ),
        ("it is not told apart from FedAvg in the first hundred", sign(f"{LONG}fedin", f"{LONG}fedavg", (1, 100))),
        ("and ahead after round 200", sign(f"{LONG}fedin", f"{LONG}fedavg", LATE, 1)),
        (
            "Neither FedIN without Prox, nor without IN, nor FedIN itself is told apart from FedAvg",
            every(*(sign(f"{F}small-{one}", f"{F}small-fedavg") for one in ("without-prox", "without-in", "fedin"))),
        ),
        (
            "That FedIN is then highest under each seed",
            lambda results: all(
                value > 0
                for other in ("fedavg", "without-in", "without-prox", "fedin")
                for value in paired(results, f"{F}small-prox-0.005", f"{F}small-{other}").seeds.values()
            ),
        ),
        ("narrow, its lead has zero in its interval", sign(f"{N}fedin", f"{N}fedavg")),
        (
            "does no harm that is told apart from none, as published",
            every(*(sign(f"{N}noise-{level}", f"{N}fedin") for level in (0.2, 0.8))),
        ),
        ("Eq. 12 ends below Local under every seed", sign(f"{N}exact", f"{N}local", None, -1)),
        ("A tenth of the factor helps full ResNets", sign(f"{F}small-prox-0.005", f"{F}small-fedin", None, 1)),
        (
            "FedIN's lead in the own networks is clear with Fashion-MNIST",
            sign(f"{N}trained-fedin", f"{N}trained-fedavg", None, 1),
        ),
        (
            "in all other steps of three seeds the two are not told apart",
            every(
                sign(f"{N}partial-fedin", f"{N}partial-fedavg"),
                sign(f"{N}longer-fedin", f"{N}longer-fedavg"),
                sign(f"{N}cifar-fedin", f"{N}cifar-fedavg", (5, 25)),
                sign(f"{N}cifar-trained-fedin", f"{N}cifar-trained-fedavg", (5, 25)),
            ),
        ),
        (
            "Prox ten times stronger does no harm that is told apart from none",
            sign(f"{LONG}prox-0.5", f"{LONG}fedin", LATE),
        ),
        (
            "and no run is at 60%",
            lambda results: (
                not any(
                    at
                    for one in ("fedavg", "fedin", "without-prox")
                    for at in rounds_to(f"{F}parameters-{one}", 60)(results)
                )
            ),
        ),
        (
            "FedIN's lead is there half as wide and, after round 200, narrow",
            every(
                sign(f"{F}half-parameters-fedin", f"{F}half-parameters-fedavg", None, 1),
                sign(f"{LONG}parameters-fedin", f"{LONG}parameters-fedavg", LATE, 1),
            ),
        ),
    ],
    given=(
        "2e-7 0.05 0.1 0.2 0.5 0.8 0.9 1 1.6 2 5 8 9.7 10 12 12.28 15 16 20 20.9 25 54 60 72 75 100 109 150 200 500"
    ),
)
