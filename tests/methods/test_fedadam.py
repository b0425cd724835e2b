from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from potluck.methods import FedAdagrad, FedAdam, FedAvg, FedYogi
from tests.methods.plain import begun
from tests.methods.server_steps import after, is_played_in_plain_pytorch, stepped
from tests.tables import cnn, mlp, weights_agree


def test_two_rounds_by_hand():
    found, v = after(FedAdam(), 1.0, 0.05)
    assert found == pytest.approx([0.099005, 0.193411], abs=1e-6)
    assert v == pytest.approx(0.00992598, abs=1e-8)


def test_two_rounds_with_flowers_correction_by_hand():
    found, _ = after(FedAdam(bias_correction=True, start_at="zero"), 1.0, 0.05)
    assert found == pytest.approx([0.073511, 0.133550], abs=1e-6)


def test_two_rounds_in_plain_pytorch():
    is_played_in_plain_pytorch(FedAdam(server_lr=0.02), lambda v, delta: 0.99 * v + 0.01 * delta**2)


@pytest.mark.parametrize("aggregation", ["whole", "layerwise", "same-architecture"])
def test_as_sgd_it_is_fedavg(aggregation):
    """With β₁ = 0, β₂ = 1 and η = 2τ the step is the mean itself."""
    models = [cnn(0), cnn(1)] if aggregation == "whole" else [cnn(0), mlp(1), cnn(2)]
    ours, _ = begun(FedAdam(beta1=0, beta2=1, server_lr=0.5, tau=0.25, aggregation=aggregation), models)
    theirs, _ = begun(FedAvg(aggregation=aggregation), models)
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 1e-12)


@pytest.mark.parametrize("name", ["FedAdagrad", "FedAdam", "FedYogi"])
def test_flowers_arithmetic_is_the_same(name):
    """Flower's strategies start at v = 0; its Adam corrects the bias, and its Adagrad has β₁ as we set it here."""
    strategies = pytest.importorskip("flwr.serverapp.strategy")
    app = pytest.importorskip("flwr.app")
    betas = {} if name == "FedAdagrad" else {"beta_1": 0.8, "beta_2": 0.95}
    theirs = getattr(strategies, name)(eta=0.2, tau=0.01, **betas)
    ours = {
        "FedAdagrad": FedAdagrad(server_lr=0.2, tau=0.01, start_at="zero"),
        "FedAdam": FedAdam(server_lr=0.2, tau=0.01, beta1=0.8, beta2=0.95, start_at="zero", bias_correction=True),
        "FedYogi": FedYogi(server_lr=0.2, tau=0.01, beta1=0.8, beta2=0.95, start_at="zero"),
    }[name]
    means = [0.3, 0.25, -0.4]
    found, x = [], 0.0
    for round, value in enumerate(means, start=1):
        theirs.current_arrays = {"x": np.array([x])}
        record = app.RecordDict(
            {
                "arrays": app.ArrayRecord({"x": app.Array(np.array([value]))}),
                "metrics": app.MetricRecord({"num-examples": 3}),
            }
        )
        arrays, _ = theirs.aggregate_train(round, [SimpleNamespace(content=record, has_error=lambda: False)])
        x = float(arrays["x"].numpy()[0])
        found.append(x)
    assert stepped(ours, *means)[0] == pytest.approx(found, abs=1e-12)
