"""The common model: it alone travels, all start with one, and a participant that sat out fetches it."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest
import torch

import potluck
from potluck import Fit, Payload
from potluck.methods.common_model import CommonModel
from tests.tables import cnn, mlp, participants


class Alone(CommonModel):
    """The common model is trained by itself: FedAvg of it."""

    weighting: Literal["samples", "uniform"] = "samples"

    def training(self, me):
        return Fit(model="common")


def played(**settings):
    people = participants([mlp(0), cnn(1), mlp(2, 5)])
    federation = potluck.Federation(people, Alone(common=partial(mlp, None, 4), **settings), seed=3, engine="serial")
    federation.run(2)
    return federation


def test_it_is_fedavg_of_the_common_model():
    common = played()
    start = Alone(common=partial(mlp, None, 4))
    alike = potluck.Federation(participants([mlp(0), mlp(0), mlp(0)]), start, seed=3, engine="serial")
    first = alike.participants["p0"].models["common"].model
    people = participants([first, first, first])
    people = [
        potluck.Participant(p.name, _copy(first), (p.data.x, p.data.y), plan=p.plan, labels=range(3)) for p in people
    ]
    potluck.Federation(people, potluck.methods.FedAvg(), seed=3, engine="serial").run(2)
    for person in common.participants.values():
        for name, entry in person.models["common"].weights().items():
            torch.testing.assert_close(entry, people[0].weights()[name])


def _copy(module):
    twin = mlp(9, 4)
    twin.load_state_dict(module.state_dict())
    return twin


def test_nothing_of_ones_own_model_travels():
    federation = played()
    size = Payload(federation.participants["p0"].models["common"].weights()).size
    rows = [row for row in federation.history.rows() if row["round"] == 2]
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows} == {(size, size)}
    torch.testing.assert_close(federation.participants["p1"].weights(), dict(cnn(1).state_dict()))


def test_norms_of_the_common_model_may_stay():
    people = participants([mlp(0), mlp(1)])
    method = Alone(common=partial(cnn, None), batchnorm="local")
    federation = potluck.Federation(people, method, seed=3, engine="serial")
    federation.run(1)
    first, second = (person.models["common"].weights() for person in federation.participants.values())
    assert not torch.equal(first["1.running_mean"], second["1.running_mean"])
    assert torch.equal(first["0.weight"], second["0.weight"])


def test_an_unknown_common_model_is_named():
    with pytest.raises(potluck.SettingsError, match="Did you mean 'mlp'"):
        Alone(common="mpl")
