"""A participant: one party, with private data, a model of its own, a plan, a task and private state."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from potluck.core.disclosure import Disclosure
from potluck.core.errors import DataError, ModelError, PotluckError, SettingsError, nearest
from potluck.core.inputs import describe
from potluck.core.labels import Label, LabelSpace
from potluck.core.learner import Learner
from potluck.core.metrics import MetricSetting
from potluck.core.model_spec import OWN, ModelSpec
from potluck.core.plan import Plan, as_plan
from potluck.core.randomness import generator
from potluck.core.samples import Samples
from potluck.core.task_choice import TaskSetting, as_task
from potluck.core.window import Window
from potluck.engines.base import Answering, AnsweringSession, own_model
from potluck.federation.attacks import as_attack
from potluck.federation.declared_models import NamedModels, together
from potluck.federation.held_data import HELD_DATA
from potluck.federation.joining import TOGETHER, Joining, as_learner, field_of
from potluck.ingestion.lazy import Preload
from potluck.ingestion.user_data import read_inputs
from potluck.learners.network import Network
from potluck.learners.structure import HeadAndBody, Stages, find_head, find_stages
from potluck.models import makes_models

if TYPE_CHECKING:
    from potluck.core.party import Storage
    from potluck.core.samples import SharedData

State = dict[str, Any]
"""What lasts between rounds and is in the checkpoint: tensors and plain values, in dicts and lists."""

HEAVY = (*HELD_DATA, "learner", "state", "codecs")
"""The fields of a participant that may be on disk, beside the models that its method declares."""


class Participant(Joining):
    """One party of a federation.

    Args:
        name: its name, unique in a federation.
        model: a torch module, or anything with ``fit`` and ``predict``; or what makes one: a callable, or its name as
            ``"package.module:callable"`` or in ``potluck.models``. It is called with ``input_shape`` and ``classes``
            where it takes them, under the federation's seed.
        data: ``(x, y)`` or ``(x, y, weight)``; ``(frame, "column")`` for a DataFrame and its column of labels; or a
            torch Dataset of pairs. It stays on this machine. Inputs may be arrays, a dict or tuple of them, and for an
            estimator DataFrames, sparse matrices and texts. A Dataset whose items are random is read anew in each
            epoch, under the participant's seed. Inputs alone, or ``(x, None)``, are data without targets of their own,
            which some methods can use.
        plan: how it trains, a ``Plan`` or a dict of its settings; by default ``Plan()``.
        test: ``(x, y)`` to evaluate on; by default the test data of the federation.
        validation: a share of the data from 0 to below 1, or data, to choose settings by; by default 0, for none.
        task: what is learned: a ``Task`` such as ``Regression()``, its short form such as "regression", or a dict of
            that (``name``) and settings; by default ``Classification()``. What it leaves open is found in the data.
        labels: its label space (strings or integers); by default the task's, or else the labels in ``y``.
        metrics: what is measured on test data, by scikit-learn's names, or functions of (truth, answers); the first is
            the headline. By default the task's.
        weight: its credibility, a factor in votes and means; by default 1.
        preprocess: a scikit-learn transformer between its data and its model. A copy is fitted on its training rows
            alone, and applied to everything that its model reads. By default None.
        window: which of its samples, in the order of time, it trains on in which round; by default None, for all in
            every round.
        preload: whether inputs that could be read batch by batch (of a Dataset, a folder of images, a numpy memory map)
            are read into memory at the start: True, False, or "auto" (the default), for up to 256 MiB.
        disclosure: which statistics of its columns may leave it in a study of tables (the method ``Describe``); by
            default ``Disclosure()``.
        stages: the names of a network's layers that are its "extractor", "intermediate" layers and "classifier"; by
            default they are found by inspection.
        head: the name of a network's layer that answers, or several, in the order in which they run; by default the
            last one with parameters that runs.
        attack: of a simulation, what it does to spoil the others' learning: "sign-flip", "scaling", "gaussian",
            "label-flip", "inner-product", "alie" or "backdoor", or a dict of that (``name``) and settings; by default
            None, for an honest participant.
    """

    is_local: ClassVar[bool] = True
    """Whether its model and data are on this machine."""

    looked_into: bool = True
    """Whether anybody had its model or its state in hand since it was evaluated, and so may have changed them."""

    def __init__(
        self,
        name: str,
        model: Any,
        data: Any,
        *,
        plan: Plan | Mapping[str, Any] | None = None,
        test: Any = None,
        validation: Any = 0.0,
        task: TaskSetting | None = None,
        labels: Iterable[Label] | None = None,
        metrics: Sequence[MetricSetting] | None = None,
        weight: float = 1.0,
        preprocess: Any = None,
        window: Window | None = None,
        disclosure: Disclosure | None = None,
        preload: Preload = "auto",
        stages: Mapping[str, Sequence[str]] | None = None,
        head: str | Sequence[str] | None = None,
        attack: Any = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise SettingsError(f"A participant's name is {name!r}; expected some text.")
        if not 0 < weight < float("inf"):
            raise SettingsError(f"{name}: weight is {weight!r}; expected a finite number above 0.")
        self.name = name
        self.plan = as_plan(plan, name)
        self.weight = float(weight)
        self.attack = as_attack(attack, name)
        self.disclosure = disclosure or Disclosure()
        self.held = {"state": {}, "codecs": None}
        self.storage: Storage | None = None
        """Where its ``HEAVY`` fields are while others run, if not in memory."""
        self._windowed: tuple[Samples, int, Samples] | None = None
        self._hold(data, as_task(task, name, labels, metrics), test, validation, preprocess, window, preload)
        self.named_stages = stages
        self.named_head = head
        self.specs: dict[str, ModelSpec] = {}
        """How the models beside its own are declared, by name."""
        self.brought_model = model
        self.inputs.network = isinstance(model, nn.Module)
        self.held["learner"] = None if makes_models(model) else as_learner(model, self.task, name)
        if preprocess is None:
            self._convert(self.inputs.for_model)

        # What the federation sets.
        self.working_bytes = 0
        """About how much memory its work takes."""
        self.seed = 0
        self.round = 0
        self.answering: Answering = own_model
        """How it answers inputs: as its method says; before it joins a federation, by its own model."""

    def __repr__(self) -> str:
        kind = type(self.model).__name__ if self.built else self.brought_model
        return f"Participant({self.name!r}, {kind}, {len(self.data)} samples, {self.task})"

    @property
    def labels(self) -> LabelSpace:
        """The labels that its task tells apart; none if it is not about labels."""
        return self.task.labels

    @property
    def labelled(self) -> bool:
        """Whether it has targets of its own to train on."""
        return bool(self.task.known(self.data.y).any())

    @property
    def built(self) -> bool:
        """Whether the model exists; that of a builder is made when the participant joins a federation."""
        return self.thing("learner") is not None

    @property
    def learner(self) -> Learner:
        """Its model, wrapped, so that it can be trained and read."""
        learner: Learner | None = self.thing("learner")
        if learner is None:
            raise ModelError(f"{self.name}: {self.brought_model!r} is built when the participant joins a federation.")
        return learner

    @property
    def public(self) -> Samples | None:
        """The public data as its model reads them, if there are any."""
        return None if self._public is None else self._see(self._public)

    def _see(self, shared: SharedData, known: bool = False) -> Samples | None:
        """What all may see, as its model reads it, looked up once."""
        if known not in self._seen or self._seen[known][0] is not shared:
            self._seen[known] = shared, self.inputs.seen(shared, self.task, known=known)
        return self._seen[known][1]

    def thing(self, name: str) -> Any:
        """One of its ``HEAVY`` fields, from memory or from disk."""
        if name not in self.held and self.storage is not None:
            self.storage.load(self, name)
        self.looked_into = self.looked_into or name not in HELD_DATA
        return self.held[name]

    @property
    def data(self) -> Samples:
        """The samples it trains on: all, or those of the round."""
        data: Samples = self.thing("data")
        return data if self.window is None else self._in_window(data, self.window)

    def _in_window(self, data: Samples, window: Window) -> Samples:
        first = window.begins(self.round, len(data))
        if self._windowed is None or self._windowed[0] is not data or self._windowed[1] != first:
            self._windowed = data, first, data.take(window.rows(self.round, len(data)))
        return self._windowed[2]

    @property
    def validation(self) -> Samples | None:
        """The samples it chooses settings by."""
        validation: Samples | None = self.thing("validation")
        return validation

    @property
    def test(self) -> Samples | None:
        """Test data of its own."""
        test: Samples | None = self.thing("test")
        return test

    def own_test(self, published: SharedData | None) -> Samples | None:
        """Its own test data, or those of the federation's whose labels it knows."""
        if self.test is not None or published is None:
            return self.test
        return self._see(published, known=True)

    @property
    def state(self) -> State:
        """What a method stores of it between rounds."""
        state: State = self.thing("state")
        return state

    @property
    def codec_memory(self) -> State:
        """What the channel's codecs store of it between payloads."""
        if self.thing("codecs") is None:
            self.held["codecs"] = {}
        memory: State = self.held["codecs"]
        return memory

    @property
    def network(self) -> Network:
        """The learner of a participant that brought a torch module."""
        if not isinstance(self.learner, Network):
            raise ModelError(f"{self.name} brought a {type(self.model).__name__}; expected a torch module.")
        return self.learner

    @cached_property
    def stages(self) -> Stages:
        """Extractor, intermediate layers and classifier of its network."""
        return find_stages(self.network.model, self.network.example(self.data, self.plan), self.named_stages)

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the layers where its network answers: the last one with parameters, or as its owner says."""
        return self._head_and_body.head

    @property
    def body(self) -> tuple[str, ...]:
        """The names of its network's other layers with parameters."""
        if not self._head_and_body.body:
            head = ", ".join(self.head)
            raise ModelError(f"{self.name}: {type(self.model).__name__} has no parameters beside its head, {head}.")
        return self._head_and_body.body

    def last_layers(self, count: int) -> tuple[str, ...]:
        """The names of the last layers with parameters: the head, which counts as one, and layers of the body."""
        if count <= 1:
            return self.head if count == 1 else ()
        if count > 1 + len(self.body):
            raise ModelError(
                f"{self.name}: {type(self.model).__name__} has {1 + len(self.body)} layers; asked for {count}."
            )
        return (*self.body[1 - count :], *self.head)

    @cached_property
    def _head_and_body(self) -> HeadAndBody:
        return find_head(self.network.model, self.network.example(self.data, self.plan), self.named_head)

    @property
    def models(self) -> Mapping[str, Any]:
        """All its models, wrapped, by name: "own", and those that the method declares."""
        return NamedModels(self.name, (OWN, *self.specs), lambda name: self.learner_for(name))

    @property
    def heavy(self) -> tuple[str, ...]:
        """Its fields that may be on disk."""
        return (*HEAVY, *(field_of(name) for name in self.specs))

    @property
    def changing(self) -> tuple[str, ...]:
        """Its fields that its half of a method changes."""
        return ("learner", "state", *(field_of(name) for name in self.specs))

    def moving(self) -> Participant:
        """The same participant for another process, which need not know how it was brought, nor what codecs store."""
        twin = copy.copy(self)
        twin.held = {name: self.thing(name) for name in (*self.changing, "data", "validation", "test")}
        twin.storage, twin.brought_model, twin._seen, twin._windowed = None, None, {}, None
        return twin

    @property
    def model(self) -> Any:
        """The model itself; trained, after a run."""
        return self.learner.model if self.built else self.brought_model

    def twin(self) -> Participant:
        """The same participant with a network of its own: what is tried out on it leaves this one as it is."""
        twin = copy.copy(self)
        twin.held, twin.inputs = dict(self.held), copy.copy(self.inputs)
        if isinstance(self.brought_model, nn.Module):
            twin.brought_model = copy.deepcopy(self.brought_model)
        return twin

    def holding(self, data: Samples, validation: Samples | None) -> Participant:
        """The same participant with a network of its own and other data to train on, and to choose settings by."""
        twin = self.twin()
        twin.held_back = 0.0
        twin.held |= {"brought": data, "data": data, "brought validation": validation, "validation": validation}
        return twin

    def learner_for(self, model: str | None) -> Learner:
        """The learner that a request is for."""
        if model is None or model == OWN:
            return self.learner
        if model not in self.specs:
            raise ModelError(f"{self.name} has no model {model!r}.{nearest(model, (OWN, *self.specs))}")
        learner: Learner = self.thing(field_of(model))
        return learner

    def learners_for(self, models: Sequence[str]) -> Learner:
        """Several of its learners as one."""
        return together(self.models, models, self.held.setdefault(TOGETHER, {}))

    def spec_of(self, model: str) -> ModelSpec | None:
        """How one of its models is declared."""
        return self.specs.get(model)

    def samples_for(self, asked: Samples | None) -> Samples:
        """The samples that a request is about."""
        return self.data if asked is None else asked

    def plan_for(self, asked: Plan | None) -> Plan:
        """The plan that a request follows."""
        return asked or self.plan

    def look_again(self) -> None:
        """Has its network and its plan inspected anew where their owner may have changed what they are made of."""
        self.looked_into = self.plan.look_again() or self.looked_into
        if isinstance(learner := self.held.get("learner"), Network) and not self.builds_its_model:
            learner.look_again()
        self.let_go()

    def let_go(self) -> None:
        """Drops what refers to several of its models at once."""
        self.held.pop(TOGETHER, None)

    def snapshot(self) -> State:
        """Everything of it that lasts between rounds: what a checkpoint holds."""
        declared = {name: self.learner_for(name).state() for name in self.specs}
        prepared = self.inputs.preprocessing
        more = {
            "models": declared,
            "codecs": self.thing("codecs"),
            "preprocess": None if prepared is None else prepared.state(),
        }
        parts = {name: part for name, part in more.items() if part is not None and len(part)}
        return {"learner": self.learner.state(), "state": self.state, **parts}

    def restore(self, snapshot: State) -> None:
        """Restores what ``snapshot`` returned."""
        self.learner.restore(snapshot["learner"])
        for name in self.specs:
            self.learner_for(name).restore(snapshot["models"][name])
        self.held["state"], self.held["codecs"] = snapshot["state"], snapshot.get("codecs")
        if self.inputs.preprocessing is not None:
            self.inputs.preprocessing.restore(snapshot["preprocess"])

    def check_keepable(self) -> None:
        """Raises ModelError unless a checkpoint can store its model."""
        self.learner.check_keepable(self.data, self.name)
        if self.inputs.preprocessing is not None:
            self.inputs.preprocessing.check_keepable(self.thing("brought"))

    def weights(self) -> dict[str, Tensor]:
        """A copy of the network's weights and buffers by name."""
        return self.network.weights()

    def load(self, entries: Mapping[str, Tensor]) -> None:
        """Replaces some or all weights and buffers."""
        self.network.load(entries)

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers of this participant, this round, this purpose."""
        return generator(self.seed, self.name, self.round, purpose)

    def predict_proba(self, x: Any) -> np.ndarray[Any, Any]:
        """What its method answers, a row for each input: probabilities over ``labels``, or values."""
        inputs = self.inputs.read(read_inputs(x, self.name))
        try:
            answers = AnsweringSession(self, self.answering, inputs).answer_alone(torch.device("cpu"))
        except PotluckError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            found, known = describe(inputs.kinds), describe(self.data.kinds)
            if found == known:
                raise
            message = f"{self.name}: its model cannot read inputs of {found}, and was trained on {known}: {error}"
            raise DataError(message) from error
        if answers is None:
            raise ModelError(f"{self.name} has nothing to answer with yet; run the federation first.")
        probabilities: np.ndarray[Any, Any] = answers.float().numpy()
        return probabilities

    def predict(self, x: Any) -> np.ndarray[Any, Any]:
        """What its method answers, as its owner knows targets: the most probable labels, or the values."""
        return self.task.said(torch.from_numpy(self.predict_proba(x)))

    def save(self, path: str | os.PathLike[str], *, test: Any = None, onnx: bool = False) -> None:
        """Writes its model, as its method answers with it, to a folder that ``potluck.load`` and plain torch read.

        Args:
            path: the folder; it must not be there, or be empty.
            test: ``(x, y)`` to measure it on; by default its own test data, if it has some.
            onnx: whether a network is written as ONNX, too (the extra ``onnx``); by default False.
        """
        from potluck.export.save import save_model

        tested = None if test is None else self.inputs.read(self._own(test, f"{self.name} (test)"))
        save_model(self, Path(path), test=tested, onnx=onnx)
