"""How a participant joins a federation: its data prepared, its models made, nothing of an earlier one left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

from potluck.core.errors import ModelError
from potluck.core.inputs import shapes
from potluck.core.learner import Learner
from potluck.core.model_spec import Declared, ModelSpec, specs_of
from potluck.core.randomness import derive, seeded
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.engines.base import Answering, own_model
from potluck.federation.declared_models import built
from potluck.federation.held_data import DataHolder
from potluck.federation.prepared_model import prepared
from potluck.learners.estimator import Estimator
from potluck.learners.network import Network
from potluck.models import build, makes_models

if TYPE_CHECKING:
    from potluck.core.party import Storage
    from potluck.core.samples import SharedData

TOGETHER = "together"
"""Under which name several of its models are held as one, while they are in memory."""


class Equipment(Protocol):
    """What a method gives a participant that joins."""

    @property
    def predict(self) -> Answering:
        """How the participant answers inputs."""

    @property
    def uses_models(self) -> bool:
        """Whether participants need their models."""

    @property
    def prepares(self) -> bool:
        """Whether it changes the model that a participant brought."""

    def prepare(self, me: Any, model: Any) -> Any:
        """The model that the participant trains, made of the one it brought."""

    def models(self, me: Any) -> Declared:
        """The networks that the participant has beside its own."""


COPIES = 6
"""How many copies of a network's weights a training takes: stacked, with gradients, moments and temporary tensors. Of
what is frozen it takes one."""


class Joining(DataHolder):
    """A participant as a federation takes it in."""

    brought_model: Any
    """The model as its owner brought it: itself, or what makes it."""
    storage: Storage | None
    """Where its heavy fields are while others run, if not in memory."""
    answering: Answering
    """How it answers inputs: as its method says; before it joins a federation, by its own model."""
    specs: dict[str, ModelSpec]
    """How the models beside its own are declared, by name."""
    seed: int
    round: int
    working_bytes: int
    """About how much memory its work takes."""

    @property
    @abstractmethod
    def data(self) -> Samples:
        """The samples it trains on."""

    @property
    @abstractmethod
    def learner(self) -> Learner:
        """Its model, wrapped."""

    @property
    @abstractmethod
    def models(self) -> Mapping[str, Any]:
        """All its models, wrapped, by name."""

    @property
    def builds_its_model(self) -> bool:
        """Whether its model is built anew in each federation."""
        return makes_models(self.brought_model)

    def join(self, seed: int, public: SharedData | None, method: Equipment | None = None) -> None:
        """Joins a federation. Nothing of an earlier one is left but the model, if it was brought as an object.

        Args:
            seed: the federation's seed.
            public: the public data, if there are any.
            method: how it answers inputs, what prepares its model, and what declares further ones; by default nothing
                does, and its own model answers.
        """
        if self.storage is not None:
            self.storage.release(self)
        self._forget_models()
        self.seed, self.round, self.held["state"] = seed, 0, {}
        self.held["codecs"] = None
        self.answering = own_model if method is None else method.predict
        idle = method is not None and not method.uses_models
        self._take_up(seed, public, fit=not idle)
        model = placeholder(self.task) if idle else self._prepared(method)
        self.held["learner"] = as_learner(model, self.task, self.name)
        learner = self.learner
        learner.check(self.data, self.task, self.plan, self.name)
        if method is not None:
            self._equip(specs_of(method.models(self), type(method).__name__))
        networks = [learner for learner in self.models.values() if isinstance(learner, Network)]
        tensors = [tensor for network in networks for tensor in network.tensors().values()]
        frozen = [tensor for network in networks for tensor in network.frozen().values()]
        copied = COPIES * _bytes(tensors) - (COPIES - 1) * _bytes(frozen)
        self.working_bytes = copied + _bytes(self.data.columns.values())

    def _prepared(self, method: Equipment | None) -> Any:
        """Its model, built or as it was brought, as the method wants it; and its data as that model reads them."""
        model = self.brought_model
        if self.builds_its_model:
            with seeded(derive(self.seed, self.name, "initial weights")):
                model = build(model, shapes(self.data.kinds), self.task.outputs)
        self.inputs.network = isinstance(model, nn.Module)
        self._convert(self.inputs.for_model)
        if method is None or not method.prepares:
            return model
        with seeded(derive(self.seed, "prepared models")):  # the same for all, so that they can begin alike
            return prepared(model, lambda model: method.prepare(self, model), is_own=self.builds_its_model)

    def _equip(self, specs: dict[str, ModelSpec]) -> None:
        """Builds the models that the method declares, in the precision of its own."""
        self.specs = specs
        for name, spec in specs.items():
            source = "declared models" if spec.same_start else self.name
            seed = derive(self.seed, source, name, "initial weights")
            network = built(spec, name, self.name, seed, shapes(self.data.kinds), self.task.outputs)
            if isinstance(self.learner, Network):  # so that both read the same batch
                network.model.to(self.learner.dtype)
            self.held[field_of(name)] = network

    def _forget_models(self) -> None:
        """Nothing is left of the models of a federation before, nor of what was found out about them."""
        for name in (*map(field_of, self.specs), TOGETHER):
            self.held.pop(name, None)
        self.specs = {}
        for found in ("stages", "_head_and_body"):
            self.__dict__.pop(found, None)


def placeholder(task: Task) -> Any:
    """What stands in the place of a model where none is needed."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    return DummyClassifier() if task.labels else DummyRegressor()


def as_learner(model: Any, task: Task, owner: str) -> Learner:
    """A model that somebody brought, wrapped, so that it can be trained and read."""
    if isinstance(model, nn.Module):
        return Network(model)
    if hasattr(model, "fit") and hasattr(model, "predict"):
        return Estimator(model, task)
    raise ModelError(
        f"{owner}: model is {model!r}; expected a torch module, an object with fit and predict, or a callable (or its "
        f"name) that makes one."
    )


def field_of(model: str) -> str:
    """Under which name a declared model is held."""
    return f"model {model}"


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
