"""Networks of the zoo, as experiments have them: rounds in which few take part, and other ones each time.

On a GPU stacks are kept between rounds, grow, and are filled in part. All of that must not show.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import potluck
from potluck.methods import FedAvg, FedIN
from potluck.models import resnet
from tests.tables import weights_agree

WIDTH = 64 if torch.cuda.is_available() else 4
PLAN = potluck.Plan(lr=1e-4, epochs=1, batch_size=8)


def table():
    """Four ResNets of ten layers and three of fourteen, with unequal data."""
    random, people = np.random.default_rng(0), []
    for i, size in enumerate((24, 41, 40, 33, 36, 17, 32)):
        torch.manual_seed(i)
        network = resnet(10 if i < 4 else 14, (3, 32, 32), 3, width=WIDTH).double()
        data = (random.normal(size=(size, 3, 32, 32)), np.arange(size) % 3)
        people.append(potluck.Participant(f"p{i}", network, data, labels=range(3), plan=PLAN))
    return people


def played(method, engine):
    federation = potluck.Federation(table(), method, seed=1, engine=engine, participation=0.6)
    federation.run(4)
    return list(federation.participants.values())


@pytest.mark.parametrize(
    "method", [FedAvg(aggregation="layerwise"), FedIN(pairs=8), FedIN(pairs=8, statistics="local")], ids=str
)
def test_networks_are_equal_after_rounds_of_few(method):
    """In float64: in float32 rounding alone carries such networks apart within one round."""
    weights_agree(*(played(method, engine) for engine in ("serial", "batched")), 1e-5)
