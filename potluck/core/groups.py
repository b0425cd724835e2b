"""Training parts of a network, each in a way of its own: groups with their own optimizers, steps by turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from potluck.core.errors import ModelError, nearest
from potluck.core.objectives import AnyObjective
from potluck.core.plan import Plan

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that a Fit trains by a plan of their own.

    Args:
        parameters: names of parameters, or of layers for all parameters in them, such as ``me.head``. In a Fit of
            several models they begin with the model's name: "shared.fc".
        plan: their optimizer, rate, momentum, weight decay, schedule and clipping. Epochs and batches are the Fit's.
    """

    parameters: Iterable[str]
    plan: Plan

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", names_of(self.parameters))  # a generator would give its names once

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.parameters)


@dataclass(frozen=True, eq=False)
class Update:
    """One of several optimizer steps that a Fit takes at each batch, one after the other.

    Args:
        objective: the loss to minimise in this step, or several, whose gradients are combined as the Fit says.
        only: the names of the parameters, or layers, or models that change in it; by default those of the Fit.
    """

    objective: AnyObjective | Sequence[AnyObjective]
    only: Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.only is not None:
            object.__setattr__(self, "only", names_of(self.only))


def names_of(places: Iterable[str]) -> tuple[str, ...]:
    """Names as given, or the one that stands alone."""
    return (places,) if isinstance(places, str) else tuple(places)


def within(name: str, places: Iterable[str]) -> bool:
    """Whether a parameter is one of these, or in one of these layers."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def chosen(
    parameters: Mapping[str, Found], places: Iterable[str] | None, frozen: Iterable[str] = ()
) -> dict[str, Found]:
    """Those parameters that are named, by themselves or by a layer that holds them.

    Args:
        parameters: the trainable parameters by name.
        places: the names of parameters or layers; None for all.
        frozen: the names of the other parameters: they may be named among others, and stay as they are.
    """
    if places is None:
        return dict(parameters)
    listed = names_of(places)
    if not listed:
        raise ModelError("A training is to change nothing: `only` names no parameter, and no layer.")
    found = {name: parameter for name, parameter in parameters.items() if within(name, listed)}
    check_places(listed, (*found, *frozen) if found else (), parameters)
    return found


def check_places(places: Iterable[str], known: Collection[str], trainable: Iterable[str]) -> None:
    """Raises ModelError where something names neither a parameter nor a layer that holds one.

    Args:
        places: the names.
        known: the names of parameters that may be meant.
        trainable: the names of the trainable parameters, for advice.
    """
    for place in places:
        if not any(within(name, (place,)) for name in known):
            raise ModelError(f"The model has no trainable parameter in {place!r}.{nearest(place, _places(trainable))}")


def _places(parameters: Iterable[str]) -> list[str]:
    """Every name that stands for a parameter or for a layer with parameters."""
    found: dict[str, Any] = {}
    for name in parameters:
        steps = name.split(".")
        found.update((".".join(steps[: end + 1]), None) for end in range(len(steps)))
    return list(found)
