"""Measures what a method costs in the federation that `potluck new --method` writes for it: bytes, and passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from potluck.core.job import Job
from potluck.core.metrics import Scores
from potluck.core.model_spec import OWN
from potluck.core.party import Party
from potluck.core.samples import Samples
from potluck.engines import pick_device
from potluck.engines.base import Answering, Timed
from potluck.engines.batched.engine import Batched
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods import METHODS
from potluck.methods.guide import Cost
from potluck.recipes import read
from potluck.recipes.fitting import family_of, fitting_file

Asked = Counter[tuple[str, int]]
"""(party, round; 0 for joining) → over how many samples networks were run."""


class Counting(Batched):
    """Counts what it is asked for. It evaluates nothing and does not train the server's networks, whose size counts."""

    def _begin(self) -> None:
        super()._begin()
        self.trained, self.read, self.beside = Asked(), Asked(), set[str]()

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        for job in jobs:
            if job.work.writes:
                epochs = job.plan.epochs if job.learner.shows_layers else 1
                self.trained[job.owner, job.round] += len(job.samples) * epochs
                if job.owner != Server.name:
                    self.beside |= {*job.fit.models, job.fit.model or OWN} - {OWN}
            else:
                self.read[job.owner, job.round] += len(job.samples)
        if any(job.owner == Server.name and job.work.writes for job in jobs):
            return [(job.work.dry_answer(job, self.device), 0.0) for job in jobs]
        return super().timed(jobs)

    def evaluate(
        self,
        parties: Mapping[str, Party],
        test_of: Callable[[Any], Samples | None],
        answering: Mapping[str, Answering],
    ) -> dict[str, Scores]:
        return {name: {OWN: party.task.nothing} for name, party in parties.items()}

    def evaluate_server(self, server: Party, test: Samples, answering: Mapping[str, Answering]) -> Scores:
        return {}


def measure(name: str) -> Cost:
    """Plays the federation that fits a method. What joining takes is apart, and so is the first round."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "federation.toml"
        path.write_text(fitting_file(name), encoding="utf-8")
        recipe = read(path)
    method = recipe.build_method()
    federation = recipe.builder().federation(method, Counting(pick_device("cpu")))
    federation.run(recipe.rounds)
    return cost_of(federation, family_of(type(method).__name__, METHODS[name]().requires()))


def cost_of(federation: Federation, family: str) -> Cost:
    """What a federation that was played cost, from its second round on."""
    engine, people, rounds = federation.engine, federation.participants, federation.history.rounds
    assert isinstance(engine, Counting)
    rows = [row for row in federation.history.rows() if row["round"] > 1]
    joined = federation.snapshot()["joined"].values()

    def each_round(samples: Asked) -> float:
        """On average over participants and rounds, in as many samples as one has."""
        return fmean(samples[one, n] / len(people[one].data) for one in people for n in range(2, rounds + 1))

    def in_a_round(column: str) -> int:
        mean: float = sum(row[column] for row in rows) / len(people) / (rounds - 1)
        return round(mean)

    return Cost(
        family=family,
        beside=tuple(sorted(name for name in engine.beside if any(learns(one, name) for one in people.values()))),
        weights=round(fmean(size_of(one.weights()) for one in people.values() if one.learner.shows_layers)),
        up=in_a_round("bytes_up"),
        down=in_a_round("bytes_down"),
        joining_up=round(fmean(tally["bytes_up"] for tally in joined)),
        joining_down=round(fmean(tally["bytes_down"] for tally in joined)),
        passes=round(each_round(engine.trained), 2),
        joining_passes=round(fmean(engine.trained[one, 0] / len(people[one].data) for one in people), 2),
        readings=round(each_round(engine.read), 2),
        server=round(fmean(engine.trained[Server.name, n] for n in range(2, rounds + 1))),
    )


def learns(one: Participant, model: str) -> bool:
    """Whether a model of a participant's has weights that training changes."""
    return model in one.models and bool(one.models[model].trainable())


def size_of(weights: Mapping[str, Any]) -> int:
    """How many bytes some tensors take."""
    return sum(entry.numel() * entry.element_size() for entry in weights.values())
