"""The federations that are measured: of the stated shapes, the same every time, and something to learn in them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from potluck.bench.scenarios import CNN, COFED, DIFFERENT, FEDIN, MLP, NOTHING, RESNET34, crowd, federation
from potluck.methods import FedIN, Local, PerHeFed
from potluck.models import build

RESNET = RESNET34.replace(models=("resnet10",), count=2)


def layers(model):
    return tuple(tuple(entry.shape) for entry in build(model, (3, 32, 32), 10).state_dict().values())


def test_shapes_are_those_of_the_papers():
    assert (MLP.count, MLP.samples, MLP.shape, MLP.steps) == (100, 600, (784,), 19)
    assert (CNN.count, CNN.samples, CNN.shape, CNN.steps) == (20, 250, (3, 32, 32), 5)
    assert (MLP.plan.optimizer, MLP.plan.lr, CNN.plan.optimizer, CNN.plan.lr) == ("sgd", 0.1, "adam", 1e-3)
    assert Counter(FEDIN.brought()) == {f"resnet{depth}": 20 for depth in (10, 14, 18, 22, 26)}
    assert Counter(COFED.brought()) == {f"cofed{number}": 10 for number in range(1, 11)}
    assert (FEDIN.plan.batch_size, COFED.plan.batch_size) == (16, 50)


def test_all_different_means_all_different():
    assert len({layers(model) for model in DIFFERENT.brought()}) == DIFFERENT.count == 100


def test_data_are_the_same_every_time_and_differ_between_participants():
    small = MLP.replace(count=2, samples=8)
    (x, y), (other, _) = small.shares()
    (again, same), _ = small.shares()
    assert x.dtype == np.float32
    assert x.shape == (8, 784)
    assert (x == again).all()
    assert (y == same).all()
    assert not (x == other).any()


def test_engines_start_alike_and_learn():
    small = CNN.replace(count=2, samples=50)
    seated = [federation(small, engine) for engine in ("serial", "batched")]
    starts = [table.participants["p00000"].weights() for table in seated]
    for table in seated:
        table.run(1)
    ends = [table.participants["p00000"].weights() for table in seated]
    assert all(torch.equal(one, other) for one, other in zip(starts[0].values(), starts[1].values(), strict=True))
    assert not torch.equal(starts[0]["fc.weight"], ends[0]["fc.weight"])
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-3, atol=1e-3)


def test_doing_nothing_takes_one_step():
    table = federation(NOTHING.replace(count=2), "serial", method=Local())
    before = table.participants["p00000"].weights()
    table.run(1)
    assert NOTHING.steps == 1
    assert not torch.equal(before["answer"], table.participants["p00000"].weights()["answer"])


@pytest.mark.parametrize(("method", "exchange"), [(PerHeFed(), "share"), (FedIN(), "update")])
def test_a_few_stand_for_a_crowd(method, exchange):
    many = crowd(RESNET, method, senders=5)
    assert many.exchange == exchange
    assert many.bytes == sum(payload.size for payload in many.senders.values()) > 10_000_000
    replies = many.check_and_merge()
    assert list(replies) == list(many.senders) == list(many.merge())
    assert len({id(payload) for payload in many.senders.values()}) == RESNET.count


def test_a_crowd_of_one_answer_merges_to_that_answer():
    many = crowd(RESNET.replace(count=1), PerHeFed(), senders=3)
    sent = next(iter(many.senders.values()))
    for reply in many.merge().values():
        for name, entry in reply.tensors.items():
            torch.testing.assert_close(entry, sent[name])
