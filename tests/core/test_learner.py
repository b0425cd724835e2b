"""What every learner can do: networks, several of them together, and estimators all can."""

from __future__ import annotations

import inspect

import pytest
import torch

from potluck.core.learner import Learner
from potluck.learners.estimator import Estimator
from potluck.learners.joint import JointNetwork
from potluck.learners.network import Network


@pytest.mark.parametrize("kind", [Network, Estimator, JointNetwork])
def test_a_learner_takes_what_the_interface_says(kind):
    assert issubclass(kind, Learner)
    assert not inspect.isabstract(kind)
    for name in Learner.__abstractmethods__:
        expected, found = (inspect.signature(getattr(owner, name)).parameters for owner in (Learner, kind))
        assert list(found) == list(expected)


def test_one_that_lacks_something_cannot_be_made():
    class Half(Learner):
        def state(self):
            return {}

    with pytest.raises(TypeError, match="restore"):
        Half()


def test_layers_are_closed_and_training_comes_first_unless_a_kind_says_otherwise():
    assert not Learner.shows_layers
    assert not Learner.answers_untrained
    assert Network(torch.nn.Identity()).takes_weights
