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
    told(server, a=["x"], b=["x", "y"], c=["x", "y"])
    assert server.refused == {"a": "its labels are ['x']; expected ['x', 'y']"}, "most are right, not the first"
    server.refused = {}
    told(server, late=["y"], later=["y"])
    assert list(server.refused) == ["late", "later"]
    assert server.state["labels"] == ["x", "y"]
    with pytest.raises(RequirementsError, match="b differs from a: its labels are"):
        told(Server(seed=0, participant_weights={}), a=["x", "y"], b=["x"])
