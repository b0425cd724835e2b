"""Layers stacked our way give what vmap gives: outputs, gradients and running statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from potluck.engines.batched.kernels import convolution as convolutions
from potluck.engines.batched.kernels.dispatch import StackedLayers

NETWORKS, SAMPLES = 3, 4


def maps(channels=3, size=8):
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 8, (3, 1), stride=(2, 1), padding=(1, 0)),
        nn.Conv2d(8, 8, 3, padding="same"),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 10, 1),
        nn.BatchNorm2d(10, affine=False),
        nn.Conv2d(10, 5, 3, padding=1, stride=2),
        nn.BatchNorm2d(5, track_running_stats=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(5, 3),
    )


def outcome(build, x, ours, mode="train"):
    """Losses, gradients and buffers of three networks."""
    made = []
    for seed in range(NETWORKS):
        torch.manual_seed(seed)
        made.append(build().double())
    body = getattr(made[0], mode)()
    weights = {
        n: torch.stack([dict(m.named_parameters())[n].detach() for m in made]) for n, _ in body.named_parameters()
    }
    buffers = {n: torch.stack([dict(m.named_buffers())[n] for m in made]) for n, _ in body.named_buffers()}

    def loss(weights, buffers, x):
        written = {name: buffer.clone() for name, buffer in buffers.items()}
        return functional_call(body, {**weights, **written}, (x,)).square().sum(), written

    run = vmap(grad_and_value(loss, has_aux=True), in_dims=(0, 0, 0 if x.ndim == 5 else None))
    if not ours:
        return run(weights, buffers, x)
    with StackedLayers():
        return run(weights, buffers, x)


@pytest.mark.parametrize("shared", [False, True], ids=["own inputs", "one input"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("few", [0, 4, 10**6], ids=["grouped", "mixed", "products"])
def test_outputs_gradients_and_statistics(few, mode, shared, monkeypatch):
    monkeypatch.setattr(convolutions, "FEW_POSITIONS", few)
    monkeypatch.setattr(convolutions, "FEW_CHANNELS", 0)
    torch.manual_seed(9)
    x = torch.randn(*([] if shared else [NETWORKS]), SAMPLES, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(
        outcome(maps, x, ours=True, mode=mode), outcome(maps, x, ours=False, mode=mode), rtol=1e-9, atol=1e-9
    )
