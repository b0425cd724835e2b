"""Which turns are captured and replayed, and that weights come out right: with graphs that are played by hand, so that
it is checked where there is no GPU."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from potluck.engines import Serial
from potluck.engines.batched import trainer as training
from potluck.engines.batched.cuda_graphs import CaptureError
from potluck.engines.batched.stacking import Capacity, SubStacks
from potluck.engines.batched.trainer import Training
from tests.jobs import trainings

CPU = torch.device("cpu")


class Stream:
    def wait_stream(self, other):
        pass


class ByHand:
    """In the place of a graph: takes the step itself."""

    def __init__(self, step):
        self.step, self.replays = step, 0

    def __call__(self, inputs):
        self.replays += 1
        return self.step(inputs)


@pytest.fixture
def captured(monkeypatch):
    made = []

    def replayed(step, inputs, stream, pool, try_kernels):
        step(inputs)  # spoils the weights, as warming up does
        made.append(ByHand(step))
        return made[-1]

    monkeypatch.setattr(training, "replayed", replayed)
    monkeypatch.setattr(Training, "_beside", lambda self: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return made


def with_graphs(made, capacity):
    found = Training(made, capacity, CPU)
    found._stream, found._substacks = Stream(), SubStacks(found.state, kept=True)
    return found


def train(one, made):
    one.load(made)
    for _ in one.steps():
        pass
    one.fetch_losses()
    one.finish()


def test_what_comes_often_is_replayed_and_gives_the_serial_result(captured):
    alone, together = trainings(sizes=(40, 57, 40)), trainings(sizes=(40, 57, 40))
    Serial(CPU).answer(alone)
    train(with_graphs(together, Capacity.of(together)), together)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-8, atol=1e-8)
    # The second comes to an odd batch and waits until the others, who never come to one, are through.
    replays = {graph.step.keywords["key"].shape: graph.replays for graph in captured}
    assert replays == {(3, 8): 6, (2, 8): 24, (1, 9): 6, (1, 8): 30}


def test_later_trainings_use_the_same_graphs(captured):
    capacity = Capacity(2, 200)
    one = with_graphs(trainings(sizes=(44,)), capacity)
    for _ in range(3):
        alone, together = trainings(sizes=(44,)), trainings(sizes=(44,))
        Serial(CPU).answer(alone)
        train(one, together)
        torch.testing.assert_close(alone[0].learner.weights(), together[0].learner.weights(), rtol=1e-8, atol=1e-8)
    assert [graph.replays for graph in captured] == [90, 18], "full batches, and rests of 4"


def test_a_training_says_why_most_of_its_turns_are_in_no_graph(monkeypatch):
    refused = []

    def replayed(step, inputs, stream, pool, try_kernels):
        if len(inputs.samples["y"][0]) in refused:
            raise CaptureError("it looks at a number")
        step(inputs)
        return ByHand(step)

    monkeypatch.setattr(training, "replayed", replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    found = []
    for refused[:] in ([], [4], [8, 4]):  # of 44 samples in batches of 8, the last batch has 4
        made = trainings(sizes=(44, 44))
        one = with_graphs(made, Capacity.of(made))
        monkeypatch.setattr(torch.cuda, "current_stream", Stream)
        one.load(made)
        found.append(one.uncaptured)
    assert found == [None, None, "it looks at a number"]
