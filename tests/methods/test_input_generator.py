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
