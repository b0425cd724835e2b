"""What the server's half of a method may know and keep."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from potluck.core.classification import Classification
from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.model_spec import ModelSpec
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.core.samples import Samples
from potluck.federation.server import Server
from potluck.methods import MHAT
from tests.tables import made_data, mlp

X = torch.from_numpy(made_data(5, 0)[0])
PUBLIC = Samples({"x": X})

THREE = Classification((0, 1, 2))


def built(classes, hidden=4):
    """A network with the weights that the seed of the moment gives."""
    return mlp(None, hidden, classes)


def server(seed=1, public=PUBLIC, names=("a", "b", "auxiliary", "other"), builder=built):
    """A server whose method declares networks of these names."""
    return Server(seed, {}, public, declare=lambda server: dict.fromkeys(names, builder), task=THREE)


def weights(network):
    return {name: entry.clone() for name, entry in network.weights().items()}


def test_public_samples_are_counted():
    assert Server(1, {}, PUBLIC).public_size == 5
    assert Server(1, {}).public_size == 0


def test_a_model_of_the_servers_own_is_built_once_under_its_seed():
    models = server().models
    first = models["auxiliary"]
    assert models["auxiliary"] is first
    assert not torch.equal(*(models[name].weights()["1.weight"] for name in ("auxiliary", "other")))
    for other, alike in ((server(1), True), (server(2), False)):
        torch.manual_seed(9)
        found = other.models["auxiliary"].weights()["1.weight"]
        assert torch.equal(found, first.weights()["1.weight"]) == alike


def test_what_a_checkpoint_keeps_is_taken_up_when_the_model_is_asked_for():
    one = server()
    for name in ("a", "b"):
        network = one.models[name]
        network.load({key: torch.full_like(entry, 2.0) for key, entry in network.weights().items()})
    one.state["round"] = 4
    one.memo["worked out"] = 1
    again = server()
    before = again.models["a"]  # one that was there before is let go
    again.memo["worked out"] = 2
    again.restore(one.snapshot())
    assert again.state == {"round": 4}
    assert again.memo == {}
    assert again.models["a"] is not before
    assert (again.models["a"].weights()["1.weight"] == 2.0).all()
    assert set(again.snapshot()["learners"]) == {"a", "b"}, "b was not asked for, and is kept"
    third = server()
    third.restore(again.snapshot())
    assert (third.models["b"].weights()["1.weight"] == 2.0).all()


def test_the_server_has_nothing_that_a_request_may_leave_open_but_a_plan():
    one = server()
    assert one.learner_for("a") is one.models["a"]
    assert one.samples_for(PUBLIC) is PUBLIC
    assert one.plan_for(None) == Plan()
    assert one.plan_for(Plan(lr=0.5)) == Plan(lr=0.5)
    with pytest.raises(TypeError, match=r"The server has no model of its own: name one"):
        one.learner_for(None)
    with pytest.raises(ModelError, match=r"the server has no model 'c'\. Known: a, auxiliary, b, other"):
        one.learner_for("c")
    with pytest.raises(DataError, match=r"The server has no data of its own: name some"):
        one.samples_for(None)


def test_random_numbers_are_the_rounds_and_the_purposes():
    def drawn(round, purpose):
        server = Server(1, {})
        server.round = round
        return torch.rand(3, generator=server.generator(purpose)).tolist()

    assert drawn(1, "pairs") == drawn(1, "pairs")
    assert len({tuple(drawn(*what)) for what in ((1, "pairs"), (2, "pairs"), (1, "others"))}) == 3


def test_a_model_that_is_not_there_is_refused_with_the_settings():
    assert MHAT(auxiliary="cnn").auxiliary == "cnn"
    assert MHAT(auxiliary=partial(built, hidden=2)).auxiliary.keywords == {"hidden": 2}
    with pytest.raises(SettingsError, match=r"There is no model 'resnet11'\. Did you mean 'resnet1"):
        MHAT(auxiliary="resnet11")


def test_a_model_is_built_for_the_public_data_if_there_are_any():
    asked = []

    def noting(input_shape, classes):
        asked.append((input_shape, classes))
        return mlp(None, classes=classes)

    for public in (PUBLIC, None):
        declaring = {"a": noting, "b": ModelSpec(noting, classes=5, input_shape=(2,))}
        one = Server(
            1,
            {},
            public,
            declare=lambda server, found=declaring: found,
            input_shape=(4,),
            task=THREE,
        )
        one.build_models()
    assert asked == [((1, 6, 6), 3), ((2,), 5), ((4,), 3), ((2,), 5)]


def test_a_model_trains_as_it_was_declared():
    plan = Plan(optimizer="sgd", lr=0.5)
    party = Server(1, {}, PUBLIC, declare=lambda server: {"a": ModelSpec(built, plan=plan), "b": built}, task=THREE)
    assert Fit(model="a", on=PUBLIC).addressed(party, 0, keep_optimizer=False).plan == plan
    assert Fit(model="b", on=PUBLIC).addressed(party, 0, keep_optimizer=False).plan == Plan()
    assert party.spec_of("c") is None
