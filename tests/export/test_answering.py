"""A way of answering as a torch module: what it reads, and what is known while it is traced."""

from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import ModelError
from potluck.export.answering import AnsweringModule, KnownValues, networks_of
from potluck.methods import CoFED, FedMRL, FedProto, Local
from tests.export.models import after_a_run, wide_mlp
from tests.tables import cnn


def read_by(me: potluck.Participant, answering=None) -> dict[str, torch.nn.Module]:
    return networks_of(me, answering or me.answering, me.data.inputs())


def test_networks_that_are_not_read_are_not_there():
    me = after_a_run(potluck.methods.FML())[0]
    assert set(me.models) == {"own", "common"}
    assert list(read_by(me)) == ["own"]


def test_all_networks_that_are_read_are_there():
    me = after_a_run(FedMRL(common="mlp"), *[wide_mlp] * 2)[0]
    assert sorted(read_by(me)) == ["common", "map", "own"]


def test_of_an_estimator_there_is_none():
    me = after_a_run(CoFED(update_batch_size=16), DecisionTreeClassifier(), DecisionTreeClassifier())[0]
    assert read_by(me) == {}


def test_a_method_that_makes_more_of_an_estimators_prediction_is_told():
    me = after_a_run(Local(), DecisionTreeClassifier())[0]

    def doubled(me, inputs):
        return 2 * (yield potluck.Predict(inputs))

    with pytest.raises(ModelError, match="answers with more than what its model predicts"):
        read_by(me, doubled)


def test_answers_without_readings_alone_are_told():
    me = after_a_run(Local())[0]

    def trained(me, inputs):
        yield potluck.Fit()

    def silent(me, inputs):
        yield from ()

    with pytest.raises(ModelError, match="answers with Fit; expected readings alone"):
        read_by(me, trained)
    with pytest.raises(ModelError, match="has nothing to answer with yet"):
        read_by(me, silent)


def test_it_answers_as_the_participant_does():
    me = after_a_run(FedProto())[0]
    module = AnsweringModule(me, me.answering, read_by(me), me.test.x)
    assert not module.training
    found = module(me.test.x)
    torch.testing.assert_close(found, torch.from_numpy(me.predict_proba(me.test.x.numpy())))


def test_what_is_known_can_decide_while_others_are_traced():
    known = torch.tensor([True, False])

    class Module(torch.nn.Module):
        def forward(self, x):
            with KnownValues():
                return x * 2 if known.any() else x

    rows = ({0: torch.export.Dim("rows")},)
    program = torch.export.export(Module(), (torch.ones(3, 2),), dynamic_shapes=rows).module()
    assert program(torch.ones(5, 2)).sum() == 20


def test_networks_of_any_type_are_taken():
    me = after_a_run(Local(), cnn(0, dtype=torch.float64))[0]
    assert AnsweringModule(me, me.answering, read_by(me), me.test.x)(me.test.x).dtype == torch.float64
