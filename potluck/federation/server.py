"""The server: what the server's half of a method may know and store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator

from potluck.core.errors import DataError
from potluck.core.inputs import shapes
from potluck.core.learner import Learner
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.randomness import derive, generator, seeded
from potluck.core.samples import Samples
from potluck.federation.participant import State
from potluck.learners.network import Network
from potluck.models import MODELS, build

Answers = Iterator[tuple[str, Payload]]
"""The participants' answers, sender and payload, as they arrive: merge each and drop it."""


def _there_is(model: str | Callable[..., Any]) -> str | Callable[..., Any]:
    if isinstance(model, str):
        MODELS[model]
    return model


ServerModel = Annotated[str | Callable[..., Any], AfterValidator(_there_is)]
"""A method's setting: a model of the server's, from ``potluck.models``, as ``"package.module:callable"``, or a callable
that makes one."""


@dataclass(eq=False)
class Server:
    """What the server's half of a method knows, and what it stores.

    Args:
        seed: what its random numbers derive from.
        participant_weights: each participant's credibility, by name.
        public: the public data, with labels where there are any; by default there are none.
        round: the round; 0 in joining.
        state: what the method stores between rounds; it is in the checkpoint.
        learners: the server's own networks, by name; they are in the checkpoint. ``learner`` makes them.
        memo: what can be computed from ``state`` again; it is not in the checkpoint.
    """

    seed: int
    participant_weights: dict[str, float]
    public: Samples | None = None
    round: int = 0
    state: State = field(default_factory=dict)
    learners: dict[str, Network] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    _restored: dict[str, State] = field(default_factory=dict)

    name = "the server"
    working_bytes = 0

    @property
    def public_size(self) -> int:
        """How many public samples there are."""
        return 0 if self.public is None else len(self.public)

    def learner(self, name: str, model: ServerModel, classes: int) -> Network:
        """A network of the server's own for the public data, built at the first call.

        Args:
            name: its name among the server's networks.
            model: a callable that makes it, or its name.
            classes: how many logits it puts out.
        """
        if name not in self.learners:
            shape = shapes(self.public.kinds) if self.public is not None else ()
            with seeded(derive(self.seed, self.name, name, "initial weights")):
                self.learners[name] = Network(build(model, shape, classes))
            if name in self._restored:
                self.learners[name].restore(self._restored.pop(name))
        return self.learners[name]

    def learner_for(self, asked: Learner | None) -> Learner:
        """The learner that a request names."""
        if asked is None:
            raise TypeError("The server has no model of its own: name one, e.g. Fit(..., learner=server.learner(...)).")
        return asked

    def samples_for(self, asked: Samples | None) -> Samples:
        """The samples that a request names."""
        if asked is None:
            raise DataError("The server has no data of its own: name some, e.g. Fit(on=server.public).")
        return asked

    def plan_for(self, asked: Plan | None) -> Plan:
        """The plan that a request names, or the default one."""
        return asked or Plan()

    def snapshot(self) -> State:
        """What a checkpoint stores of the server."""
        kept = {name: learner.state() for name, learner in self.learners.items()}
        return {"state": self.state, "learners": {**self._restored, **kept}}

    def restore(self, snapshot: State) -> None:
        """Restores what ``snapshot`` returned. Models are built, and restored, when ``learner`` is called next."""
        self.state = snapshot["state"]
        self.learners, self._restored, self.memo = {}, dict(snapshot["learners"]), {}

    def generator(self, purpose: str) -> Any:
        """Random numbers of the server, this round, this purpose."""
        return generator(self.seed, self.name, self.round, purpose)
