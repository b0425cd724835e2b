"""The federations that are measured: of the stated shapes, the same every time, and something to learn in them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from potluck.bench.scenarios import ALL_DIFFERENT, CNN, COFED, FEDIN, IDLE, MLP, RESNET34, federation, server_load
from potluck.methods import FedIN, Local, PerHeFed
from potluck.models import build

RESNET = RESNET34.replace(models=("resnet10",), count=2)


def layers(model):
    return tuple(tuple(entry.shape) for entry in build(model, (3, 32, 32), 10).state_dict().values())


def test_shapes_are_those_of_the_papers():
    assert (MLP.count, MLP.samples, MLP.shape, MLP.steps) == (100, 600, (784,), 19)
    assert (CNN.count, CNN.samples, CNN.shape, CNN.steps) == (20, 250, (3, 32, 32), 5)
    assert (MLP.plan.optimizer, MLP.plan.lr, CNN.plan.optimizer, CNN.plan.lr) == ("sgd", 0.1, "adam", 1e-3)
    assert Counter(FEDIN.participant_models()) == {f"resnet{depth}": 20 for depth in (10, 14, 18, 22, 26)}
    assert Counter(COFED.participant_models()) == {f"cofed{number}": 10 for number in range(1, 11)}
    assert (FEDIN.plan.batch_size, COFED.plan.batch_size) == (16, 50)


def test_all_different_means_all_different():
    assert len({layers(model) for model in ALL_DIFFERENT.participant_models()}) == ALL_DIFFERENT.count == 100


def test_data_are_the_same_every_time_and_differ_between_participants():
    small = MLP.replace(count=2, samples=8)
    (x, y), (other, _) = small.datasets()
    (again, same), _ = small.datasets()
    assert x.dtype == np.float32
    assert x.shape == (8, 784)
    assert (x == again).all()
    assert (y == same).all()
    assert not (x == other).any()


def test_engines_start_alike_and_learn():
    small = CNN.replace(count=2, samples=50)
    federations = [federation(small, engine) for engine in ("serial", "batched")]
    starts = [joined.participants["p00000"].weights() for joined in federations]
    for joined in federations:
        joined.run(1)
    ends = [joined.participants["p00000"].weights() for joined in federations]
    assert all(torch.equal(one, other) for one, other in zip(starts[0].values(), starts[1].values(), strict=True))
    assert not torch.equal(starts[0]["fc.weight"], ends[0]["fc.weight"])
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-3, atol=1e-3)


def test_doing_nothing_takes_one_step():
    joined = federation(IDLE.replace(count=2), "serial", method=Local())
    before = joined.participants["p00000"].weights()
    joined.run(1)
    assert IDLE.steps == 1
    assert not torch.equal(before["answer"], joined.participants["p00000"].weights()["answer"])


@pytest.mark.parametrize("senders", [1, 5])
@pytest.mark.parametrize(("method", "exchange"), [(PerHeFed(), "share"), (FedIN(), "update")])
def test_a_few_stand_for_many(method, exchange, senders):
    many = server_load(RESNET, method, senders)
    assert many.exchange == exchange
    assert many.bytes == sum(payload.size for payload in many.answers.values()) > 1_000_000 * senders
    replies = many.check_and_merge()
    assert list(replies) == list(many.answers) == list(many.merge())
    assert len({id(payload) for payload in many.answers.values()}) == min(senders, RESNET.count)


def test_many_of_one_answer_merge_to_that_answer():
    many = server_load(RESNET.replace(count=1), PerHeFed(), senders=3)
    sent = next(iter(many.answers.values()))
    for reply in many.merge().values():
        for name, entry in reply.tensors.items():
            torch.testing.assert_close(entry, sent[name])
