"""What an experiment is: settings by name, each of which sets a table for a seed; and how one is played and kept."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import potluck
from potluck.core.history import Row
from potluck.core.model_spec import OWN
from potluck.core.samples import SharedData
from potluck.data import Source

RESULTS = Path(__file__).parent / "results"
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
    """What one setting under one seed gave, in a JSON file that grows with every round."""

    def __init__(self, folder: Path, experiment: str, setting: str, seed: int) -> None:
        self.path = folder / f"{experiment}.{setting}.{seed}.json"
        self.content: dict[str, Any] = {"experiment": experiment, "setting": setting, "seed": seed, "rounds": []}
        if self.path.exists():
            self.content = json.loads(self.path.read_text())

    @property
    def done(self) -> bool:
        return bool(self.content.get("done"))

    def write(self, **more: Any) -> None:
        """Adds to what is known, and writes the file whole or not at all."""
        self.content |= more
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".unfinished")
        draft.write_text(json.dumps(self.content, indent=1) + "\n")
        draft.replace(self.path)


def play(setup: Setup, result: Result, runs: Path, deadline: float = float("inf")) -> bool:
    """Plays until the last round or the deadline; goes on where an earlier call stopped. True if it is done."""
    federation = setup.federation
    folder = None if setup.saving is None else runs / result.path.stem
    if folder is not None:
        federation.run(0, run_dir=folder, resume=True)  # takes up what there is
    kept = [row for row in result.content["rounds"] if row["round"] <= federation.history.rounds]
    result.write(rounds=kept, planned=setup.rounds, about=setup.about | _circumstances(federation))
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
    if federation.history.rounds >= setup.rounds:
        result.write(done=True)
        if folder is not None:
            shutil.rmtree(folder)
    return result.done


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


def _circumstances(federation: potluck.Federation) -> dict[str, Any]:
    return {
        "method": repr(federation.method),
        "participants": len(federation.participants),
        "device": federation.engine.device.type,
        "torch": torch.__version__,
    }


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
            result = Result(chosen.results, name, setting, seed)
            if result.done or time.monotonic() > deadline:
                continue
            setup = settings[setting](data, seed)
            setup.rounds = chosen.rounds or setup.rounds
            play(setup, result, chosen.runs, deadline)
            rounds = result.content["rounds"]
            print(name, setting, seed, rounds[-1] if rounds else "not begun", flush=True)
