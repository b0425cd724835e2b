"""Choosing a participant's plan on its validation data, never on test data (CoFED section 5.2)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from itertools import product
from typing import Any

from potluck.core.errors import DataError, ModelError, SettingsError, nearest
from potluck.core.job import Job
from potluck.core.objectives import TASK
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.requests import Fit, Predict, Work
from potluck.engines import make_engine
from potluck.federation.participant import Participant
from potluck.learners.network import Network


def grid(plan: Plan, **choices: Iterable[Any]) -> list[Plan]:
    """Every combination of the choices, the last one changing fastest.

    Args:
        plan: all settings that are not chosen are as in this one.
        choices: setting → its values.

    Combinations that a plan refuses are left out: ``grid(Plan(), optimizer=["sgd", "adam"], momentum=[0.0, 0.9])``
    gives three plans, since Adam has no momentum to set. A choice that is possible in no combination is an error.
    """
    listed = {name: _listed(name, values) for name, values in choices.items()}
    settings = {name: getattr(plan, name) for name in Plan.model_fields}
    plans: list[Plan] = []
    possible: set[tuple[str, int]] = set()
    refused: dict[tuple[str, int], str] = {}
    for positions in product(*(range(len(values)) for values in listed.values())):
        chosen = list(zip(listed, positions, strict=True))
        try:
            plans.append(Plan(**settings | {name: listed[name][position] for name, position in chosen}))
            possible.update(chosen)
        except SettingsError as error:
            refused = dict.fromkeys(chosen, str(error)) | refused
    for (name, position), reason in refused.items():
        if (name, position) not in possible:
            raise SettingsError(f"{name} = {listed[name][position]!r} is possible in no combination: {reason}")
    return plans


def _listed(name: str, values: Iterable[Any]) -> list[Any]:
    if name not in Plan.model_fields:
        raise SettingsError(f"A plan has no setting {name!r}.{nearest(name, Plan.model_fields)}")
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not listed:
        raise SettingsError(f"{name} = {values!r}; expected a list of values to choose from.")
    return listed


def choose_plan(
    participant: Participant, plans: Iterable[Plan], *, seed: int = 0, engine: str = "auto", device: str = "auto"
) -> Plan:
    """The plan that is best on the participant's validation data, by its task's headline; the first, if several are.

    Each plan trains a copy of the participant's network on its training data, from the same weights and through the
    same shuffles. With the seed of the federation, the weights and the validation data are those it will see there.
    The participant itself stays as it is.

    Args:
        participant: one with a network and ``validation``.
        plans: what to choose from; ``grid`` makes them.
        seed: what every random number derives from; by default 0.
        engine: "serial", "batched", or "auto" (the default). Batched trains plans at the same time that differ in the
            rate alone.
        device: a torch device, or "auto" (the default) for a GPU if there is one.
    """
    candidates = list(plans)
    if not candidates or not all(isinstance(plan, Plan) for plan in candidates):
        raise SettingsError(f"plans is {candidates!r}; expected at least one Plan, e.g. grid(Plan(), lr=[1e-3, 1e-2]).")
    if any(plan.class_weight != participant.plan.class_weight for plan in candidates):
        raise SettingsError(
            f"{participant.name}: plans differ from its own in class_weight, which is in its samples' weights and "
            f"cannot be chosen; expected the same in all."
        )
    if participant.validation is None:
        raise DataError(
            f"{participant.name} has no validation data to choose a plan by; expected `validation`, a share of its "
            f"data such as 0.2, or data."
        )
    trial = _trial(participant, seed)
    assert trial.validation is not None
    runner, source = make_engine(engine, device), derive(seed, trial.name, "tuning")
    networks = [Network(copy.deepcopy(trial.network.model)) for _ in candidates]

    def answers(work: Work) -> list[Any]:
        pairs = zip(networks, candidates, strict=True)
        samples = trial.data if work.on is None else work.on
        return runner.answer([Job(trial.name, work, network, samples, plan, source, 1) for network, plan in pairs])

    answers(Fit(context={TASK: trial.task.encoded}))
    found = answers(Predict(trial.validation, task=trial.task))
    scores = [trial.task.grade(each, trial.validation.y) for each in found]
    if max(scores) == -math.inf:
        raise SettingsError(
            f"{trial.name}: training diverged with every plan; expected a lower lr, or max_grad_norm, in some."
        )
    return candidates[scores.index(max(scores))]


def _trial(participant: Participant, seed: int) -> Participant:
    """A copy of a participant with a network of its own, as if it had joined a federation of that seed."""
    trial = participant.twin()
    trial.join(seed, None)
    if not isinstance(trial.learner, Network):
        raise ModelError(
            f"{trial.name} brought a {type(trial.model).__name__}, which does not train by a "
            f"plan. Bring scikit-learn's GridSearchCV around it instead: that works as a model as it is."
        )
    return trial
