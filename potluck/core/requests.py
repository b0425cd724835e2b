"""What a method may ask for: heavy work (Fit, Predict, Tap), and an exchange with the server.

A participant's side of a method is a generator that yields these instead of doing the work itself, so that
an engine can carry out what many participants ask for at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from potluck.core.objectives import CombineGradients, Objective, cross_entropy
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.learners.base import Learner


@dataclass(frozen=True, eq=False)
class Fit:
    """Train. Answered with a ``Fitted``.

    - ``objective``: one, or several; their gradients are added up unless ``combine_gradients`` says otherwise.
    - ``on``: the samples; one's own data if None.
    - ``context``: what belongs to this participant (tensors, plain values, ``FrozenModel`` models).
    - ``plan``: one's own if None.
    - ``combine_gradients``: what becomes of the objectives' gradients before the optimizer sees them.
    - ``mask``: parameter name → where it may change (boolean, of its shape or one that broadcasts to it).
    - ``noise``: name → shape; standard normal numbers of that shape for each sample, fresh at each step, which
      the objective finds in the batch under that name.
    - ``freeze_norm_stats``: normalisation layers use their running statistics and leave them as they are.
    - ``learner``: another model than one's own, such as the server's.
    """

    objective: Objective | Sequence[Objective] = cross_entropy
    on: Samples | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    combine_gradients: CombineGradients | None = None
    mask: Mapping[str, Tensor] = field(default_factory=dict)
    noise: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    freeze_norm_stats: bool = False
    learner: Learner | None = None

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return (self.objective,) if callable(self.objective) else tuple(self.objective)


@dataclass(frozen=True, eq=False)
class Predict:
    """Say what each sample is. Answered with probabilities (samples × labels), or logits."""

    on: Samples
    logits: bool = False
    plan: Plan | None = None
    learner: Learner | None = None


@dataclass(frozen=True, eq=False)
class Tap:
    """Run samples through the network in evaluation mode. Answered with what the named layers put out.

    ``submodules``: run only these submodules, one after the other, on inner features instead of inputs.
    """

    on: Samples
    at: Sequence[str]
    submodules: Sequence[str] = ()
    plan: Plan | None = None
    learner: Learner | None = None


@dataclass(frozen=True, eq=False)
class Exchange:
    """Send a payload to the server's function of that name. Answered with the server's reply, a Payload."""

    name: str
    payload: Payload


Work = Fit | Predict | Tap
Request = Work | Exchange


@dataclass(frozen=True, eq=False)
class Job:
    """Work with everything filled in: who asked, which learner, which samples and plan, which randomness."""

    owner: str
    work: Work
    learner: Learner
    samples: Samples
    plan: Plan
    seed: int
    round: int
    keep_optimizer: bool = False
