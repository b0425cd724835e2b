"""A participant that is elsewhere: what the server knows before and after it has come."""

from __future__ import annotations

from typing import Any

import pytest

from potluck.core.errors import SettingsError
from potluck.flower.protocol import Accepted, InputFacts
from potluck.flower.remote_participant import RemoteParticipant

SETTINGS: list[dict[str, Any]] = [{"labels": ["cat", "dog"]}, {"labels": [0, 1, 2]}]
ANN = Accepted(
    name="ann",
    task="classification",
    settings=SETTINGS[0],
    metrics=["accuracy"],
    inputs={"x": InputFacts(shape=[1, 4, 4], numbers="bytes")},
    has_public=False,
)
BOB = Accepted(
    name="bob",
    task="classification",
    settings=SETTINGS[1],
    metrics=["accuracy"],
    inputs={"x": InputFacts(shape=[7], numbers="floats")},
    has_public=False,
)


def test_it_is_as_it_said_when_it_accepted():
    person = RemoteParticipant("ann", 2.0, ANN, like=BOB)
    assert (person.labels, person.weight, person.is_local) == (("cat", "dog"), 2.0, False)
    assert str(person.data.kinds["x"]) == "shape (1, 4, 4) in bytes"


def test_until_it_comes_another_stands_for_it():
    person = RemoteParticipant("carl", 1.0, None, like=BOB)
    assert person.labels == (0, 1, 2)
    assert str(person.data.kinds["x"]) == "shape (7,)"


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
