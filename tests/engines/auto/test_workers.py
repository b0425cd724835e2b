"""Worker processes give what the serial engine gives, end with the run, and say what they could not do."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from potluck.engines import Serial
from potluck.engines.auto import workers
from potluck.engines.auto.workers import Failure, Forked, answer_in_workers, cores
from tests.engines.auto.helpers import jobs_of, same
from tests.tables import cnn, mlp

CPU = torch.device("cpu")


@pytest.mark.parametrize("channels_last", [False, True])
def test_workers_give_the_serial_result(channels_last, two_cores):
    alone, mine = (jobs_of(cnn, cnn, mlp, keep_optimizer=True) for _ in range(2))
    expected = Serial(CPU).answer(alone)
    found = answer_in_workers([Forked(job, channels_last) for job in mine])
    same(alone, mine)
    assert [answer.steps for answer, _ in found] == [answer.steps for answer in expected]
    assert all(entry.is_contiguous() for job in mine for entry in job.learner.weights().values())


class Sleeper(nn.Module):
    """Says which process it is in, and then does not come back for a minute."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        os.write(1, f"{os.getpid()}\n".encode())
        time.sleep(60)


def train_endlessly():
    torch.set_num_threads(2)
    answer_in_workers([Forked(job) for job in jobs_of(*[lambda seed: Sleeper()] * 2)])


def test_workers_do_not_outlive_a_run_that_is_killed():
    """They would keep the cores busy until their trainings are over, for nobody."""
    command = [sys.executable, "-c", f"from {__name__} import train_endlessly; train_endlessly()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(run.stdout.readline()) for _ in range(2)]
        run.kill()
        # The pipe ends when nobody can write to it any more: neither the run nor its workers.
        ended, _, _ = select.select([run.stdout], [], [], 20)
        assert ended
        assert run.stdout.read() == ""
    assert run.pid not in pids


class Failing(nn.Module):
    """Does in ``forward`` what the test says."""

    def __init__(self, does):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.does = does

    def forward(self, x):
        self.does()


def fail():
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("does", "reason"), [(fail, "ValueError: broken"), (lambda: os._exit(1), "its process ended early.")]
)
def test_what_a_worker_cannot_do_is_told(does, reason, two_cores):
    failing, other = jobs_of(lambda seed: Failing(does), cnn)
    failed, (answer, _) = answer_in_workers([Forked(failing), Forked(other)])
    assert failed == Failure(reason)
    assert answer.steps > 0


def test_where_no_process_can_be_started_that_is_told(two_cores, monkeypatch):
    def refuse(self):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.context.ForkProcess.start", refuse)
    [failed] = answer_in_workers([Forked(job) for job in jobs_of(cnn)])
    assert failed == Failure("no process could be started: [Errno 11] Resource temporarily unavailable.")


def test_workers_are_as_many_as_threads(monkeypatch):
    assert cores() == torch.get_num_threads()
    monkeypatch.setattr(workers.sys, "platform", "darwin")
    assert cores() == 1


def modules_that_a_training_imports():
    workers.load_once()
    before = set(sys.modules)
    for job in jobs_of(cnn, mlp, keep_optimizer=True):
        job.answer(CPU)
    return sorted(set(sys.modules) - before)


def test_workers_find_imported_what_a_training_imports():
    """Each wave's workers are new: what they import, for a second and more, they would import in every wave."""
    code = f"from {__name__} import modules_that_a_training_imports as found; print(found())"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "[]"
