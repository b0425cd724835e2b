"""FedAvg and the methods derived from it on mixed models: by architecture, and layer by layer."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods import MOON, SCAFFOLD, FedAdagrad, FedAdam, FedAvg, FedNova, FedProx, FedYogi
from tests.tables import PLAN, deep_cnn, participants, weights_agree

SGD = PLAN.replace(momentum=0.0, lr=0.1, epochs=2)
METHODS = {
    FedAvg: {},
    FedProx: {"mu": 0.5},
    SCAFFOLD: {},
    FedNova: {},
    MOON: {},
    FedAdagrad: {"server_lr": 0.02},
    FedAdam: {"server_lr": 0.02},
    FedYogi: {"server_lr": 0.02},
}


def people() -> list[potluck.Participant]:
    """Two depths, by turns; the deeper ones have all layers of the others, under the same names, but for the head."""
    return participants([deep_cnn(seed, 1 + seed % 2) for seed in range(4)], sizes=(24, 31, 17, 28), plan=SGD)


def played(method: potluck.Method, some: list[potluck.Participant]) -> list[potluck.Participant]:
    potluck.Federation(some, method, seed=3, engine="serial").run(3)
    return some


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_by_architecture_it_is_a_federation_of_each(method: type[FedAvg]) -> None:
    settings = METHODS[method]
    together = played(method(aggregation="same-architecture", **settings), people())
    for first in (0, 1):
        alone = played(method(**settings), people()[first::2])
        weights_agree(together[first::2], alone, 1e-12)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_layer_by_layer_all_have_in_common_what_all_have(method: type[FedAvg]) -> None:
    """Entries of one name and shape are one for all; of the others, all of one depth have the same."""
    settings = METHODS[method]
    found = [person.weights() for person in played(method(aggregation="layerwise", **settings), people())]
    shallow, deep = found[0], found[1]
    common = {name for name, entry in shallow.items() if name in deep and entry.shape == deep[name].shape}
    assert {"0.weight", "3.weight"} <= common
    assert deep.keys() - common
    for i, weights in enumerate(found):
        for name, entry in weights.items():
            expected = shallow[name] if name in common else found[i % 2][name]
            torch.testing.assert_close(entry, expected, rtol=0, atol=0)
    by_architecture = played(method(aggregation="same-architecture", **settings), people())[0].weights()
    assert not torch.allclose(shallow["0.weight"], by_architecture["0.weight"])
