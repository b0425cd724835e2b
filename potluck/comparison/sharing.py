"""What a simulation can do and no real federation may: models on the data of others, and everybody's data together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from potluck.core.errors import RequirementsError
from potluck.core.inputs import alike, describe
from potluck.core.metrics import Metrics
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant


def as_read_by(samples: Samples, theirs: Task, mine: Task) -> Samples | None:
    """Those samples whose target one knows, encoded as by one's own task; None if there are none."""
    if theirs == mine:
        return samples
    known = samples.take(theirs.known(samples.y).nonzero().squeeze(1))
    y = mine.encode(theirs.decode(known.y), "samples of another", strict=False)
    found = known.with_targets(y=y).take(mine.known(y).nonzero().squeeze(1))
    return found if len(found) else None


def pool(participants: Iterable[Participant], seed: int) -> list[Participant]:
    """Everybody with the training data of all, as far as it knows their labels.

    This is what sharing data would give: the ceiling for each model. Validation and test data stay as they are.

    Args:
        participants: as they would take part.
        seed: the federation's; which samples are validation data depends on it.
    """
    people = list(participants)
    kinds = {describe(participant.kinds): participant.name for participant in people}
    if len(kinds) > 1:
        found = ", ".join(f"{name} has {kind}" for kind, name in kinds.items())
        raise RequirementsError(f"Data can only be pooled where all inputs are of one kind; {found}.")
    brought = [participant.as_brought(seed) for participant in people]
    pooled = []
    for participant, own in zip(people, brought, strict=True):
        mine = participant.task
        parts = [
            part
            for other, theirs in zip(people, brought, strict=True)
            if (part := as_read_by(theirs["data"], other.task, mine)) is not None
        ]
        pooled.append(participant.holding(Samples.concat(parts), own["validation"]))
    return pooled


def cross_evaluation(federation: Federation) -> dict[str, dict[str, Metrics]]:
    """Model's owner → data's owner → metrics of that model on those test data, on the labels that it knows.

    None where there is nothing to measure: other inputs, inputs that an owner preprocesses for its own model, no label
    in common, or no test data.
    """
    people = federation.participants
    names = list(people)
    tests = {name: federation.test_of(people[name]) for name in names}

    def of(owner: str, model: Participant) -> Samples | None:
        """Somebody's test data, as another one can read them."""
        samples = tests[owner]
        if samples is None or not alike(samples.kinds, model.data.kinds):
            return None
        if model.name != owner and any(p.inputs.preprocessing is not None for p in (model, people[owner])):
            return None
        return as_read_by(samples, people[owner].task, model.task)

    found: dict[str, dict[str, Metrics]] = {name: {} for name in names}
    for owner in names:
        for name, metrics in federation.evaluate(partial(of, owner)).items():
            found[name][owner] = metrics
    return found
