"""Plays many settings side by side: so many processes on the CPU's cores, so many on the GPU, within a given time.

What is done is skipped, what was cut off goes on, and what does not fit is left for the next call.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evidence import cofed_adult, fedin_cifar, mhat_mnist
from evidence.experiment import SEEDS, Result
from evidence.result_files import RESULTS

Place = Literal["cpu", "gpu", "light"]
"""Where a job runs: on a core, on the GPU, or on the GPU without keeping it busy."""

GRACE = 20.0
"""Seconds at the end for what takes longer than foreseen; then whatever still runs is ended."""


@dataclass(frozen=True)
class Job:
    """One setting of an experiment under one seed."""

    experiment: str
    setting: str
    seed: int
    place: Place

    @property
    def name(self) -> str:
        return f"{self.experiment}.{self.setting}.{self.seed}"


def each(experiment: str, settings: Iterable[str], place: Place, seeds: Iterable[int] = SEEDS) -> list[Job]:
    """All settings under the first seed, then under the next."""
    listed = list(settings)
    return [Job(experiment, setting, seed, place) for seed in seeds for setting in listed]


def mhat(participants: int, place: Place) -> list[Job]:
    """The longest first, so that they do not end long after all others."""
    order = ("mhat-unlabelled", "mhat-labelled", "fd-unlabelled", "fd-labelled", "local-unlabelled", "local-labelled")
    return each("mhat_mnist", [f"{name}-{participants}" for name in order], place)


def narrow(settings: Mapping[str, Sequence[str]]) -> list[Job]:
    """On a CPU's scale: every method under the first seed, then under the next."""
    return [
        job
        for seed in SEEDS
        for experiment, names in settings.items()
        for job in each(experiment, [f"narrow-{name}" for name in names], "cpu", [seed])
    ]


AGAIN = [name for name in fedin_cifar.SETTINGS if name.startswith("again-")]
ABLATION = [f"small-{name}" for name in ("fedavg", "fedin", "without-in", "without-prox", "without-opt", "noise-0.8")]
NOISE = [f"small-{name}" for name in ("local", "noise-0.2", "noise-2.0", "noise-5.0", "exact", "own-statistics")]
WHY = ("same-half", "all-same-start", "half-same-start", "same-half-same-start")
FOREIGN = ("draftfed-svhn", "draftfed-cifar100")
NARROW = {
    "perhefed_cifar": ("local", "fedavg", "all", "half"),
    "draftfed_cifar": ("local", "draftfed"),
    "fedin_cifar": ("local", "fedavg", "fedin"),
}
NARROW_WHY = {
    "perhefed_cifar": (
        *("all-same-start", "half-same-start", "same-half-same-start", "all-trained", "half-trained"),
        "all-same-start-fresh",
        *(f"cifar-{name}" for name in ("local", "fedavg", "all", "all-same-start", "all-same-start-fresh")),
        *("fedavg-own-norms", "cifar-fedavg-own-norms"),
        *(f"long-{name}" for name in ("local", "fedavg", "all", "all-same-start", "half")),
    ),
    "draftfed_cifar": (
        *("draftfed-logits", "draftfed-mnist"),
        *(f"cifar-{name}" for name in ("local", "draftfed", "draftfed-logits", "draftfed-cifar100", "draftfed-svhn")),
    ),
    "fedin_cifar": (
        *("without-in", "without-prox", "without-opt", "exact"),
        *(f"noise-{level}" for level in (0.2, 0.8, 2.0, 5.0)),
        *("prox-0.005", "prox-0.5"),
        *(f"{kind}-{name}" for kind in ("partial", "longer", "cifar") for name in ("fedavg", "fedin")),
        *("cifar-without-in", "cifar-without-prox", "cifar-own-statistics"),
        *("cifar-fedavg-nudged", "cifar-fedin-nudged"),
        *(f"long-{name}" for name in ("fedavg", "without-in", "without-prox", "fedin", "prox-0.5")),
        *(f"long-parameters-{name}" for name in fedin_cifar.PARAMETERS),
        *(f"{kind}trained-{name}" for kind in ("", "cifar-") for name in fedin_cifar.TRAINED),
    ),
}
WHOLE = ("fedin", "fedavg", "without-prox", "without-in", "trained-fedin", "trained-fedavg")
LONGER = ("non-iid-local-longer", "iid-local-longer", "non-iid-cofed-margin", "iid-cofed-margin")

PLANNED = [
    *each("fedin_cifar", ("fedin", "fedavg"), "gpu", [0]),
    *mhat(20, "light"),
    *mhat(3, "cpu"),
    *each("cofed_cifar", ("non-iid-local", "non-iid-cofed", "iid-local", "iid-cofed"), "gpu", [0]),
    *each("perhefed_cifar", ("local", "fedavg", "all", "half"), "gpu", [0]),
    *each("draftfed_cifar", ("local", "draftfed"), "gpu", [0]),
    *each("fedin_cifar", ABLATION, "gpu", [0]),
    *each("cofed_cifar", ("non-iid-local", "non-iid-cofed", "iid-local", "iid-cofed"), "gpu", [1, 2]),
    *each("perhefed_cifar", ("local", "fedavg", "all", "half"), "gpu", [1, 2]),
    *each("draftfed_cifar", ("local", "draftfed"), "gpu", [1, 2]),
    *each("fedin_cifar", NOISE, "gpu", [0]),
    *each("perhefed_cifar", WHY, "gpu", [0]),
    *each("draftfed_cifar", FOREIGN, "gpu", [0]),
    *each("cofed_cifar", LONGER, "gpu", [0]),
    *each("fedin_cifar", ("local",), "gpu", [0]),
    *each("fedin_cifar", [*ABLATION, *NOISE], "gpu", [1, 2]),
    *each("draftfed_cifar", FOREIGN, "gpu", [1, 2]),
    *each("draftfed_cifar", ("draftfed-weighted", "draftfed-logits"), "gpu"),
    *each("perhefed_cifar", WHY, "gpu", [1, 2]),
    *each("cofed_cifar", LONGER, "gpu", [1, 2]),
    *each("fedin_cifar", [f"small-fashion-{name}" for name in ("fedavg", "fedin", "without-prox")], "gpu"),
    *each("fedin_cifar", ("small-prox-0.005",), "gpu"),
    *each("fedin_cifar", ("without-prox", "prox-0.005", "without-in", "own-statistics", "noise-0.8"), "gpu", [0]),
    *each("fedin_cifar", ("fedin", "fedavg", "without-prox", "prox-0.005"), "gpu", [1, 2]),
    *each("fedin_cifar", [f"trained-{name}" for name in fedin_cifar.TRAINED], "gpu", [0]),
    *each("fedin_cifar", [f"parameters-{name}" for name in fedin_cifar.PARAMETERS], "gpu"),
    *each("fedin_cifar", [f"narrow-whole-{name}" for name in WHOLE], "gpu", [0]),
    *each(
        "perhefed_cifar", [f"narrow-whole-{name}" for name in ("local", "fedavg", "all", "all-same-start")], "gpu", [0]
    ),
    *each("fedin_cifar", AGAIN, "gpu", [0]),
    *each("mhat_mnist", [f"{name}-labelled-3-slow" for name in ("fd", "mhat")], "cpu", [0]),
    *each("mhat_mnist", [f"mhat-labelled-3-long-{epochs}" for epochs in (1, 5)], "cpu", [0]),
    *each("mhat_mnist", [name for name in mhat_mnist.SETTINGS if name.startswith("choice-")], "cpu"),
    *each("mhat_mnist", ("mhat-labelled-20-mixed", "mhat-unlabelled-20-mixed"), "light"),
    *each("cofed_adult", cofed_adult.SETTINGS, "cpu"),
    *narrow(NARROW),
    *narrow(NARROW_WHY),
    *each("fedin_cifar", ("half-fedavg", "half-without-prox", "half-fedin", "half-prox-0.5"), "cpu"),
    *each("fedin_cifar", [f"half-parameters-{name}" for name in fedin_cifar.PARAMETERS], "cpu"),
]
"""In the order in which they are begun."""


class Schedule:
    """Keeps a given number of processes busy in each place until the time is up or nothing is left."""

    def __init__(self, jobs: Iterable[Job], slots: dict[str, int], arguments: Sequence[str], logs: Path) -> None:
        self.waiting = list(jobs)
        self.running: dict[subprocess.Popen[bytes], tuple[Job, float]] = {}
        self.slots, self.arguments, self.logs = slots, arguments, logs

    def run(self, minutes: float) -> None:
        """Every process is told when to stop; one that does not is ended."""
        self.logs.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + 60 * minutes
        while (self.waiting or self.running) and time.monotonic() < deadline:
            self._collect()
            while (job := self._next()) and time.monotonic() < deadline - GRACE:
                self.running[self._start(job, deadline - GRACE)] = (job, time.monotonic())
            if not self.running:
                break
            time.sleep(0.2)
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait()
        self._collect()

    def _next(self) -> Job | None:
        busy = [job.place for job, _ in self.running.values()]
        for job in self.waiting:
            if busy.count(job.place) < self.slots.get(job.place, 0):
                self.waiting.remove(job)
                return job
        return None

    def _start(self, job: Job, until: float) -> subprocess.Popen[bytes]:
        left = (until - time.monotonic()) / 60
        command = [sys.executable, "-m", f"evidence.{job.experiment}", *self.arguments]
        command += ["--settings", job.setting, "--seeds", str(job.seed), "--minutes", f"{left:.3f}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1" if job.place == "cpu" else "2"}
        if job.place == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        with (self.logs / f"{job.name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _collect(self) -> None:
        for process in [process for process in self.running if process.poll() is not None]:
            job, began = self.running.pop(process)
            ended = "ended" if process.returncode == 0 else f"failed with {process.returncode}"
            print(f"{job.name} {ended} after {time.monotonic() - began:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None, planned: Sequence[Job] = PLANNED) -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.run_all", description=__doc__)
    parser.add_argument("--data", required=True, help="the folder with the data sets")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=1, help="processes on the CPU")
    parser.add_argument("--gpu-jobs", type=int, default=0, help="processes that keep a GPU busy")
    parser.add_argument("--light-jobs", type=int, default=0, help="processes that use a GPU now and then")
    parser.add_argument("--only", nargs="+", default=[""], help="jobs whose EXPERIMENT.SETTING.SEED begins so")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=Path("runs/evidence"), help="where checkpoints are kept")
    parser.add_argument("--logs", type=Path, default=Path("runs/logs"))
    parser.add_argument("--bundle", type=Path, help="an archive to put results and logs into at the end")
    parser.add_argument("--list", action="store_true", help="say what would be played")
    chosen = parser.parse_args(arguments)
    jobs = [
        job
        for job in planned
        if job.name.startswith(tuple(chosen.only))
        and not Result(chosen.results, chosen.runs, job.experiment, job.setting, job.seed).done
    ]
    if chosen.list:
        print("\n".join(f"{job.place:6}{job.name}" for job in jobs))
        return
    slots = {"cpu": chosen.jobs, "gpu": chosen.gpu_jobs, "light": chosen.light_jobs}
    passed = ["--data", chosen.data, "--results", str(chosen.results), "--runs", str(chosen.runs)]
    Schedule(jobs, slots, passed, chosen.logs).run(chosen.minutes)
    if chosen.bundle:
        with tarfile.open(chosen.bundle, "w:gz") as bundle:
            bundle.add(chosen.results, "results")
            bundle.add(chosen.logs, "logs")


if __name__ == "__main__":
    main()
