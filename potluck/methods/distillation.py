"""Learning from what others answer: losses between two answers, and soft labels for what learns labels alone."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.classification import Classification
from potluck.core.objectives import PLAIN
from potluck.core.requests import Fit, Predict, Request
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.federation.participant import Participant


def kl(target: Tensor, logits: Tensor, temperature: float = 1.0, fixed: bool = True) -> Tensor:
    """KL(softmax(target/T) ‖ softmax(logits/T)), a number for each sample; as a rule the target is fixed."""
    said = ((target.detach() if fixed else target) / temperature).log_softmax(dim=-1)
    learning = (logits / temperature).log_softmax(dim=-1)
    return F.kl_div(learning, said, reduction="none", log_target=True).sum(dim=-1)


def answers_of(me: Participant, on: Samples) -> Generator[Request, Any, Tensor]:
    """A participant's outputs; those of an estimator are what would mean its answers, such as logarithms."""
    if me.learner.shows_layers:
        outputs: Tensor = yield Predict(on, logits=True)
        return outputs
    return me.task.outputs_for((yield Predict(on)))


def fit_labels(me: Participant, *sets: Samples) -> Fit:
    """A fit of an estimator to labels, given in the column ``y``, or softly in the column ``soft``.

    A soft label becomes one copy of its sample for each label, weighted by the label's share: to a learner of weighted
    samples this is the same as cross-entropy to the soft label. One that knows no weights gets the likeliest label.
    Values are learned as they are.
    """
    return Fit(on=Samples.concat([hardened(one, me.learner.takes_weights, me.task) for one in sets]))


def fit_in_turn(me: Participant, *sets: Samples) -> Generator[Request, Any, None]:
    """One's learner trained on one set after the other; an estimator, which begins anew each time, on all at once."""
    if not me.learner.shows_layers:
        yield fit_labels(me, *sets)
        return
    for one in sets:
        yield Fit(on=labelled(one, me.task))


def labelled(samples: Samples, task: Task = PLAIN) -> Samples:
    """Those samples whose label, or value, is known."""
    known = task.known(samples.y)
    return samples if known.all() else samples.take(known.nonzero().squeeze(1))


def hardened(samples: Samples, weighted: bool, task: Task = PLAIN) -> Samples:
    """Soft labels (column ``soft``) as labels: weighted copies, or the likeliest. Who has no label is left out."""
    if "soft" not in samples.columns:
        return labelled(samples, task)
    soft = samples.columns["soft"]
    if not (weighted and isinstance(task, Classification)):
        return samples.inputs().with_targets(y=task.settled(soft))
    rows, labels = soft.nonzero(as_tuple=True)
    share = soft[rows, labels].float()
    if "weight" in samples.columns:
        share = share * samples.columns["weight"][rows]
    return samples.inputs().take(rows).with_targets(y=labels, weight=share)


def scored(outputs: Tensor, kind: Literal["logits", "probabilities"]) -> Tensor:
    """Outputs as scores: as they are, or their softmax."""
    return outputs if kind == "logits" else outputs.softmax(dim=-1)


def as_probabilities(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(z/T) as it travels."""
    return torch.softmax(logits / temperature, dim=-1).float()
