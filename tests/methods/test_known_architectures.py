from __future__ import annotations

from functools import partial

import pytest

import potluck
from potluck.methods import FedDF
from tests.methods.plain import PLAN
from tests.tables import cnn, made_data, mlp, participants

KNOWN = (partial(cnn, None, 2), partial(mlp, None, 4))


def test_each_ones_architecture_is_found_by_its_weights():
    """Their precision may be another one."""
    people = participants([mlp(0, 4).float(), cnn(1, 2)], plan=PLAN, dtype="float32")
    method = FedDF(architectures=KNOWN)
    federation = potluck.Federation(people, method, public=made_data(9, 1, dtype="float32")[0], engine="serial")
    federation.run(0)
    found = [method.architecture(federation.server, name) for name in ("p0", "p1")]
    assert found == ["architecture_1", "architecture_0"]


def test_a_network_that_the_server_does_not_know_is_refused():
    people = participants([mlp(0, 4), mlp(1, 5)], plan=PLAN)
    federation = potluck.Federation(people, FedDF(architectures=("mlp", *KNOWN)), public=made_data(9, 1)[0])
    with pytest.raises(potluck.RequirementsError, match=r"p1.*its network is none that the server knows: mlp, "):
        federation.run(0)


def test_some_architecture_is_named():
    with pytest.raises(potluck.SettingsError, match="architectures"):
        FedDF(architectures=())
    assert FedDF(architectures=("mlp",)).architectures == ("mlp",)
