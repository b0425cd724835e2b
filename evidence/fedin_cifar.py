"""FedIN against layer-wise FedAvg on CIFAR-10 (section 5): towards Table 1, and Tables 2b and 6 at reduced scale.

Table 1's setting: 100 participants, 20 each of five ResNets, batches of 16, 5 epochs, Adam with its default rate. The
paper does not say how many take part in a round; here it is 10%, as in the same authors' InCo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import potluck
from evidence.experiment import Data, Maker, Setup, run
from evidence.images import balanced, half, narrow, nudged, people
from evidence.whose import NotedFedAvg, NotedFedIN, ParametersFedAvg, ParametersFedIN, measured_for
from potluck.methods import FedAvg, FedIN, Local
from potluck.models import resnet

DEPTHS = (10, 14, 18, 22, 26)
PLAN = potluck.Plan(lr=1e-3, epochs=5, batch_size=16)

FEDAVG = FedAvg(aggregation="layerwise", weighting="uniform")
"""The mean that FedIN takes, so that only what FedIN adds differs."""


def table(
    data: Data,
    seed: int,
    method: potluck.Method,
    each: int = 20,
    dealt: int | None = None,
    images: int | None = None,
    participation: float = 0.1,
    rounds: int = 500,
    every: int = 2,
    alpha: float | None = 0.5,
    saving: float = 45.0,
    depths: tuple[int, ...] = DEPTHS,
    plan: potluck.Plan = PLAN,
    source: str = "cifar10",
    build: Callable[..., Any] = resnet,
    engine: str = "auto",
    precision: str = "torch",
) -> Setup:
    """``each`` of every depth; ``alpha`` of the Dirichlet distribution, None for IID shares.

    ``images`` of the training images are dealt. ``dealt`` of every depth take part at all, the others' shares lie
    idle: enough for Local, where nobody depends on anybody.
    """
    dataset = data[source]
    chosen, count = balanced(dataset, images, seed), each * len(depths)
    if alpha is None:
        shares = potluck.data.iid(dataset.y[chosen], count, seed).indices
    else:
        shares = potluck.data.dirichlet(dataset.y[chosen], count, alpha, seed, minimum=plan.batch_size).indices
    table = people(dataset, [chosen[share] for share in shares], dict.fromkeys(depths, each), plan, build)
    if dealt is not None:
        table = [person for i, person in enumerate(table) if i % each < dealt]
    federation = potluck.Federation(
        table, method, seed=seed, participation=participation, engine=engine, precision=precision
    )
    about = {"images": len(chosen), "alpha": alpha, "participation": participation, "plan": repr(plan)}
    return Setup(federation, rounds, (dataset.x_test, dataset.y_test), every, measured_for(method), about, saving)


ABLATION = {
    "fedavg": FEDAVG,
    "without-in": FedIN(intermediate=False),
    "without-prox": FedIN(proximal=0.0),
    "without-opt": FedIN(alleviation="none"),
    "exact": FedIN(alleviation="exact"),
    "fedin": FedIN(),
    "own-statistics": FedIN(statistics="local"),
    **{f"noise-{level}": FedIN(noise=level) for level in (0.2, 0.8, 2.0, 5.0)},
    **{f"prox-{weight}": FedIN(proximal=weight) for weight in (0.005, 0.5)},
}
TRAINED = {
    "fedavg": NotedFedAvg(aggregation="layerwise", weighting="uniform"),
    "without-in": NotedFedIN(intermediate=False),
    "without-prox": NotedFedIN(proximal=0.0),
    "fedin": NotedFedIN(),
}
"""The same, where everybody's own network is measured, not the mean of them."""
PARAMETERS = {
    "fedavg": ParametersFedAvg(aggregation="layerwise", weighting="uniform"),
    "without-prox": ParametersFedIN(proximal=0.0),
    "fedin": ParametersFedIN(),
}
"""The same with messages that carry what Table 4 counts: parameters, and no statistics."""
SMALL: dict[str, Any] = {"each": 4, "images": 10_000, "participation": 1.0, "rounds": 15, "every": 3, "saving": 20.0}
"""20 participants with 500 images each on average."""
FASHION: dict[str, Any] = {**SMALL, "source": "fashion_mnist"}
"""The same networks, with the data of the narrow ones."""
NARROW: dict[str, Any] = {
    "each": 2,
    "images": 2000,
    "participation": 1.0,
    "rounds": 15,
    "every": 5,
    "plan": PLAN.replace(epochs=2),
    "source": "fashion_mnist",
    "build": narrow,
}
"""What a CPU can do: 10 participants with about 200 images of Fashion-MNIST each, and ResNets an eighth as wide."""
HALF: dict[str, Any] = {**NARROW, "build": half}
"""The same with networks four times as wide, half as wide as the paper's."""

PARTIAL: dict[str, Any] = {**NARROW, "participation": 0.2, "rounds": 75, "every": 15}
"""The same with two of the ten in each round, until everybody has had as many turns on average."""
LONG: dict[str, Any] = {**PARTIAL, "rounds": 500, "every": 20}
"""The same for as many rounds as the paper has."""

LONGER: dict[str, Any] = {**PARTIAL, "images": 5000, "plan": PLAN, "rounds": 25, "every": 5}
"""Longer local training: ``PARTIAL`` with the full scale's images for each participant and epochs."""
CIFAR: dict[str, Any] = {**LONGER, "source": "cifar10"}
"""And with its data: what is left is the networks' width, and how many participants there are."""
WHOLE: dict[str, Any] = {"every": 10, "build": narrow}
"""The full scale but for the networks' width; for a GPU."""

AGAIN, PRECISIONS = (1, 2, 3, 4), ("torch", "float32")
"""The full scale's first rounds, played so often in each precision by each engine: how far runs of one seed part."""

SETTINGS: dict[str, Maker] = {
    # Ten rounds of 5 epochs: what a participant trains in a hundred rounds of which it takes part in a tenth.
    "local": partial(table, method=Local(), dealt=4, participation=1.0, rounds=10, every=10),
    **{name: partial(table, method=method) for name, method in ABLATION.items()},
    "small-local": partial(table, method=Local(), **SMALL),
    **{f"small-{name}": partial(table, method=method, **SMALL) for name, method in ABLATION.items()},
    **{
        f"small-fashion-{name}": partial(table, method=ABLATION[name], **FASHION)
        for name in ("fedavg", "fedin", "without-prox")
    },
    "narrow-local": partial(table, method=Local(), **NARROW),
    **{f"narrow-{name}": partial(table, method=method, **NARROW) for name, method in ABLATION.items()},
    **{
        f"half-{name}": partial(table, method=ABLATION[name], **HALF)
        for name in ("fedavg", "without-prox", "fedin", "prox-0.5")
    },
    **{
        f"narrow-{kind}-{name}": partial(table, method=ABLATION[name], **settings)
        for kind, settings in {"partial": PARTIAL, "longer": LONGER, "cifar": CIFAR, "whole": WHOLE}.items()
        for name in ("fedavg", "fedin", "without-in", "without-prox", "own-statistics")
    },
    **{
        f"narrow-long-{name}": partial(table, method=ABLATION[name], **LONG)
        for name in ("fedavg", "without-in", "without-prox", "fedin", "prox-0.5")
    },
    **{
        f"narrow-cifar-{name}-nudged": partial(table, method=ABLATION[name], **{**CIFAR, "build": nudged})
        for name in ("fedavg", "fedin")
    },
    **{
        f"{kind}trained-{name}": partial(table, method=method, **settings)
        for kind, settings in {"": {}, "narrow-": NARROW, "narrow-cifar-": CIFAR, "narrow-whole-": WHOLE}.items()
        for name, method in TRAINED.items()
    },
    **{
        f"{kind}parameters-{name}": partial(table, method=method, **settings)
        for kind, settings in {"": {}, "half-": HALF, "narrow-long-": LONG}.items()
        for name, method in PARAMETERS.items()
    },
    **{
        f"again-{engine}-{precision}-{number}": partial(
            table, method=FedIN(), rounds=12, every=1, engine=engine, precision=precision
        )
        for engine in ("serial", "batched")
        for precision in PRECISIONS
        for number in AGAIN
    },
}

if __name__ == "__main__":
    run("fedin_cifar", SETTINGS)
