from __future__ import annotations

import pytest
import torch

from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, FedNova
from tests.methods.plain import PLAN, begun, data_of, descended, same
from tests.tables import cnn, mlp, weights_agree


def test_the_mean_of_unequal_steps_by_hand():
    """x = 10: d = 1 and 1.5, Σpa = 3, Σpd = 1.25; a running mean beside it is averaged as it is."""
    layout = {"w": ["float64"], "mean": ["float64"]}
    server = Server(seed=0, participant_weights={"a": 1.0, "b": 1.0}, round=1)
    method = FedNova(aggregation="layerwise", weighting="uniform")
    server.state = {"layouts": {"a": layout, "b": layout}, "digests": {"a": "one", "b": "one"}}
    keys = method.keys(server, "a")
    server.state["global"] = {key: torch.tensor(10.0, dtype=torch.float64) for key in keys.values()}
    server.state["parameters"] = [keys["w"]]
    answers = [
        (name, Payload({"w": torch.tensor(y), "mean": torch.tensor(y)}, {"steps": steps}))
        for name, y, steps in (("a", 8.0, 2.0), ("b", 4.0, 4.0))
    ]
    replies = method.weights(server, iter(answers))
    assert replies["b"]["w"].item() == 6.25
    assert replies["b"]["mean"].item() == 6


def test_a_round_in_plain_pytorch():
    """Unequal epochs, with momentum: τ = 1, 2 and 4 steps of a = 1, 2.9 and 8.049."""
    federation, models = begun(FedNova(), [mlp(i) for i in range(3)])
    people, epochs, a = list(federation.participants.values()), (1, 2, 4), (1, 2.9, 1 + 1.9 + 2.71 + 3.439)
    for person, count in zip(people, epochs, strict=True):
        person.plan = PLAN.replace(epochs=count, momentum=0.9)
    x, n = models[0].state_dict(), [len(p.data) for p in people]
    y = [
        descended(models[0], data_of(person), steps=count, momentum=0.9).state_dict()
        for person, count in zip(people, epochs, strict=True)
    ]
    p = [count / sum(n) for count in n]
    expected = {
        name: entry - sum(p[i] * a[i] for i in range(3)) * sum(p[i] * (entry - y[i][name]) / a[i] for i in range(3))
        for name, entry in x.items()
    }
    federation.run(1)
    same(people[0].weights(), expected)


@pytest.mark.parametrize("aggregation", ["whole", "layerwise"])
def test_with_equal_steps_it_is_fedavg(aggregation):
    models = [cnn(0), cnn(1)] if aggregation == "whole" else [cnn(0), mlp(1), cnn(2)]
    ours, _ = begun(FedNova(aggregation=aggregation), models)
    theirs, _ = begun(FedAvg(aggregation=aggregation), models)
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 1e-12)
