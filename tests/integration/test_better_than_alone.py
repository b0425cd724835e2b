"""Together better than alone: what a method gains over Local in mean over five seeds, where it claims to gain.

Eight participants have 40 digits each to train on, of classes in unequal shares, and are tested on more of their own.
``python -m tests.integration.test_better_than_alone`` prints the gains of all methods in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import pytest
import torch
from torch import nn

import potluck
from potluck.methods import (
    FLOP,
    MOON,
    SCAFFOLD,
    Ditto,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedBN,
    FedDF,
    FedNova,
    FedPer,
    FedProx,
    FedRep,
    FedSSA,
    FedYogi,
    LGFedAvg,
    Local,
    PFedES,
)

SEEDS, ROUNDS = range(5), 15
PLAN = potluck.Plan(optimizer="sgd", lr=0.3, epochs=5, batch_size=16)


def mlp(width: int = 32, norm: bool = False) -> nn.Module:
    normal = [nn.BatchNorm1d(width)] if norm else []
    first = [nn.Flatten(), nn.Linear(64, width), *normal, nn.ReLU()]
    return nn.Sequential(*first, nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 10))


Builders = tuple[Callable[[], nn.Module], ...]
ALIKE: Builders = (mlp,)
MIXED: Builders = (mlp, partial(mlp, 64))
NORMED: Builders = (partial(mlp, norm=True),)

CLAIMS: dict[str, tuple[potluck.Method, Builders]] = {
    "FedAvg": (FedAvg(), ALIKE),
    "FedAvg personalised": (FedAvg(fine_tune=2), ALIKE),
    "FedProx": (FedProx(mu=0.1), ALIKE),
    "SCAFFOLD": (SCAFFOLD(), ALIKE),
    "FedNova": (FedNova(), ALIKE),
    "FedAdagrad": (FedAdagrad(), ALIKE),
    "FedAdam": (FedAdam(server_lr=0.02), ALIKE),
    "FedYogi": (FedYogi(server_lr=0.02), ALIKE),
    "MOON": (MOON(), ALIKE),
    "FedBN": (FedBN(), NORMED),
    "FedPer": (FedPer(), ALIKE),
    "FLOP": (FLOP(), ALIKE),
    "FedRep": (FedRep(head_epochs=5, body_epochs=5), ALIKE),
    "Ditto": (Ditto(), ALIKE),
    "FedDF": (FedDF(architectures=MIXED, steps=50), MIXED),
    "FedSSA": (FedSSA(), MIXED),
}
"""Methods whose gain is real here, each with networks that it fits."""

NO_GAIN: dict[str, tuple[potluck.Method, Builders]] = {
    "FedRep, 10 + 1": (FedRep(), ALIKE),
    "LG-FedAvg": (LGFedAvg(), MIXED),
    "pFedES": (PFedES(), MIXED),
    "pFedES, μ 0.2": (PFedES(mu=0.2), MIXED),
}
"""Those that gain nothing here that could be relied on: their docstrings say so."""


def participants(seed: int, builders: Sequence[Callable[[], nn.Module]]) -> tuple[list[potluck.Participant], object]:
    """Everybody, and public inputs."""
    digits = potluck.data.digits()
    public = potluck.data.split_public(digits.x, digits.y, 200, seed=seed)
    y = digits.y[public.kept]
    shares = potluck.data.dirichlet(y, participants=8, alpha=1.0, seed=seed, minimum=20).indices
    torch.manual_seed(seed)
    people = []
    for place, share in enumerate(shares):
        rows = public.kept[share]
        mine, test = rows[: min(40, len(rows) // 2)], rows[min(40, len(rows) // 2) :]
        people.append(
            potluck.Participant(
                f"p{place}",
                builders[place % len(builders)](),
                (digits.x[mine], digits.y[mine]),
                test=(digits.x[test], digits.y[test]),
                plan=PLAN,
                labels=range(10),
            )
        )
    return people, public.x


def accuracies(method: potluck.Method, builders: Builders) -> list[float]:
    """The mean accuracy of all participants after the last round, seed by seed."""
    found = []
    for seed in SEEDS:
        people, public = participants(seed, builders)
        federation = potluck.Federation(people, method, public=public, seed=seed, engine="batched")
        accuracy = federation.run(ROUNDS).final.accuracy
        assert accuracy is not None
        found.append(accuracy)
    return found


@cache
def alone(builders: Builders) -> list[float]:
    return accuracies(Local(), builders)


def gains(method: potluck.Method, builders: Builders) -> list[float]:
    return [ours - own for ours, own in zip(accuracies(method, builders), alone(builders), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_it_is_better_than_local_in_mean(name: str) -> None:
    found = gains(*CLAIMS[name])
    assert sum(found) / len(found) > 0


if __name__ == "__main__":
    for name, (method, builders) in {**CLAIMS, **NO_GAIN}.items():
        found = gains(method, builders)
        mean, local = sum(found) / len(found), sum(alone(builders)) / len(SEEDS)
        print(f"{name:20s} {local + mean:.3f}, Local {local:.3f}, better in {sum(gain > 0 for gain in found)} of 5")
