"""A participant that is elsewhere: what the server knows before and after it has come."""

from __future__ import annotations

import pytest
import torch

from potluck.core.errors import SettingsError
from potluck.flower.protocol import Accepted
from potluck.flower.remote_participant import RemoteParticipant

ANN = Accepted(name="ann", labels=["cat", "dog"], input_shape=[1, 4, 4], uint8_inputs=True, has_public=False)
BOB = Accepted(name="bob", labels=[0, 1, 2], input_shape=[7], uint8_inputs=False, has_public=False)


def test_it_is_as_it_said_when_it_accepted():
    person = RemoteParticipant("ann", 2.0, ANN, like=BOB)
    assert (person.labels, person.weight, person.is_local) == (("cat", "dog"), 2.0, False)
    assert person.data.x.shape == (0, 1, 4, 4)
    assert person.data.x.dtype == torch.uint8


def test_until_it_comes_another_stands_for_it():
    person = RemoteParticipant("carl", 1.0, None, like=BOB)
    assert person.labels == (0, 1, 2)
    assert person.data.x.shape == (0, 7)
    assert person.data.x.dtype == torch.float32


def test_nothing_of_it_is_in_the_servers_checkpoint():
    person = RemoteParticipant("ann", 1.0, ANN, like=BOB)
    person.join(5, None)
    assert (person.seed, person.round) == (5, 0)
    assert person.snapshot() == {}
    person.restore({})
    person.check_keepable()


@pytest.mark.parametrize("weight", [0, -1.0, float("inf"), float("nan")])
def test_its_credibility_is_a_finite_number_above_zero(weight):
    with pytest.raises(SettingsError, match=r"ann: weight is .*; expected a finite number above 0"):
        RemoteParticipant("ann", weight, ANN, like=BOB)
