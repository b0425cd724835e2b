"""Joining with one label space."""

from __future__ import annotations

import pytest

from potluck import Payload, RequirementsError
from potluck.federation.server import Server
from potluck.methods.label_sharing import LabelSharing


def told(server, **labels):
    return LabelSharing().labels(server, iter([(name, Payload(facts={"labels": own})) for name, own in labels.items()]))


def test_the_server_stores_the_labels_that_all_have():
    server = Server(seed=0, participant_weights={})
    told(server, a=["x", "y"], b=["x", "y"])
    assert server.state["labels"] == ["x", "y"]


def test_who_differs_is_named_also_when_joining_late():
    server = Server(seed=0, participant_weights={})
    with pytest.raises(RequirementsError, match="b has labels"):
        told(server, a=["x", "y"], b=["x"])
    told(server, a=["x", "y"])
    with pytest.raises(RequirementsError, match="late"):
        told(server, late=["y"])
