"""InclusiveFL (Liu et al., 2022): models of different depth share their layers, from the first on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.architecture import Layout
from potluck.federation.method import Needs
from potluck.federation.server import Server
from potluck.methods.depth import layers_of
from potluck.methods.fedavg import Averaging
from potluck.methods.weight_sharing import digest_of

Size = tuple[list[list[Any]], dict[str, str]]
"""A size of model: its layers, and the key of each of its entries."""


class InclusiveFL(Averaging):
    """Section 3: each layer is averaged over all models that have it, but each size's last layer over that size alone.

    A size's last layer, and its head, are its own, since in a deeper model the same layer is no last one. By momentum
    distillation a last layer also learns from the next larger size: its update is β·(mean update of the larger size's
    layers from there up) + (1 − β)·(its own). Only updates of layers of the same shapes are taken.

    Layers are counted by names, in definition order (``potluck.methods.depth``), and the last of them is the head. A
    layer is averaged where name, type and shape are the same. A size that did not take part passes nothing on. The
    authors' code knows transformers of one width alone.

    Args:
        beta: β, how much of a last layer's update comes from the next larger size; by default 0.2, the authors' script.
        own_layers: how many layers before the head are a size's own; by default 1. With more, each of them learns so;
            with 0 it is layer-wise FedAvg with a head for each size.
        weighting: "samples" (the default) or "uniform".
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    needs = Needs(torch_module=True, one_label_space=True, tasks="any")
    tells_buffers: ClassVar[bool] = True

    beta: float = Field(0.2, ge=0, le=1)
    own_layers: int = Field(1, ge=0)
    aggregation: Literal["layerwise"] = "layerwise"
    weighting: Literal["samples", "uniform"] = "samples"

    def key(self, layout: Layout, name: str) -> str:
        own = [entry for layer in layers_of(layout)[-1 - self.own_layers :] for entry in layer]
        return f"{name} of {digest_of(layout)[:16]}" if name in own else super().key(layout, name)

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        old = server.state["global"]
        updates = {key: means[key] - old[key] for key in self.parameters(server) if key in means}
        sizes = self._sizes(server)
        lent = {}
        for place, (own, keys) in enumerate(sizes):
            larger = next((one for one in sizes[place + 1 :] if len(one[0]) > len(own)), None)
            if larger is not None:
                lent.update(self._lent((own, keys), larger, updates))
        mixed = {key: self.beta * update + (1 - self.beta) * updates[key] for key, update in lent.items()}
        super().step(server, means | {key: old[key] + update for key, update in mixed.items()})

    def _sizes(self, server: Server) -> list[Size]:
        """Each size's layers, as entries with type and shape, and its keys; the smallest first."""
        first = {digest: sender for sender, digest in sorted(server.state["digests"].items(), reverse=True)}
        found = []
        for sender in first.values():
            layout = server.state["layouts"][sender]
            layers = [[(name, layout[name]) for name in layer] for layer in layers_of(layout)]
            found.append((layers, self.keys(server, sender)))
        return sorted(found, key=lambda size: (len(size[0]), sorted(size[1].values())))

    def _lent(self, size: Size, larger: Size, updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By key of a last layer: the mean update of the larger size's layers from there up, its head left out."""
        (layers, keys), (layers_above, keys_above), found = size, larger, {}
        for place in range(max(0, len(layers) - 1 - self.own_layers), len(layers) - 1):
            alike = [above for above in layers_above[place:-1] if _shapes(above) == _shapes(layers[place])]
            for index, (name, _) in enumerate(layers[place]):
                lent = [updates[key] for above in alike if (key := keys_above[above[index][0]]) in updates]
                if keys[name] in updates and any(bool(update.any()) for update in lent):
                    found[keys[name]] = torch.stack(lent).mean(dim=0)
        return found


def _shapes(layer: list[Any]) -> list[Any]:
    """What the entries of a layer are called last, with their types and shapes."""
    return [(name.rpartition(".")[2], like) for name, like in layer]
