"""Worker processes: trainings that run side by side, one core for each worker.

Workers are forked, so they find models and data where they are. New weights come back through memory that both sides
share, everything else through a pipe.

What comes through the pipe is pickled: it was written by a copy of this very process, and nobody else can reach it.
"""

from __future__ import annotations

import mmap
import multiprocessing
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from potluck.core.job import Job
from potluck.core.processes import ending_with_parent
from potluck.engines.base import Timed, timed_alone
from potluck.learners.network import Network

CPU = torch.device("cpu")
ALIGNED = 64
"""At which multiples of bytes tensors begin in shared memory."""


@dataclass(frozen=True)
class Forked:
    """A training for a worker. With ``channels_last`` its network's convolutions run in that layout.

    Args:
        job: the training.
        channels_last: whether its network's convolutions run in that layout; by default False.
    """

    job: Job
    channels_last: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a worker could not carry a training out. The network is as it was.

    Args:
        reason: why.
    """

    reason: str


def cores() -> int:
    """How many workers there can be: as many as torch may use threads; 1 where processes cannot be forked."""
    return torch.get_num_threads() if sys.platform == "linux" else 1


@cache
def load_once() -> None:
    """Has torch import here what it imports at an optimizer's first step: it takes a second and more.

    A worker ends with its work, so in every wave each of them would do it again.
    """
    weight = torch.zeros(1, requires_grad=True)
    weight.grad = torch.zeros(1)
    torch.optim.SGD([weight]).step()


def answer_in_workers(work: Sequence[Forked]) -> list[Timed | Failure]:
    """Has workers do it. Answers and seconds in the order given.

    Results are written to the networks here, all of them after the last worker has ended.
    """
    load_once()
    context, end_with_us = multiprocessing.get_context("fork"), ending_with_parent(signal.SIGKILL)
    following = context.Value("l", 0)
    shared = SharedWeights([one.job for one in work])
    found: dict[int, Any] = {}
    lost = Failure("its process ended early.")
    processes: list[BaseProcess] = []
    ends: list[Connection] = []
    try:
        for _ in range(min(cores(), len(work))):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(work, shared, following, theirs, end_with_us), daemon=True)
            try:
                with warnings.catch_warnings():  # a worker computes with tensors and ends: locks do not matter
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
            except OSError as error:  # the system gives no further process, or no memory for one
                lost = Failure(f"no process could be started: {error}.")
                mine.close()
                break
            finally:
                theirs.close()
            processes.append(process)
            ends.append(mine)
        while ends:
            for end in wait(ends):
                assert isinstance(end, Connection)
                try:
                    index, answer = pickle.loads(end.recv_bytes())
                    found[index] = answer
                except EOFError:
                    ends.remove(end)
                    end.close()
    finally:
        for started in processes:
            if ends:  # stopped half-way, as by Ctrl-C
                started.terminate()
            started.join()
    return [_taken_over(one.job, found.get(index, lost), index, shared) for index, one in enumerate(work)]


def _work(
    work: Sequence[Forked],
    shared: SharedWeights,
    following: Any,
    results: Connection,
    end_with_parent: Callable[[], object],
) -> None:
    """What a worker does: the next training, until there is none. What fails here is done elsewhere."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    while True:
        with following.get_lock():
            index, following.value = following.value, following.value + 1
        if index >= len(work):
            return
        try:
            answer: Any = _carried_out(work[index], index, shared)
        except Exception as error:  # it may come again, with its traceback, where the job is answered alone
            answer = Failure(f"{type(error).__name__}: {error}")
        results.send_bytes(pickle.dumps((index, answer), protocol=pickle.HIGHEST_PROTOCOL))


def _carried_out(one: Forked, index: int, shared: SharedWeights) -> Any:
    """The answer, the seconds it took, and what the optimizer is to remember."""
    learner = one.job.learner
    assert isinstance(learner, Network)
    if one.channels_last:
        learner.model.to(memory_format=torch.channels_last)
    answer, seconds = timed_alone(one.job, CPU)
    shared.write(index)
    return answer, seconds, tree_map(_plain, learner.memory()) if one.job.keep_optimizer else None


def _plain(leaf: Any) -> Any:
    return leaf.contiguous() if isinstance(leaf, Tensor) else leaf


def _taken_over(job: Job, found: Any, index: int, shared: SharedWeights) -> Timed | Failure:
    if isinstance(found, Failure):
        return found
    assert isinstance(job.learner, Network)
    answer, seconds, memory = found
    shared.read(index)
    if memory is not None:
        job.learner.take_memory(memory)
    return answer, seconds


class SharedWeights:
    """Room for the new weights of networks, which a worker writes and the process that forked it reads.

    Args:
        jobs: the trainings of these networks, by whose position in the list weights are written and read.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        sizes = [sum(_padded(tensor) for tensor in _tensors(job)) for job in jobs]
        self._starts = [sum(sizes[:index]) for index in range(len(jobs))]
        self._bytes = torch.frombuffer(mmap.mmap(-1, max(1, sum(sizes))), dtype=torch.uint8)

    def write(self, index: int) -> None:
        """Puts a network's weights in."""
        for tensor, place in self._pairs(index):
            place.copy_(tensor)

    def read(self, index: int) -> None:
        """Takes a network's weights out."""
        for tensor, place in self._pairs(index):
            tensor.copy_(place)

    def _pairs(self, index: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of a network, and its place."""
        at = self._starts[index]
        for tensor in _tensors(self._jobs[index]):
            length = tensor.numel() * tensor.element_size()
            yield tensor, self._bytes[at : at + length].view(tensor.dtype).view(tensor.shape)
            at += _padded(tensor)


def _tensors(job: Job) -> list[Tensor]:
    assert isinstance(job.learner, Network)
    return [tensor.detach() for tensor in job.learner.tensors().values()]


def _padded(tensor: Tensor) -> int:
    length = tensor.numel() * tensor.element_size()
    return -(-length // ALIGNED) * ALIGNED
