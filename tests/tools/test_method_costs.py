"""What methods cost is counted: bytes, passes, reads, what the server trains on."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.engines import pick_device
from potluck.federation.federation import Federation
from potluck.methods import FML, METHODS, FedAvg, FedMD
from potluck.methods.guide import ADVICE, costs
from tests.tables import PLAN, cnn, made_data, participants
from tools.method_costs import Counting, cost_of, measure


def played(method, rounds=3, epochs=2, **settings):
    people = participants([cnn(seed, 3) for seed in range(3)], plan=PLAN.replace(epochs=epochs))
    federation = Federation(people, method, seed=0, engine=Counting(pick_device("cpu")), **settings)
    federation.run(rounds)
    return federation


def test_passes_and_bytes_by_hand():
    federation = played(FedAvg())
    cost = cost_of(federation, "alike")
    size = sum(entry.numel() * entry.element_size() for entry in federation.participants["p0"].weights().values())
    assert (cost.passes, cost.joining_passes, cost.readings, cost.server) == (2.0, 0.0, 0.0, 0)
    assert cost.weights == size
    assert size < cost.up < size + 1000
    assert cost.of_network == (cost.up + cost.down) / size
    assert federation.history.final.accuracy is None, "nothing is evaluated"


def test_public_samples_count_as_ones_own():
    """Before the first round 2 epochs on 30 public samples and 2 on its own; in a round 1 and 4, and a look at 30."""
    x, y = made_data(30, 90)
    federation = played(FedMD(subset=30), public=(x, y))
    sizes = np.array([len(one.data) for one in federation.participants.values()])
    cost = cost_of(federation, "mixed")
    assert cost.joining_passes == pytest.approx(2 + np.mean(60 / sizes), abs=0.01)
    assert cost.passes == pytest.approx(4 + np.mean(30 / sizes), abs=0.01)
    assert cost.readings == pytest.approx(np.mean(30 / sizes), abs=0.01)


def test_what_is_trained_beside_is_named():
    cost = cost_of(played(FML(common="tests.tables:narrow_mlp")), "mixed")
    assert cost.beside == ("common",)
    assert cost.trained == "2, with common"


def test_all_methods_were_measured():
    assert set(costs()) == set(ADVICE)
    assert set(ADVICE) == set(METHODS) - {"Describe"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ADVICE) - {"DENSE"}))
def test_what_is_told_is_what_is_measured(name):
    """Up to rounding, which what is pruned or cut to a rank may depend on."""
    told, found = costs()[name], measure(name)
    assert (found.family, found.beside, found.server) == (told.family, told.beside, told.server)
    for key in ("weights", "up", "down", "joining_up", "joining_down", "passes", "joining_passes", "readings"):
        assert getattr(found, key) == pytest.approx(getattr(told, key), rel=0.05), key
