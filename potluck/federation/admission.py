"""Who may sit at the table: what is checked before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError, RequirementsError, SettingsError
from potluck.core.labels import UNLABELLED, LabelSpace, encode
from potluck.core.samples import Samples, as_inputs, as_pair
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.learners.architecture import architecture
from potluck.learners.network import Network


class SharedData:
    """Data that a federation shows to all, perhaps with labels. Who has the same label space shares one copy."""

    def __init__(self, x: Tensor, y: np.ndarray[Any, Any] | None = None, owner: str = "public data") -> None:
        self.x, self.y, self._owner = x, y, owner
        self._whole: dict[LabelSpace, Samples] = {}
        self._known: dict[LabelSpace, Samples | None] = {}

    def whole(self, labels: LabelSpace) -> Samples:
        """All samples; labels outside the label space are no labels."""
        if labels not in self._whole:
            known = {} if self.y is None else {"y": encode(self.y, labels, self._owner, strict=False)}
            self._whole[labels] = Samples({"x": self.x, **known})
        return self._whole[labels]

    def known(self, labels: LabelSpace) -> Samples | None:
        """The samples whose label is in the label space; None if there are none."""
        if labels not in self._known:
            whole = self.whole(labels)
            rows = (whole.y != UNLABELLED).nonzero().squeeze(1)
            some = whole if len(rows) == len(whole) else whole.take(rows)
            self._known[labels] = some if len(some) else None
        return self._known[labels]


class Tests(Mapping[str, tuple[Participant, Samples | None]]):
    """Each participant with the samples it is evaluated on, if there are any; looked up when asked for."""

    def __init__(self, participants: Mapping[str, Participant], published: SharedData | None) -> None:
        self._participants, self._published = participants, published

    def __getitem__(self, name: str) -> tuple[Participant, Samples | None]:
        participant = self._participants[name]
        return participant, participant.own_test(self._published)

    def __iter__(self) -> Iterator[str]:
        return iter(self._participants)

    def __len__(self) -> int:
        return len(self._participants)


class Seats:
    """Who sits at the table: one after the other takes a seat, and is looked at only then."""

    def __init__(self) -> None:
        self.participants: dict[str, Participant] = {}
        self._models: dict[int, str] = {}
        self._kinds: dict[Hashable, Participant] = {}
        self._inputs = ("", "")

    def take(self, participant: Participant, join: Callable[[Participant], Samples | None]) -> None:
        """Gives somebody a seat; ``join`` has it join and returns the samples it will be tested on."""
        if not isinstance(participant, Participant):
            raise SettingsError(f"{participant!r} is no Participant.")
        name = participant.name
        if name in self.participants:
            raise SettingsError(f"Two participants are named {name!r}; names must differ.")
        if participant.built and not participant.builds_its_model:
            owner = self._models.setdefault(id(participant.model), name)
            if owner != name:
                raise SettingsError(
                    f"{owner} and {name} bring the same model object, so training one would change the "
                    f"other; give each its own (copy.deepcopy)."
                )
        self.participants[name] = participant
        test = join(participant)
        self._inputs = self._inputs if self._inputs[0] else (name, _kind(participant.data.x))
        self.check_inputs(name, participant.data.x)
        if test is not None:
            self.check_inputs(f"the test data of {name}", test.x)
        self._kinds.setdefault(_likeness(participant), participant)

    def check_inputs(self, owner: str, x: Tensor) -> None:
        """Everybody must read the same kind of inputs: they learn from each other on them."""
        first, kind = self._inputs
        if _kind(x) != kind:
            raise DataError(
                f"{owner} has inputs of {_kind(x)}, {first} of {kind}; expected the same for all. "
                f"Convert them before they join."
            )

    def check_fit(self, method: Method, shown: SharedData | None, *, alone: bool = False) -> None:
        """The method must fit this federation; if not, every reason is told at once.

        ``alone``: the others are elsewhere, so what they must have in common is not looked at.
        """
        kind: Literal["nothing", "inputs", "labels"] = "nothing"
        if shown is not None:
            kind = "inputs" if shown.y is None else "labels"
        needs = replace(method.requires(), shared_labels=False) if alone else method.requires()
        if not needs.unmet(list(self._kinds.values()), kind):
            return  # what fits one of each kind fits all
        reasons = needs.unmet(list(self.participants.values()), kind)
        if reasons:
            raise RequirementsError(
                f"{type(method).__name__} does not fit this federation:"
                + "".join(f"\n- {reason}" for reason in reasons)
            )


def published(public: Any) -> SharedData | None:
    """Public data given as ``x``, as ``(x, y)``, as a torch Dataset of pairs, or as shown already."""
    if public is None or isinstance(public, SharedData):
        return public
    if isinstance(public, tuple | torch.utils.data.Dataset):
        return SharedData(*as_pair(public, "public data"))
    return SharedData(as_inputs(public, "public data"))


def _likeness(participant: Participant) -> Hashable:
    """Participants of one likeness all fit a method, or none does."""
    if not participant.is_local:
        return participant.labels
    learner = participant.learner
    model = architecture(learner.model) if isinstance(learner, Network) else type(learner)
    return model, participant.labels, participant.plan.transform, str(participant._named_stages)


def _kind(x: Tensor) -> str:
    """What must be the same about all inputs: the shape, and whether they are bytes, which are scaled."""
    return f"shape {tuple(x.shape[1:])}" + (" in bytes" if x.dtype == torch.uint8 else "")
