from __future__ import annotations

import torch
from torch import nn

from potluck.core.model_view import ModelView
from potluck.methods.proximal import REFERENCE, near, row, squared_distance
from tests.methods.plain import cross_entropy
from tests.tables import cnn


def test_the_distance_is_squared_and_over_all_parameters():
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0]]))
        layer.bias.fill_(3.0)
    reference = row({"weight": torch.tensor([[0.0, 0.0]]), "bias": torch.tensor([1.0])})
    assert squared_distance(ModelView(layer), reference).item() == 1 + 4 + 4


def test_the_term_is_half_mu_times_the_distance():
    model, x, y = cnn(0), torch.randn(4, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    away = {name: p + 1 for name, p in model.named_parameters()}
    loss = near(ModelView(model), {"x": x, "y": y}, {"mu": 0.5, REFERENCE: row(away)})
    count = sum(p.numel() for p in model.parameters())
    torch.testing.assert_close(loss, cross_entropy(model, x, y) + 0.25 * count)


def test_a_row_has_no_gradient():
    assert not row(dict(cnn(0).named_parameters())).requires_grad
