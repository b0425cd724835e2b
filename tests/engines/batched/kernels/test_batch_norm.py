"""BatchNorm of many networks in one kernel: each network's own, with its own statistics."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.func import grad, vmap

from potluck.engines.batched.kernels.batch_norm import apart, batch_norm, beside

NETWORKS, SAMPLES, CHANNELS = 3, 4, 2


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def test_alone_it_is_torchs_outputs_and_running_statistics():
    x, weight, bias = drawn(SAMPLES, CHANNELS, 5, 5), drawn(CHANNELS), drawn(CHANNELS)
    ours, theirs = ([torch.zeros(CHANNELS).double(), torch.ones(CHANNELS).double()] for _ in range(2))
    for training in (True, True, False):
        found = batch_norm(x, *ours, weight, bias, training, momentum=0.3)
        torch.testing.assert_close(found, F.batch_norm(x, *theirs, weight, bias, training, momentum=0.3))
        torch.testing.assert_close(ours, theirs)


def test_the_running_variance_is_that_of_a_sample():
    """Of 0, 0, 2, 4 the mean is 1.5 and the variance, divided by three, 11/3; it counts for a tenth."""
    x = torch.tensor([0.0, 0.0, 2.0, 4.0]).reshape(1, 1, 2, 2)
    mean, variance = torch.zeros(1), torch.ones(1)
    batch_norm(x, mean, variance, training=True, momentum=0.1, eps=0.0)
    assert mean.tolist() == pytest.approx([0.15])
    assert variance.tolist() == pytest.approx([0.9 + 1.1 / 3])


def test_stacked_each_network_has_its_own_statistics_and_gradients():
    x, weight, bias = drawn(NETWORKS, SAMPLES, CHANNELS, 3, 3), drawn(NETWORKS, CHANNELS), drawn(NETWORKS, CHANNELS)

    def loss(of):
        return lambda x, weight, bias: of(x, None, None, weight, bias, True).pow(3).sum()

    found = vmap(grad(loss(batch_norm), argnums=(0, 1, 2)))(x, weight, bias)
    for index in range(NETWORKS):
        alone = grad(loss(F.batch_norm), argnums=(0, 1, 2))(x[index], weight[index], bias[index])
        torch.testing.assert_close([each[index] for each in found], list(alone))


def test_second_derivatives_are_refused():
    def slope(x):
        return grad(lambda y: batch_norm(y, None, None, training=True).pow(3).sum())(x).sum()

    with pytest.raises(RuntimeError, match="second derivatives"):
        grad(slope)(drawn(SAMPLES, CHANNELS, 3, 3))


@pytest.mark.parametrize("shape", [(SAMPLES, CHANNELS, 3, 5), (CHANNELS,)])
@pytest.mark.parametrize("dim", [0, 1])
def test_networks_go_beside_each_other_and_apart_again(shape, dim):
    stacked = drawn(NETWORKS, *shape)
    flat = beside(stacked.movedim(0, min(dim, len(shape))), min(dim, len(shape)), NETWORKS)
    channels = 1 if len(shape) == 4 else 0
    assert flat.shape[channels] == NETWORKS * CHANNELS
    torch.testing.assert_close(apart(flat, NETWORKS).movedim(channels, 0), stacked)


def test_what_all_networks_share_is_there_for_each():
    shared = drawn(CHANNELS)
    assert beside(shared, None, NETWORKS).tolist() == shared.tolist() * NETWORKS
