"""What FedAvg and its relatives tell at joining, and how they start."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg
from tests.tables import made_data, mlp, participants

SERVER = Server(0, {"a": 1.0})


def greeting(**layout):
    return Payload(facts={"samples": 3, "layout": layout})


def check(payload):
    FedAvg().answered_by("greet")[1](SERVER, "a").check(payload)


@pytest.mark.parametrize(
    "entry", [["float32"], ["int64", 0], ["bfloat16", 2, 3], ["float64", 2**40 - 1], ["bool"] + [1] * 8]
)
def test_an_entry_has_a_type_and_a_shape(entry):
    check(greeting(a=entry))


@pytest.mark.parametrize(
    "entry",
    [
        [],
        ["complex64", 1],
        [3],
        ["float32", -1],
        ["float32", 2**40],
        ["float32", "2"],
        ["float32", 2, "x"],
        ["bool"] + [1] * 9,
        "float32",
    ],
)
def test_any_other_entry_is_refused(entry):
    with pytest.raises(PayloadError, match=r"^fact 'layout' is "):
        check(greeting(a=entry))


@pytest.mark.parametrize("samples", [0, -1, 1.5, "3", None])
def test_everyone_has_at_least_one_sample(samples):
    with pytest.raises(PayloadError, match=r"^fact 'samples' is "):
        check(Payload(facts={"samples": samples, "layout": {}}))


def test_if_the_weights_to_start_from_are_refused_nobody_can_start():
    people = participants([mlp(0), mlp(1)])
    people[0].load({"1.weight": torch.full((8, 36), float("nan"), dtype=torch.float64)})
    with pytest.raises(potluck.RequirementsError, match=r"^p0 was to send the weights to start from, but they were"):
        potluck.Federation(people, FedAvg(), test=made_data(10, 3), engine="serial").run(1)


def test_who_does_not_give_the_first_weights_may_be_refused():
    """Whoever sends nothing at the start, being second, is not waited for."""
    people = participants([mlp(0), mlp(1)])
    people[1].load({"1.weight": torch.full((8, 36), float("nan"), dtype=torch.float64)})
    rows = potluck.Federation(people, FedAvg(), engine="serial").run(1).rows()
    assert [row["refused"] for row in rows] == [None, None], "it starts from the first one's"
