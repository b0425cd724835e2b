"""Networks of one family in different depths: their layers, as methods count them that scale depth.

Names alone tell: a layer is what has a number (``layer3.1``, ``blocks.7``, ``0``), or a module of its own (``conv1``);
normalisation belongs to the layer before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerPlace:
    """Where an entry lies.

    Args:
        stage: the path of what holds numbered layers, e.g. "layer3"; of an entry outside of such, its module.
        number: the number of its layer there; None outside.
        inner: its path in that layer.
    """

    stage: str
    number: int | None
    inner: str


def place_of(name: str) -> LayerPlace:
    """An entry's place: ``layer3.1.conv2.weight`` is ``conv2.weight`` of layer 1 of ``layer3``."""
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts[:-1]) if part.isdecimal()), None)
    if first is None:
        return LayerPlace(".".join(parts[:-1]), None, parts[-1])
    return LayerPlace(".".join(parts[:first]), int(parts[first]), ".".join(parts[first + 1 :]))


def layers_of(layout: Mapping[str, Sequence[str | int]]) -> list[list[str]]:
    """The entries of each layer, in definition order.

    Args:
        layout: each entry's type and shape.
    """
    return [names for names in _merged(layout) if names]


def _merged(layout: Mapping[str, Sequence[str | int]]) -> Iterator[list[str]]:
    """Runs of entries of one place; those without a matrix join the run before them."""
    runs: dict[tuple[str, int | None], list[str]] = {}
    for name in layout:
        place = place_of(name)
        runs.setdefault((place.stage, place.number), []).append(name)
    layer: list[str] = []
    for names in runs.values():
        if layer and any(len(layout[name]) > 2 for name in names):
            yield layer
            layer = []
        layer = [*layer, *names]
    yield layer
