"""Who may sit at the table: what is checked before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from potluck.errors import DataError, MisfitError, SettingsError
from potluck.method import Method
from potluck.participant import Participant
from potluck.samples import Samples, as_inputs, as_pair

Published = tuple[Tensor, np.ndarray[Any, Any] | None]
"""Public inputs, with or without labels."""

Tests = Mapping[str, tuple[Participant, Samples | None]]
"""Each participant with the samples it is evaluated on, if there are any."""


def by_name(participants: Iterable[Participant]) -> dict[str, Participant]:
    """The participants, each with a name and a model of its own."""
    found: dict[str, Participant] = {}
    models: dict[int, str] = {}
    for participant in participants:
        if not isinstance(participant, Participant):
            raise SettingsError(f"{participant!r} is no Participant.")
        if participant.name in found:
            raise SettingsError(f"Two participants are named {participant.name!r}; names must differ.")
        if participant.built:
            owner = models.setdefault(id(participant.model), participant.name)
            if owner != participant.name:
                raise SettingsError(
                    f"{owner} and {participant.name} bring the same model object, so training one would change the "
                    f"other; give each its own (copy.deepcopy)."
                )
        found[participant.name] = participant
    if not found:
        raise SettingsError("A federation needs at least one participant; got none.")
    return found


def published(public: Any) -> Published | None:
    """Public data given as ``x``, as ``(x, y)`` or as a torch Dataset of pairs."""
    if public is None:
        return None
    if isinstance(public, tuple | torch.utils.data.Dataset):
        return as_pair(public, "public data")
    return as_inputs(public, "public data"), None


def check_inputs(tests: Tests, shown: Published | None) -> None:
    """Everybody must read the same kind of inputs: they learn from each other on them."""
    first, *others = [participant for participant, _ in tests.values()]
    kind = _kind(first.data.x)
    inputs = [(p.name, p.data.x) for p in others]
    inputs += [(f"the test data of {name}", test.x) for name, (_, test) in tests.items() if test]
    inputs += [("the public data", shown[0])] if shown else []
    for owner, x in inputs:
        if _kind(x) != kind:
            raise DataError(
                f"{owner} has inputs of {_kind(x)}, {first.name} of {kind}; expected the same for all. "
                f"Convert them before they join."
            )


def check_fit(
    method: Method, participants: Mapping[str, Participant], shown: Published | None, *, alone: bool = False
) -> None:
    """The method must fit this federation; if not, every reason is told at once.

    ``alone``: the others are elsewhere, so what they must have in common is not looked at.
    """
    kind: Literal["nothing", "inputs", "labels"] = "nothing"
    if shown is not None:
        kind = "inputs" if shown[1] is None else "labels"
    needs = replace(method.requires(), shared_labels=False) if alone else method.requires()
    reasons = needs.unmet(list(participants.values()), kind)
    if reasons:
        raise MisfitError(
            f"{type(method).__name__} does not fit this federation:" + "".join(f"\n- {reason}" for reason in reasons)
        )


def _kind(x: Tensor) -> str:
    """What must be the same about all inputs: the shape, and whether they are bytes, which are scaled."""
    return f"shape {tuple(x.shape[1:])}" + (" in bytes" if x.dtype == torch.uint8 else "")
