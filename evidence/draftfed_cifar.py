"""DraftFed on CIFAR-10 (section IV): 20 participants with an equal share each, ResNets of three depths, 512 drafts.

ResNet18, 34 and 50 (8, 8 and 4 of them) stand for the paper's 50, 101 and 152. The paper gives no optimizer, rate,
batch size, epochs or rounds: what is taken here is what the same authors' PerHeFed gives for ResNets on CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import potluck
from evidence.experiment import Data, Maker, Setup, run
from evidence.images import balanced, narrow, people
from potluck.methods import DraftFed, Local
from potluck.models import resnet

DEPTHS = {18: 8, 34: 8, 50: 4}
PLAN = potluck.Plan(lr=1e-4, epochs=5, batch_size=256)
SAMPLES = 512


def table(
    data: Data,
    seed: int,
    method: potluck.Method,
    source: str = "cifar10",
    public: str | None = None,
    images: int | None = None,
    rounds: int = 20,
    every: int = 4,
    depths: Mapping[int, int] = DEPTHS,
    samples: int = SAMPLES,
    plan: potluck.Plan = PLAN,
    build: Callable[..., Any] = resnet,
) -> Setup:
    """``public``: the set that the shared inputs are from; by default the same set, before shares of it are dealt."""
    dataset = data[source]
    chosen = balanced(dataset, images, seed)
    aside = potluck.data.split_public(dataset.x[chosen], dataset.y[chosen], samples, seed)
    shown = aside.x if public is None else potluck.data.from_source(data[public], samples, seed)
    kept = chosen[aside.kept]
    shares = potluck.data.iid(dataset.y[kept], sum(depths.values()), seed).indices
    table = people(dataset, [kept[share] for share in shares], depths, plan, build)
    federation = potluck.Federation(table, method, public=shown, seed=seed)
    about = {"images": len(kept), "public": public or source, "samples": samples, "plan": repr(plan)}
    return Setup(federation, rounds, (dataset.x_test, dataset.y_test), every, about=about, saving=30.0)


NARROW: dict[str, Any] = {
    "source": "fashion_mnist",
    "images": 2512,
    "every": 10,
    "depths": {10: 4, 18: 4, 26: 2},
    "plan": potluck.Plan(lr=1e-3, epochs=3, batch_size=64),
    "build": narrow,
}
"""What a CPU can do: 10 participants with 200 images of Fashion-MNIST each, and ResNets an eighth as wide."""
CIFAR: dict[str, Any] = {**NARROW, "source": "cifar10"}
"""The same with the larger scale's data."""

DRAFTFED = DraftFed(samples=SAMPLES, draft_epochs=1)
LOGITS = DraftFed(lambda1=0, lambda2=0, samples=SAMPLES, draft_epochs=1)
SETTINGS: dict[str, Maker] = {
    "local": partial(table, method=Local()),
    "draftfed": partial(table, method=DRAFTFED),
    "draftfed-weighted": partial(table, method=DraftFed(lambda1=0.1, lambda3=0.1, samples=SAMPLES, draft_epochs=1)),
    "draftfed-logits": partial(table, method=LOGITS),
    "draftfed-cifar100": partial(table, method=DRAFTFED, public="cifar100"),
    "draftfed-svhn": partial(table, method=DRAFTFED, public="svhn"),
    "narrow-local": partial(table, method=Local(), **NARROW),
    "narrow-draftfed": partial(table, method=DRAFTFED, **NARROW),
    "narrow-draftfed-mnist": partial(table, method=DRAFTFED, public="mnist", **NARROW),
    "narrow-draftfed-logits": partial(table, method=LOGITS, **NARROW),
    "narrow-cifar-local": partial(table, method=Local(), **CIFAR),
    "narrow-cifar-draftfed": partial(table, method=DRAFTFED, **CIFAR),
    "narrow-cifar-draftfed-logits": partial(table, method=LOGITS, **CIFAR),
    "narrow-cifar-draftfed-cifar100": partial(table, method=DRAFTFED, public="cifar100", **CIFAR),
    "narrow-cifar-draftfed-svhn": partial(table, method=DRAFTFED, public="svhn", **CIFAR),
}

if __name__ == "__main__":
    run("draftfed_cifar", SETTINGS)
