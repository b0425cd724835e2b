"""Several networks of one party as one, for a training of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from potluck.core.job import Job, OptimizerState
from potluck.core.model_view import SeveralModules
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.learners.network import Network
from potluck.learners.traits import Traits


class JointNetwork(Network):
    """Networks that are trained together, under ``name.parameter``. What optimizers remember stays with each of them.

    Args:
        parts: the networks by name.
    """

    def __init__(self, parts: Mapping[str, Network]) -> None:
        super().__init__(SeveralModules({name: part.model for name, part in parts.items()}))
        self.parts = dict(parts)

    def is_of(self, parts: Mapping[str, Network]) -> bool:
        """Whether it is made of these very networks."""
        return self.parts.keys() == parts.keys() and all(
            part is parts[name] and part.model is self.model.get_submodule(name) for name, part in self.parts.items()
        )

    def probe(self, samples: Samples, plan: Plan) -> Traits:
        found = [part.probe(samples, plan) for part in self.parts.values()]
        return Traits(any(part.draws for part in found), any(part.changes_itself for part in found))

    def remembered(self, job: Job) -> OptimizerState:
        found: OptimizerState = {}
        for name, part in self.parts.items():
            if job.keep_optimizer and name not in job.fresh:
                found |= {f"{name}.{own}": held for own, held in part.recall(self._plan_of(job, name)).items()}
        return found

    def remember(self, job: Job, state: OptimizerState) -> None:
        for name, part in self.parts.items():
            if name not in job.fresh:
                own = {key.removeprefix(f"{name}."): held for key, held in state.items() if key.startswith(f"{name}.")}
                part.keep(self._plan_of(job, name), own)

    def memory(self) -> Any:
        return {name: part.memory() for name, part in self.parts.items()}

    def take_memory(self, memory: Any) -> None:
        for name, part in self.parts.items():
            part.take_memory(memory[name])

    @staticmethod
    def _plan_of(job: Job, part: str) -> Callable[[str], Plan | None]:
        find = job.plan_of
        return lambda parameter: find(f"{part}.{parameter}")
