"""Networks that a method declares beside the participants' own, or at the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from potluck.core.errors import SettingsError
from potluck.core.plan import Plan

OWN = "own"
"""The name of the model that a participant brought, among all that it has."""


@dataclass(frozen=True)
class ModelSpec:
    """One network that a method declares: how it is built, and how it trains.

    Beside a participant's own network it computes in the precision of that one, so that both read the same batch.

    Args:
        builder: what makes it: a callable, or its name as ``"package.module:callable"`` or in ``potluck.models``. It is
            called with ``input_shape`` and ``classes`` where it takes them, under the federation's seed.
        classes: how many numbers it puts out; by default as many as its party has labels.
        input_shape: the shape of one input; by default that of the party's data, at the server of the public data.
        plan: how it trains; by default as the Fit or the participant says. In a Fit of several models it decides this
            one's optimizer, rate, schedule and clipping; which samples meet at a step is one for all of them.
        keep_optimizer: whether its optimizer remembers across trainings; by default as the federation says, at the
            server False.
        same_start: whether it begins with the same weights at every participant; by default True.
    """

    builder: str | Callable[..., Any]
    classes: int | None = None
    input_shape: Any = None
    plan: Plan | None = None
    keep_optimizer: bool | None = None
    same_start: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.builder, str) and (isinstance(self.builder, nn.Module) or not callable(self.builder)):
            raise SettingsError(
                f"A model's builder is {self.builder!r}; expected a callable that makes a network, or its name."
            )


Declared = Mapping[str, ModelSpec | str | Callable[..., Any]]
"""What a method declares: name → how the network is built. A builder alone stands for a ``ModelSpec`` of it."""


def specs_of(declared: Declared, method: str) -> dict[str, ModelSpec]:
    """The declaration in full. Raises SettingsError for a name that cannot be one."""
    if not isinstance(declared, Mapping):
        raise SettingsError(f"{method} declares models as {declared!r}; expected a dict: name → ModelSpec.")
    for name in declared:
        if not isinstance(name, str) or not name.isidentifier() or hasattr(nn.Module(), name) or name == OWN:
            raise SettingsError(
                f"{method} declares a model named {name!r}; expected a plain word that is neither {OWN!r}, the name of "
                f"the participant's own, nor something that every torch module has."
            )
    return {name: spec if isinstance(spec, ModelSpec) else ModelSpec(spec) for name, spec in declared.items()}
