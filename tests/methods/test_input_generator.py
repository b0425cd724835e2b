"""The networks that make inputs from noise."""

from __future__ import annotations

import pytest
import torch

from potluck.methods.input_generator import InputGenerator, TrainedNoise, patient_adam


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 7, 5), (9,), (4, 2)])
def test_inputs_of_any_shape_are_made(shape):
    made = InputGenerator(5, 4, shape, True)(torch.randn(3, 5))
    assert made.shape == (3, *shape)
    assert 0 <= made.min() <= made.max() <= 1


def test_noise_is_trained_with_its_generator():
    generator = InputGenerator(5, 4, (3,), False)
    trained = TrainedNoise(generator, 6, 5)
    torch.nn.init.normal_(trained.noise)
    rows = torch.tensor([4, 1])
    torch.testing.assert_close(trained.eval()(rows), generator(trained.noise[rows]))
    before = trained.noise.detach().clone()
    optimizer = patient_adam(trained.parameters(), 0.1)
    assert optimizer.defaults["betas"] == (0.5, 0.999)
    trained(rows).square().sum().backward()
    optimizer.step()
    assert (trained.noise != before).any(dim=1).tolist() == [False, True, False, False, True, False]


def test_what_is_below_zero_is_made_five_times_smaller():
    """By hand: BatchNorm with its first statistics leaves numbers almost as they are."""
    generator = InputGenerator(1, 1, (1,), False).eval()
    first, last = generator.layers[0], generator.layers[3]
    with torch.no_grad():
        for layer, value in ((first, 1.0), (last, 1.0)):
            layer.weight.fill_(value)
        last.bias.zero_()
        made = generator(torch.tensor([[2.0], [-2.0]]))
    torch.testing.assert_close(made, torch.tensor([[2.0], [-0.4]]), rtol=1e-4, atol=1e-4)
