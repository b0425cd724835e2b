"""A participant: one party, with private data, a model of its own, a plan, a label space and private state."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.labels import Label, LabelSpace, decode, encode, label_space
from potluck.core.plan import Plan
from potluck.core.randomness import derive, generator, seeded
from potluck.core.requests import Job, Predict
from potluck.core.samples import Samples, as_inputs, as_pair
from potluck.learners.base import Learner
from potluck.learners.estimator import Estimator
from potluck.learners.network import Network
from potluck.learners.structure import Stages, find_stages
from potluck.models import build

if TYPE_CHECKING:
    from potluck.federation.admission import SharedData
    from potluck.federation.storage import DiskStorage

State = dict[str, Any]
"""What lasts between rounds and is in the checkpoint: tensors and plain values, in dicts and lists."""

HEAVY = ("_brought", "data", "validation", "test", "_learner", "state")
"""What a participant at rest does not carry: it is fetched when asked for."""

COPIES = 6
"""How often a network's weights are in memory while it trains: stacked, with gradients, moments and room to work."""


class Participant:
    """What one party brings to the table.

    Args:
        name: how the others call it; unique in a federation.
        model: a torch module, or anything with ``fit`` and ``predict``; or what makes one: a callable, or its name as
            ``"package.module:callable"`` or in ``potluck.models``. It is called with ``input_shape`` and ``classes``
            where it takes them, under the federation's seed.
        data: ``(x, y)`` as numpy or torch arrays, or a torch Dataset of such pairs. It stays here.
        plan: how it trains.
        test: ``(x, y)`` to evaluate on; by default what the federation publishes.
        validation: a share of the data, or data, to choose settings by.
        labels: its label space (strings or integers); by default the labels in ``y``.
        weight: its credibility in votes, or extra weight in a mean.
        stages: which layers of a network are "extractor", "intermediate" and "classifier", where inspection fails.
    """

    is_local: ClassVar[bool] = True
    """Whether its model and data are on this machine."""

    def __init__(
        self,
        name: str,
        model: Any,
        data: Any,
        *,
        plan: Plan | None = None,
        test: Any = None,
        validation: Any = 0.0,
        labels: Iterable[Label] | None = None,
        weight: float = 1.0,
        stages: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise SettingsError(f"A participant's name is {name!r}; expected some text.")
        if not 0 < weight < float("inf"):
            raise SettingsError(f"{name}: weight is {weight!r}; expected a finite number above 0.")
        self.name = name
        self.plan = plan or Plan()
        self.weight = float(weight)
        x, y = as_pair(data, name)
        self.labels: LabelSpace = label_space(np.unique(y) if labels is None else labels, name)
        if not self.labels:
            raise DataError(f"{name}: the label space is empty; expected at least one label.")
        self._brought = Samples({"x": x, "y": encode(y, self.labels, name)})
        as_data = not isinstance(validation, int | float)
        self._held_back = None if as_data else float(validation)
        self.validation: Samples | None = self._own(validation, f"{name} (validation)") if as_data else None
        self.data = self._split(seed=0)
        self.test = None if test is None else self._own(test, f"{name} (test)")
        self._named_stages = stages
        self._brought_model = model
        self._learner = None if _makes_models(model) else self._bring(model)

        self.rests: DiskStorage | None = None
        """Where it rests between its turns, if it does."""

        # What the federation hands out at the table.
        self.public: Samples | None = None
        self.working_bytes = 0
        """About how much memory it takes while it works."""
        self.seed = 0
        self.round = 0
        self.state: State = {}

    def __repr__(self) -> str:
        kind = self._brought_model if self._learner is None else type(self.model).__name__
        return f"Participant({self.name!r}, {kind}, {len(self.data)} samples, labels {list(self.labels)})"

    if not TYPE_CHECKING:  # for a type checker every attribute is there, and a misspelt one is a mistake

        def __getattr__(self, name: str) -> Any:
            """Wakes a participant at rest."""
            if name in HEAVY and self.__dict__.get("rests") is not None:
                return self.rests.wake(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def builds_its_model(self) -> bool:
        """Whether its model is made anew at each table, from what it brought."""
        return _makes_models(self._brought_model)

    @property
    def built(self) -> bool:
        """Whether the model is there already; a builder's is made when the participant joins a federation."""
        return self._learner is not None

    @property
    def learner(self) -> Learner:
        if self._learner is None:
            raise ModelError(f"{self.name}: {self._brought_model!r} is built when the participant joins a federation.")
        return self._learner

    @property
    def network(self) -> Network:
        """The learner of a participant that brought a torch module."""
        if not isinstance(self.learner, Network):
            raise ModelError(f"{self.name} brought a {type(self.model).__name__}; expected a torch module.")
        return self.learner

    @cached_property
    def stages(self) -> Stages:
        """Extractor, intermediate layers and classifier of its network."""
        return find_stages(self.network.model, self.network.example(self.data, self.plan), self._named_stages)

    @property
    def model(self) -> Any:
        """The model itself; trained, after a run."""
        return self._brought_model if self._learner is None else self._learner.model

    def join(self, seed: int, public: SharedData | None) -> None:
        """Takes a seat in a federation, with nothing left from another one but a model brought as an object."""
        if self.rests is not None:
            self.rests.leave(self)
        self.seed, self.round, self.state = seed, 0, {}
        self.data = self._split(seed)
        if self.builds_its_model:
            with seeded(derive(seed, self.name, "initial weights")):
                self._learner = self._bring(self._build())
        else:
            self._learner = self._bring(self._brought_model)
        self.public = None if public is None else public.whole(self.labels)
        self.learner.check(self.data, len(self.labels), self.plan, self.name)
        tensors = self._learner.tensors().values() if isinstance(self._learner, Network) else ()
        self.working_bytes = COPIES * _bytes(tensors) + _bytes(self.data.columns.values())
        self.__dict__.pop("stages", None)  # of the model before, if there was one

    def snapshot(self) -> State:
        """Everything of it that lasts between rounds: what a checkpoint holds."""
        return {"learner": self.learner.state(), "state": self.state}

    def restore(self, kept: State) -> None:
        """Takes up what ``snapshot`` gave."""
        self.learner.restore(kept["learner"])
        self.state = kept["state"]

    def check_keepable(self) -> None:
        """Raises ModelError unless its model can be kept in a checkpoint."""
        self.learner.check_keepable(self.data, self.name)

    def weights(self) -> dict[str, Tensor]:
        """A copy of the network's weights and buffers by name."""
        return self.network.weights()

    def load(self, entries: Mapping[str, Tensor]) -> None:
        """Takes over some or all weights and buffers."""
        self.network.load(entries)

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers of this participant, this round, this purpose."""
        return generator(self.seed, self.name, self.round, purpose)

    def own_test(self, published: SharedData | None) -> Samples | None:
        """Its own test data, or of the published ones those with labels it knows."""
        return self.test if self.test is not None or published is None else published.known(self.labels)

    def predict_proba(self, x: Any) -> np.ndarray[Any, Any]:
        """Probabilities over ``labels``, one row for each input."""
        samples = Samples({"x": as_inputs(x, self.name)})
        job = Job(self.name, Predict(samples), self.learner, samples, self.plan, self.seed, self.round)
        probabilities: np.ndarray[Any, Any] = self.learner.predict(job, torch.device("cpu")).float().numpy()
        return probabilities

    def predict(self, x: Any) -> np.ndarray[Any, Any]:
        """The most probable label of each input, in this participant's own words."""
        return decode(torch.from_numpy(self.predict_proba(x).argmax(axis=1)), self.labels)

    def _own(self, data: Any, owner: str) -> Samples:
        x, y = as_pair(data, owner)
        return Samples({"x": x, "y": encode(y, self.labels, owner)})

    def _split(self, seed: int) -> Samples:
        """The training data; which samples are held back for validation depends on seed and name alone."""
        if self._held_back is None:
            return self._brought
        share, total = self._held_back, len(self._brought)
        held = round(share * total) if 0 <= share < 1 else 0
        if not 0 <= share < 1 or (share > 0 and held == 0) or held >= total:
            raise SettingsError(
                f"{self.name}: validation={share!r} of {total} samples; expected a share from 0 to below 1 that "
                f"leaves samples on both sides, or data."
            )
        if held == 0:
            return self._brought
        order = torch.randperm(total, generator=generator(seed, self.name, "validation"))
        self.validation = self._brought.take(order[:held])
        return self._brought.take(order[held:])

    def _bring(self, model: Any) -> Learner:
        if isinstance(model, nn.Module):
            return Network(model)
        if hasattr(model, "fit") and hasattr(model, "predict"):
            return Estimator(model, self.labels)
        raise ModelError(
            f"{self.name}: model is {model!r}; expected a torch module, an object with fit and predict, or a callable "
            f"(or its name) that makes one."
        )

    def _build(self) -> Any:
        return build(self._brought_model, tuple(self.data.x.shape[1:]), len(self.labels))


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _makes_models(model: Any) -> bool:
    """Tells a builder from a model: a network and an estimator can be called or not, a builder only called."""
    if isinstance(model, str) or inspect.isclass(model):
        return True
    return callable(model) and not isinstance(model, nn.Module) and not hasattr(model, "fit")
