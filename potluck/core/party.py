"""A party as an engine sees it: a participant, or the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from potluck.core.learner import Learner
from potluck.core.model_spec import ModelSpec
from potluck.core.plan import Plan
from potluck.core.samples import Samples


class Party(Protocol):
    """Yields requests: a participant or the server."""

    @property
    def name(self) -> str:
        """Its name, unique in a federation."""

    @property
    def seed(self) -> int:
        """What its random numbers derive from."""

    @property
    def round(self) -> int:
        """The round it is in; 0 while it joins."""

    @property
    def working_bytes(self) -> int:
        """About how much memory it takes while it works."""

    def learner_for(self, model: str | None) -> Learner:
        """The learner that a request is for: the one it names, or the party's own."""

    def learners_for(self, models: Sequence[str]) -> Learner:
        """Several of the party's learners as one, which trains them together."""

    def spec_of(self, model: str) -> ModelSpec | None:
        """How a model was declared; None for the party's own."""

    def samples_for(self, asked: Samples | None) -> Samples:
        """The samples that a request is about: those it names, or the party's own."""

    def plan_for(self, asked: Plan | None) -> Plan:
        """The plan that a request follows: the one it names, or the party's own."""
