"""A profiler for a run: where its time went, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from potluck.core.job import Job

PHASES = {
    "train": "participants and the server learn",
    "predict": "predictions on public or own samples",
    "tap": "outputs of inner layers are read",
    "method": "the participants' halves of the method",
    "merge": "the server checks and merges answers, and makes replies",
    "channel": "payloads are coded and decoded",
    "copy": "data and models are copied to and from the device",
    "storage": "participants are written to disk and read back",
    "evaluate": "all participants are evaluated",
    "checkpoint": "the history and checkpoints are written",
    "other": "everything else",
}
"""The phases of a profile, and what they mean."""


class Profiler:
    """Times phases. A phase inside another one pauses it, so that every second is counted once.

    Args:
        device: what the run computes on; by default a CPU. On a GPU the profiler waits for the work of a phase where
            it ends, which costs a little time.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._waits = device is not None and device.type == "cuda"
        self._phases: list[str] = []
        self._since = 0.0

    def __call__(self, phase: str) -> AbstractContextManager[None]:
        """``with profiler("merge"): …`` counts what happens inside as merging."""
        return _Phase(self, phase)

    def start(self, phase: str) -> None:
        """Pauses the phase that goes on, if any, and begins another."""
        self._charge()
        self._phases.append(phase)

    def stop(self) -> None:
        """Ends the phase that goes on, and goes back to the one before it."""
        self._charge()
        self._phases.pop()

    def _charge(self) -> None:
        if self._waits:
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._phases:
            phase = self._phases[-1]
            self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now

    def table(self) -> str:
        """Phases, seconds and shares, the longest first."""
        total = sum(self.seconds.values())
        table = Table("phase", title="where the time went")
        table.add_column("seconds", justify="right")
        table.add_column("share", justify="right")
        table.add_column("what it is")
        for phase, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            table.add_row(phase, f"{seconds:.2f}", f"{100 * seconds / total:.1f}%", PHASES.get(phase, ""))
        table.add_section()
        table.add_row("all", f"{total:.2f}", "", "")
        console = Console(width=100, force_terminal=False, color_system=None, markup=False, emoji=False)
        with console.capture() as capture:
            console.print(table)
        return capture.get()


class PhaseTiming(dict[str, AbstractContextManager[None]]):
    """``with timing["merge"]: …`` counts what happens inside as this phase, if anybody profiles.

    Where nobody does, to enter a phase that was looked up before calls nothing of ours.
    """

    def __init__(self) -> None:
        super().__init__()
        self._profiler: Profiler | None = None

    def begin(self, profiler: Profiler) -> None:
        """Counts from now on, also for those who hold this already."""
        self._profiler = profiler
        self.clear()

    def __missing__(self, phase: str) -> AbstractContextManager[None]:
        self[phase] = found = nullcontext() if self._profiler is None else self._profiler(phase)
        return found


def by_phase(profiler: Profiler, jobs: Sequence[Job], carry_out: Callable[[list[Job]], list[Any]]) -> list[Any]:
    """What ``carry_out`` gives for jobs, with training, predicting and tapping timed apart."""
    found: dict[int, Any] = {}
    for phase in dict.fromkeys(job.work.phase for job in jobs):
        own = [index for index, job in enumerate(jobs) if job.work.phase == phase]
        with profiler(phase):
            found.update(zip(own, carry_out([jobs[index] for index in own]), strict=True))
    return [found[index] for index in range(len(jobs))]


class _Phase(AbstractContextManager[None]):
    def __init__(self, profiler: Profiler, phase: str) -> None:
        self._profiler, self._phase = profiler, phase

    def __enter__(self) -> None:
        self._profiler.start(self._phase)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._profiler.stop()
