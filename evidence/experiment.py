"""What an experiment is: settings by name, each of which sets a table for a seed; and how one is played and kept."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import potluck
from evidence.result_files import RESULTS, file_of
from potluck.core.history import Row
from potluck.core.model_spec import OWN
from potluck.core.samples import SharedData
from potluck.data import Source
from potluck.federation.fingerprint import fingerprint, settings_as_run
from potluck.reproduction.circumstances import load, made_with
from potluck.reproduction.result_lines import ResultLine, append, read_lines, withdraw

SEEDS = (0, 1, 2)


class Data:
    """A folder of data sets: ``NAME.npz`` as ``potluck.data.npz`` reads them, and ``adult/`` with UCI's two files."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._read: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self._read:
            self._read[name] = potluck.data.npz(self.folder / f"{name}.npz")
        return self._read[name]


def kind(name: str) -> str:
    """The kind of model that a participant has, by which its name begins: ``resnet18-003``, ``tree-07``."""
    return name.rpartition("-")[0]


Whose = Callable[[potluck.Federation], Mapping[str, potluck.Participant]]
"""Whose models are measured."""


def everyone(federation: potluck.Federation) -> dict[str, potluck.Participant]:
    """Whose accuracy is measured where nothing else is said."""
    return federation.participants


@dataclass
class Setup:
    """One setting under one seed, ready to be played.

    ``test`` is measured on after every ``every``-th round, the first and the last, by ``whose`` models: a federation
    with test data of its own would measure everybody in every round, which costs more than training. ``about`` is
    noted with the results. ``saving`` is how many seconds a checkpoint may take; None where none is kept, since a
    single round cannot be stopped half-way.
    """

    federation: potluck.Federation
    rounds: int
    test: tuple[Any, Any]
    every: int = 1
    whose: Whose = everyone
    about: dict[str, Any] = field(default_factory=dict)
    saving: float | None = 5.0

    @cached_property
    def _shown(self) -> SharedData:
        return SharedData(torch.as_tensor(self.test[0]), np.asarray(self.test[1]), "test data")

    def accuracies(self) -> dict[str, float]:
        """Each one's accuracy on the test samples whose labels it knows."""
        people, answering = self.whose(self.federation), {OWN: self.federation.method.predict}
        found = self.federation.engine.evaluate(people, lambda person: person.own_test(self._shown), answering)
        accuracies = {name: scores[OWN]["accuracy"] for name, scores in found.items()}
        return {name: float(accuracy) for name, accuracy in accuracies.items() if accuracy is not None}


Maker = Callable[[Data, int], Setup]


class OutOfTimeError(Exception):
    """The next round might not end in time."""


class Result:
    """What one setting under one seed gave so far, in a draft that grows with every round, then as a line that is kept.

    Args:
        folder: of the results.
        drafts: the folder of what is not finished.
        experiment: what is played.
        setting: which of its settings.
        seed: the seed.
    """

    def __init__(self, folder: Path, drafts: Path, experiment: str, setting: str, seed: int) -> None:
        self.name, self.key = f"{experiment}.{setting}.{seed}", (experiment, setting, seed)
        self.path = file_of(experiment, setting, folder)
        self.draft = drafts / f"{self.name}.json"
        self.content: dict[str, Any] = {"rounds": [], "start": now(), "load before": load()}
        if self.draft.exists():
            self.content = json.loads(self.draft.read_text())

    @property
    def done(self) -> bool:
        """Whether a line says so that counts."""
        lines = (line for line in read_lines(self.path) if line.withdrawn is None)
        return any((line.experiment, line.setting, line.seed) == self.key and line.done for line in lines)

    def write(self, **more: Any) -> None:
        """Adds to what is known, and writes the draft whole or not at all."""
        self.content |= more
        self.draft.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.draft.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self.content) + "\n")
        unfinished.replace(self.draft)

    def keep(self, done: bool) -> None:
        """Adds the line. What was kept of the same run when it was cut off is withdrawn: the line holds it, too."""
        rounds = self.content["rounds"]
        if not rounds:
            return
        experiment, setting, seed = self.key
        known = {name: self.content.get(name) for name in ("start", "planned", "about", "participants", "received")}
        kept = append(
            self.path,
            ResultLine(
                run=self.name,
                experiment=experiment,
                setting=setting,
                seed=seed,
                seconds=round(sum(row["seconds"] for row in rounds), 2),
                played=len(rounds),
                done=done,
                beside={"cores": os.cpu_count(), "load before": self.content["load before"], "load after": load()},
                rounds={name: [row[name] for row in rounds] for name in EACH_ROUND},
                measured={name: [row[name] for row in rounds if "accuracy" in row] for name in MEASURED},
                **known,
                **self.content["made with"],
            ),
        )
        if before := self.content.get("kept"):
            withdraw(self.path, before, f"cut off; {kept.run} goes on with it")
        if done:
            self.draft.unlink()
        else:
            self.write(kept=kept.run)


EACH_ROUND = ("seconds", "bytes_up", "bytes_down", "refused")
MEASURED = ("round", "accuracy", "worst")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def play(setup: Setup, result: Result, runs: Path, deadline: float = float("inf")) -> bool:
    """Plays until the last round or the deadline; goes on where an earlier call stopped. True if it is done."""
    federation = setup.federation
    folder = None if setup.saving is None else runs / result.name
    if folder is not None:
        federation.run(0, run_dir=folder, resume=True)  # takes up what there is
    kept = [row for row in result.content["rounds"] if row["round"] <= federation.history.rounds]
    about = {name: value for name, value in setup.about.items() if name != "plan"}
    result.write(
        rounds=kept,
        planned=setup.rounds,
        about=about | {"participants": len(federation.participants)},
        **{"made with": _made_with(setup)},
    )
    began, recent = time.monotonic(), deque[float](maxlen=3)

    def note(_: potluck.Federation, rows: list[Row]) -> None:
        nonlocal began
        _note(setup, result, rows, time.monotonic() - began)
        recent.append(time.monotonic() - began)
        began = time.monotonic()
        # Two rounds must still fit in: the next one, and perhaps one more after which the checkpoint is written.
        needed = 2.2 * max(recent) + (setup.saving or 0.0)
        if federation.history.rounds < setup.rounds and began + needed > deadline:
            raise OutOfTimeError

    def go_on(until: int) -> None:
        if folder is None:
            federation.run(until - federation.history.rounds, callbacks=[note])
        else:
            federation.run(until, run_dir=folder, resume=True, checkpoint_every=setup.rounds, callbacks=[note])

    try:
        if began < deadline:
            go_on(setup.rounds)
    except OutOfTimeError:
        deadline = float("inf")
        go_on(federation.history.rounds + 1)
    done = federation.history.rounds >= setup.rounds
    result.keep(done)
    if done and folder is not None:
        shutil.rmtree(folder)
    return done


def _note(setup: Setup, result: Result, rows: list[Row], seconds: float) -> None:
    """Adds a round's means over those who took part, and what was measured if it was time to."""
    number, present = rows[0]["round"], [row for row in rows if row["took_part"]]
    noted: dict[str, Any] = {
        "round": number,
        "seconds": round(seconds, 2),
        "bytes_up": float(np.mean([row["bytes_up"] for row in present])),
        "bytes_down": float(np.mean([row["bytes_down"] for row in present])),
        "refused": sum(row["refused"] is not None for row in rows),
    }
    more: dict[str, Any] = {}
    if number in (1, setup.rounds) or number % setup.every == 0:
        scores = setup.accuracies()
        noted |= {"accuracy": float(np.mean(list(scores.values()))), "worst": min(scores.values())}
        more["participants"] = {name: round(score, 5) for name, score in scores.items()}
    if "received" in rows[0]:
        more["received"] = {row["participant"]: row["received"] for row in rows}
    result.write(rounds=[*result.content["rounds"], noted], **more)


def _made_with(setup: Setup) -> dict[str, Any]:
    """What the line says of how it was made; tests of the accuracy are on data that no federation knows of."""
    federation = setup.federation
    found = made_with(settings_as_run(federation), fingerprint(federation))
    return found | {
        "method": repr(federation.method),
        "plan": setup.about.get("plan"),
        "data": found["data"] | {"measured on": checksum(*setup.test), "measured": len(setup.test[1])},
    }


def checksum(*arrays: Any) -> str:
    """The SHA-256 of arrays."""
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def run(name: str, settings: Mapping[str, Maker], arguments: Iterable[str] | None = None) -> None:
    """The command line of an experiment."""
    parser = argparse.ArgumentParser(prog=f"python -m evidence.{name}")
    parser.add_argument("--data", required=True, help="the folder with the data sets")
    parser.add_argument("--settings", nargs="+", default=list(settings), choices=list(settings), metavar="SETTING")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop cleanly after so many")
    parser.add_argument("--rounds", type=int, help="fewer or more than planned")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=Path("runs/evidence"), help="where checkpoints are kept")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    logging.basicConfig(level=logging.WARNING)
    deadline, data = time.monotonic() + 60 * chosen.minutes, Data(chosen.data)
    for seed in chosen.seeds:
        for setting in chosen.settings:
            result = Result(chosen.results, chosen.runs, name, setting, seed)
            if result.done or time.monotonic() > deadline:
                continue
            setup = settings[setting](data, seed)
            setup.rounds = chosen.rounds or setup.rounds
            play(setup, result, chosen.runs, deadline)
            rounds = result.content["rounds"]
            print(name, setting, seed, rounds[-1] if rounds else "not begun", flush=True)
