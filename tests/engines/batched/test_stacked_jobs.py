"""Stacks of jobs: what kind they are, and how they are cut."""

from __future__ import annotations

from potluck.core.requests import Fit, Predict
from potluck.engines.batched.stacked_jobs import UNCAPTURED, JobStack
from tests.jobs import REQUESTS, jobs, samples
from tests.tables import cnn


def stack(work=lambda i, learner: Fit(), count=3):
    made = jobs(work, sizes=(20,) * count)
    return JobStack(None, made, [2 * place for place in range(count)])


def test_a_stack_is_cut_into_pieces_with_their_places():
    whole = stack(count=5)
    assert [piece.at for piece in whole.cut(2)] == [[0, 2], [4, 6], [8]]
    assert [len(piece.jobs) for piece in whole.cut(2)] == [2, 2, 1]
    assert whole.cut(5) == [whole]


def test_a_stack_knows_what_its_jobs_are():
    assert stack().writes
    assert not stack(lambda i, learner: Predict(samples(9, 1))).writes
    assert not stack().draws
    assert stack().kind == type(cnn(0)).__name__
    assert stack(REQUESTS["cross entropy"], UNCAPTURED - 1).small
    assert not stack(REQUESTS["cross entropy"], UNCAPTURED).small
