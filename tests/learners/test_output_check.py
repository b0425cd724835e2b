"""What is told of a network before any training."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck import ModelError, Samples
from potluck.core.classification import Classification
from potluck.core.regression import Regression
from potluck.learners.output_check import check_output

SAMPLES = Samples({"x": torch.randn(4, 3).double(), "y": torch.tensor([0, 1, 0, 1])})


def check(module, samples, task=None):
    example = samples.x[:2].to(next((p.dtype for p in module.parameters()), samples.x.dtype))
    check_output(module.eval(), example, samples, task or Classification((0, 1)), "clinic")


class Odd(nn.Module):
    """Puts out something that is no tensor."""

    def forward(self, x):
        return [x.shape, x]


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (nn.Linear(4, 2).double(), r"clinic: Linear cannot read inputs of shape \(3,\): "),
        (nn.Conv2d(3, 2, 1).double(), r"clinic: Conv2d cannot read inputs of shape \(3,\): "),
        (nn.Linear(3, 5).double(), r"clinic: Linear puts out \(2, 5\) for 2 samples; expected \(2, 2\)"),
        (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), r"puts out \(2,\) for 2 samples"),
        (Odd(), "clinic: Odd: The model returns a list; expected its logits: a tensor, an object with"),
    ],
)
def test_a_model_that_does_not_fit_is_told_before_training(module, complaint):
    with pytest.raises(ModelError, match=complaint):
        check(module, SAMPLES)


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.Softmax(dim=-1)])
def test_a_network_that_ends_in_a_softmax_is_warned_of(last):
    samples = Samples({"x": torch.randn(4, 3), "y": torch.tensor([0, 1, 0, 1])})
    with pytest.warns(UserWarning, match="Sequential puts out probabilities: .* leave out the last one"):
        check(nn.Sequential(nn.Linear(3, 2), last), samples)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("network", [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(dim=1))])
def test_logits_are_no_probabilities(network):
    samples = Samples({"x": torch.randn(4, 3), "y": torch.tensor([0, 1, 0, 1])})
    check(network, samples)


def test_one_value_may_come_with_an_axis_of_its_own_or_without():
    samples = Samples({"x": SAMPLES.x, "y": torch.ones(4, 1).double()})
    for module in (nn.Linear(3, 1).double(), nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)).double()):
        check(module, samples, Regression(1))
    with pytest.raises(ModelError, match=r"expected \(2, 1\), one number for each of its 1 outputs\. Change"):
        check(nn.Linear(3, 2).double(), samples, Regression(1))


@pytest.mark.filterwarnings("error")
def test_values_that_add_up_to_one_are_no_concern_of_other_tasks():
    samples = Samples({"x": SAMPLES.x, "y": torch.ones(4, 2).double()})
    check(nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1)).double(), samples, Regression(2))
