"""What a known, invertible part of a network shows can be rebuilt; noise on what travels keeps it."""

from __future__ import annotations

import torch
from torch import nn

from potluck.analysis import reconstruct

DRAW = torch.Generator().manual_seed(1)
IMAGES = torch.rand(4, 1, 6, 6, generator=DRAW)


def extractor():
    torch.manual_seed(0)
    return nn.Conv2d(1, 8, 3, padding=1)


def test_images_come_back_from_their_features():
    extract = extractor()
    found = reconstruct(extract, extract(IMAGES), (1, 6, 6), steps=400)
    assert found.losses[-1] < 1e-3 * found.losses[0]
    assert (found.inputs - IMAGES).abs().mean() < 0.02
    assert len(found.losses) == 401


def test_noise_keeps_them():
    extract = extractor()
    features = extract(IMAGES).detach()
    noisy = features + 0.8 * features.std() * torch.randn(features.shape, generator=DRAW)
    clear, kept = (reconstruct(extract, sent, (1, 6, 6), steps=400) for sent in (features, noisy))
    assert kept.losses[-1] > 100 * clear.losses[-1]
    assert (kept.inputs - IMAGES).square().mean() > 10 * (clear.inputs - IMAGES).square().mean()


def test_the_network_is_left_alone():
    extract = extractor()
    before = [p.clone() for p in extract.parameters()]
    reconstruct(extract, extract(IMAGES), (1, 6, 6), steps=5)
    assert all(p.grad is None and torch.equal(p, old) for p, old in zip(extract.parameters(), before, strict=True))
