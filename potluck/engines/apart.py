"""Worker processes: networks that gain nothing from being stacked are trained side by side, one core for each.

Workers are forked, so they find models and data where they are, and only results travel back.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from potluck.engines.local import timed_alone
from potluck.learners.network import Network
from potluck.requests import Fit, Job


@dataclass(frozen=True)
class Apart:
    """A job for a worker. With ``channels_last`` its network's convolutions run in that layout."""

    job: Job
    channels_last: bool = False


def workers() -> int:
    """How many there can be: as many as torch may use threads; 1 where processes cannot be forked."""
    return torch.get_num_threads() if sys.platform == "linux" else 1


def answer_apart(work: Sequence[Apart]) -> list[tuple[Any, float] | None]:
    """Has workers do it. Answers and seconds in the order given; None for what a worker could not do.

    Results are written to the networks here, all of them after the last worker has ended.
    """
    context = multiprocessing.get_context("fork")
    following = context.Value("l", 0)
    found: dict[int, Any] = {}
    processes, ends = [], []
    for _ in range(min(workers(), len(work))):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(work, following, theirs), daemon=True)
        with warnings.catch_warnings():  # a worker computes with tensors and ends: other threads' locks do not matter
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        processes.append(process)
        ends.append(mine)
    try:
        while ends:
            for end in wait(ends):
                assert isinstance(end, Connection)
                try:
                    index, answer = pickle.loads(end.recv_bytes())
                    found[index] = answer
                except EOFError:
                    ends.remove(end)
    finally:
        for process in processes:
            if ends:  # stopped half-way, as by Ctrl-C
                process.terminate()
            process.join()
    return [_taken_over(one.job, found.get(index)) for index, one in enumerate(work)]


def _work(work: Sequence[Apart], following: Any, results: Connection) -> None:
    """What a worker does: the next job, until there is none. A failure ends it; the job is then done elsewhere."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    while True:
        with following.get_lock():
            index, following.value = following.value, following.value + 1
        if index >= len(work):
            return
        try:
            answer = _carried_out(work[index])
        except Exception:  # it comes again, with its traceback, where the job is answered alone
            answer = None
        results.send_bytes(pickle.dumps((index, answer), protocol=pickle.HIGHEST_PROTOCOL))


def _carried_out(one: Apart) -> Any:
    learner = one.job.learner
    if one.channels_last and isinstance(learner, Network):
        learner.model.to(memory_format=torch.channels_last)
    answer, seconds = timed_alone(one.job, torch.device("cpu"))
    changed = isinstance(one.job.work, Fit) and isinstance(learner, Network)
    return answer, seconds, tree_map(_plain, learner.state()) if changed else None


def _plain(leaf: Any) -> Any:
    return leaf.contiguous() if isinstance(leaf, Tensor) else leaf


def _taken_over(job: Job, found: Any) -> tuple[Any, float] | None:
    if found is None:
        return None
    answer, seconds, state = found
    if state is not None:
        job.learner.restore(state)
    return answer, seconds


def convolves(model: nn.Module) -> bool:
    """Whether a network has convolutions, for which stacking and layouts make another difference than elsewhere."""
    return any(isinstance(layer, nn.modules.conv._ConvNd) for layer in model.modules())
