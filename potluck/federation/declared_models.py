"""Networks that a method declares, built when their party joins, or at the server when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from potluck.core.errors import ModelError, nearest
from potluck.core.model_spec import ModelSpec
from potluck.core.randomness import seeded
from potluck.learners.joint import JointNetwork
from potluck.learners.network import Network
from potluck.models import build


class NamedModels(Mapping[str, Any]):
    """Models by name, each found when it is asked for.

    Args:
        owner: whose they are, for error messages.
        names: their names.
        find: gives the one of a name.
    """

    def __init__(self, owner: str, names: Iterable[str], find: Callable[[str], Any]) -> None:
        self._owner, self._names, self._find = owner, list(names), find

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise ModelError(f"{self._owner} has no model {name!r}.{nearest(str(name), self._names)}")
        return self._find(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def built(spec: ModelSpec, name: str, owner: str, seed: int, input_shape: Any, classes: int) -> Network:
    """A declared network.

    Args:
        spec: how it is built.
        name: its name, for error messages.
        owner: whose it is, for error messages.
        seed: what its weights are drawn from.
        input_shape: the shape of one input, unless it says otherwise.
        classes: how many numbers it puts out, unless it says otherwise.
    """
    shape = input_shape if spec.input_shape is None else spec.input_shape
    try:
        with seeded(seed):
            module = build(spec.builder, shape, classes if spec.classes is None else spec.classes)
    except ModelError as error:
        raise ModelError(f"{owner}: the model {name!r}, which the method declares, cannot be built: {error}") from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"{owner}: the builder of model {name!r} made a {type(module).__name__}; expected a network.")
    return Network(module)


def together(
    models: Mapping[str, Any], names: Sequence[str], known: dict[tuple[str, ...], JointNetwork]
) -> JointNetwork:
    """Several models as one; the one made before, while it is still made of these."""
    parts = {name: models[name] for name in names}
    for name, part in parts.items():
        if not isinstance(part, Network):
            raise ModelError(f"Model {name!r} is a {type(part.model).__name__}; only networks are trained together.")
    found = known.get(tuple(names))
    if found is None or not found.is_of(parts):
        found = known[tuple(names)] = JointNetwork(parts)
    return found
