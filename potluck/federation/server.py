"""The server: what the server's half of a method may know and store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator

from potluck.core.classification import Classification
from potluck.core.errors import DataError
from potluck.core.inputs import shapes
from potluck.core.learner import Learner
from potluck.core.model_spec import Declared, ModelSpec, specs_of
from potluck.core.payload import MAX_BYTES, Payload
from potluck.core.plan import Plan
from potluck.core.randomness import derive, generator
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.federation.declared_models import NamedModels, built, together
from potluck.federation.participant import State
from potluck.learners.joint import JointNetwork
from potluck.learners.network import Network
from potluck.models import MODELS

Answers = Iterator[tuple[str, Payload]]
"""The participants' answers, sender and payload, as they arrive: merge each and drop it."""


def _there_is(model: str | Callable[..., Any]) -> str | Callable[..., Any]:
    if isinstance(model, str):
        MODELS[model]
    return model


ServerModel = Annotated[str | Callable[..., Any], AfterValidator(_there_is)]
"""A method's setting: a model of the server's, from ``potluck.models``, as ``"package.module:callable"``, or a callable
that makes one."""


def _nothing(server: Server) -> Declared:
    """What a method declares that needs no models at the server."""
    return {}


@dataclass(eq=False)
class Server:
    """What the server's half of a method knows, and what it stores.

    Args:
        seed: what its random numbers derive from.
        participant_weights: each participant's credibility, by name.
        public: the public data, with labels where there are any; by default there are none.
        round: the round; 0 in joining.
        state: what the method stores between rounds; it is in the checkpoint.
        declare: what the method declares as the server's own networks; they are in the checkpoint. By default none.
        input_shape: the shape of participants' inputs, for networks where there are no public data; by default ().
        task: what participants learn, with all labels that they know; by default classification.
        budget: how many bytes it may hold for one participant, as much as a payload may have; by default 2 GiB.
        memo: what can be computed from ``state`` again; it is not in the checkpoint.
        refused: whom the server's half of this exchange refuses, and why.
        codec_memory: what the channel's codecs store of each participant at the server; it is in the checkpoint.
    """

    seed: int
    participant_weights: dict[str, float]
    public: Samples | None = None
    round: int = 0
    state: State = field(default_factory=dict)
    declare: Callable[[Server], Declared] = field(default=_nothing)
    input_shape: Any = ()
    task: Task = field(default_factory=Classification)
    budget: int = MAX_BYTES
    memo: dict[Any, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    codec_memory: dict[str, State] = field(default_factory=dict)
    _built: dict[str, Network] = field(default_factory=dict)
    _restored: dict[str, State] = field(default_factory=dict)
    _together: dict[tuple[str, ...], JointNetwork] = field(default_factory=dict)

    name = "the server"
    working_bytes = 0

    @property
    def public_size(self) -> int:
        """How many public samples there are."""
        return 0 if self.public is None else len(self.public)

    @property
    def models(self) -> Mapping[str, Network]:
        """Its own networks by name, as the method declares them; each is built when it is first asked for."""
        return NamedModels(self.name, self._specs(), self._model)

    def build_models(self) -> None:
        """Builds those that are not built yet, so that what is wrong with one shows before anything is trained."""
        for name in self.models:
            self._model(name)

    def _specs(self) -> dict[str, ModelSpec]:
        return specs_of(self.declare(self), "The method")

    def _model(self, name: str) -> Network:
        if name not in self._built:
            seed = derive(self.seed, self.name, name, "initial weights")
            shape = self.input_shape if self.public is None else shapes(self.public.kinds)
            self._built[name] = built(self._specs()[name], name, self.name, seed, shape, self.task.outputs)
            if name in self._restored:
                self._built[name].restore(self._restored.pop(name))
        return self._built[name]

    def spec_of(self, model: str) -> ModelSpec | None:
        """How one of its models was declared."""
        return self._specs().get(model)

    def learner_for(self, model: str | None) -> Learner:
        """The learner that a request names."""
        if model is None:
            raise TypeError(
                'The server has no model of its own: name one that the method declares, e.g. model="student".'
            )
        return self.models[model]

    def learners_for(self, models: Sequence[str]) -> Learner:
        """Several of its learners as one."""
        return together(self.models, models, self._together)

    def samples_for(self, asked: Samples | None) -> Samples:
        """The samples that a request names."""
        if asked is None:
            raise DataError("The server has no data of its own: name some, e.g. Fit(on=server.public).")
        return asked

    def plan_for(self, asked: Plan | None) -> Plan:
        """The plan that a request names, or the default one."""
        return asked or Plan()

    def refuse(self, sender: str, reason: str) -> None:
        """Ends the half of one whose answer the server's half cannot use. It gets no reply; the others go on."""
        self.refused[sender] = reason

    def snapshot(self) -> State:
        """What a checkpoint stores of the server."""
        states = {name: network.state() for name, network in self._built.items()}
        return {"state": self.state, "learners": {**self._restored, **states}}

    def restore(self, snapshot: State) -> None:
        """Restores what ``snapshot`` returned. Models are built, and restored, when they are asked for next.

        Without ``learners`` in it they stay as they are.
        """
        self.state, self.memo = snapshot["state"], {}
        if "learners" in snapshot:
            self._built, self._restored = {}, dict(snapshot["learners"])

    def generator(self, purpose: str) -> Any:
        """Random numbers of the server, this round, this purpose."""
        return generator(self.seed, self.name, self.round, purpose)
