"""Server optimizers beside Flower's: three rounds from the same weights, with the same local training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import potluck
from potluck.methods import FedAdagrad, FedAdam, FedYogi
from tests.methods.plain import begun, data_of, descended, loaded
from tests.tables import cnn, mlp

strategies = pytest.importorskip("flwr.serverapp.strategy")
app = pytest.importorskip("flwr.app")

AS_THEIRS = {
    "FedAdagrad": FedAdagrad(server_lr=0.02, start_at="zero"),
    "FedAdam": FedAdam(server_lr=0.02, start_at="zero", bias_correction=True),
    "FedYogi": FedYogi(server_lr=0.02, start_at="zero"),
}
"""With the two choices of Flower's that are settings here; all else is as by default, here and there."""


def flowers(name: str, model: nn.Module, people: list[potluck.Participant], rounds: int = 3) -> dict[str, Tensor]:
    """The weights after a few rounds of Flower's strategy of that name."""
    strategy = getattr(strategies, name)(eta=0.02)
    x = {entry: value.clone() for entry, value in model.state_dict().items()}
    for number in range(1, rounds + 1):
        strategy.current_arrays = {entry: value.numpy() for entry, value in x.items()}
        replies: list[Any] = []
        for person in people:
            trained = descended(loaded(model, x), data_of(person)).state_dict()
            arrays = app.ArrayRecord({entry: app.Array(value.numpy()) for entry, value in trained.items()})
            metrics = app.MetricRecord({"num-examples": len(person.data)})
            content = app.RecordDict({"arrays": arrays, "metrics": metrics})
            replies.append(SimpleNamespace(content=content, has_error=lambda: False))
        found, _ = strategy.aggregate_train(number, replies)
        x = {entry: torch.from_numpy(np.array(found[entry].numpy())) for entry in x}
    return x


@pytest.mark.parametrize("name", AS_THEIRS)
@pytest.mark.parametrize("network", [mlp, cnn])
def test_parameters_are_flowers_and_only_parameters_are_stepped(name: str, network: Any) -> None:
    """Flower steps BatchNorm's statistics, too, and how many batches it has counted; here they take the mean."""
    federation, models = begun(AS_THEIRS[name], [network(seed) for seed in range(3)])
    people = list(federation.participants.values())
    theirs = flowers(name, models[0], people)
    federation.run(3)
    trained = {entry for entry, _ in models[0].named_parameters()}
    for entry, value in people[0].weights().items():
        if entry in trained:
            torch.testing.assert_close(value, theirs[entry], rtol=0, atol=1e-12)
        else:
            assert not torch.allclose(value.double(), theirs[entry].double())
