"""Low-rank adapters (LoRA, Hu et al., 2021): W + (α/r)·B·A, where W is frozen and A and B are trained.

Entries are named as PEFT names them, so that adapters saved here load there.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from potluck.core.errors import ModelError, nearest
from potluck.core.model_view import copy_holding
from potluck.models.checks import sizes

ADAPTER = "default"
"""What PEFT calls the one adapter of a layer."""


class LoRALayer(nn.Module):
    """A frozen linear layer or convolution with an adapter beside it.

    Args:
        base: the layer; it is frozen.
        rank: r, the rank of the adapter.
        alpha: α; what the adapter adds is multiplied by α / r.
    """

    def __init__(self, base: nn.Linear | nn.Conv2d, rank: int, alpha: float) -> None:
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        down: nn.Linear | nn.Conv2d
        up: nn.Linear | nn.Conv2d
        if isinstance(base, nn.Linear):
            down, up = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        else:
            place = {"stride": base.stride, "padding": base.padding, "dilation": base.dilation}
            down = nn.Conv2d(base.in_channels, rank, base.kernel_size, bias=False, **place)  # type: ignore[arg-type]
            up = nn.Conv2d(rank, base.out_channels, 1, bias=False)
        nn.init.kaiming_uniform_(down.weight, a=math.sqrt(5))
        nn.init.zeros_(up.weight)
        self.lora_A, self.lora_B = (
            nn.ModuleDict({ADAPTER: part.to(base.weight.device, base.weight.dtype)}) for part in (down, up)
        )
        self.rank, self.alpha = rank, alpha

    @property
    def scaling(self) -> float:
        """What the adapter's product is multiplied by."""
        return self.alpha / self.rank

    @property
    def weight(self) -> Tensor:
        """What the layer multiplies by, adapter included, for code that takes it from a layer instead of calling it.

        Torch's own attention and transformer layers do: without it they would not run, or leave the adapter out.
        """
        own: Tensor = self.base_layer.weight
        return own + self._product()

    @property
    def bias(self) -> Tensor | None:
        """The layer's own: an adapter adds nothing to it."""
        return self.base_layer.bias

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.base_layer(x) + self.scaling * self.lora_B[ADAPTER](self.lora_A[ADAPTER](x))
        return output

    def update(self) -> Tensor:
        """What the adapter adds to the layer's weights: (α/r)·B·A."""
        return self._product().detach()

    def _product(self) -> Tensor:
        down, up = (part.get_submodule(ADAPTER).weight for part in (self.lora_A, self.lora_B))
        assert isinstance(down, Tensor)
        assert isinstance(up, Tensor)
        found: Tensor = self.scaling * (up.flatten(1) @ down.flatten(1))
        return found.reshape(self.base_layer.weight.shape)


def lora(
    module: nn.Module,
    rank: int,
    targets: Collection[str] | None = None,
    alpha: float | None = None,
    trained: Collection[str] | None = None,
    share_base: bool = False,
) -> nn.Module:
    """A copy of a network with adapters; everything else in it is frozen but its last layer.

    Args:
        module: the network.
        rank: r, the rank of every adapter.
        targets: which linear layers and convolutions get one, by path or the last part of it, as for PEFT; by default
            all but the last layer.
        alpha: α, by which what an adapter adds is scaled (α / r); by default the rank, so that the scale is 1.
        trained: the paths of further layers that are trained whole; by default the last linear layer or convolution,
            unless it has an adapter.
        share_base: whether what is frozen stays in the memory of ``module``'s, so that many networks made of one hold
            it once; then nobody may train that. By default False: it is copied.
    """
    sizes("rank", [rank])
    held = [name for name, _ in module.named_parameters()] if share_base else []
    adapted = copy_holding(module, held).requires_grad_(False)
    layers = {
        path: layer
        for path, layer in adapted.named_modules()
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.groups == 1)
    }
    if not layers:
        raise ModelError(f"{type(module).__name__} has no linear layer or convolution to put an adapter beside.")
    last = list(layers)[-1]
    chosen = [path for path in layers if path != last] if targets is None else _chosen(layers, targets)
    if not chosen:
        raise ModelError(
            f"{type(module).__name__} has no linear layer or convolution but the last one, {last!r}, which is trained "
            f"whole. Name it in `targets` if it is to have an adapter."
        )
    for path in ([last] if last not in chosen else []) if trained is None else trained:
        if path not in dict(adapted.named_modules()):
            raise ModelError(f"The model has no layer {path!r}.{nearest(path, layers)}")
        for parameter in adapted.get_submodule(path).requires_grad_(True).parameters():
            parameter.data = parameter.data.clone()
    for path in chosen:
        parent, _, name = path.rpartition(".")
        setattr(adapted.get_submodule(parent), name, LoRALayer(layers[path], rank, float(alpha or rank)))
    return adapted


def _chosen(layers: Mapping[str, nn.Module], targets: Collection[str]) -> list[str]:
    """The layers with these paths or last parts of paths, in definition order."""
    for target in targets:
        if not any(_is(path, target) for path in layers):
            raise ModelError(f"The model has no linear layer or convolution {target!r}.{nearest(target, layers)}")
    return [path for path in layers if any(_is(path, target) for target in targets)]


def _is(path: str, target: str) -> bool:
    return path == target or path.endswith(f".{target}")


def adapted_layers(module: nn.Module) -> dict[str, LoRALayer]:
    """The layers of a network that have an adapter, by path."""
    return {path: layer for path, layer in module.named_modules() if isinstance(layer, LoRALayer)}


def merged(module: nn.Module) -> nn.Module:
    """A copy of a network without adapters, what they add put into the weights."""
    plain = copy.deepcopy(module)
    for path, layer in adapted_layers(plain).items():
        base = layer.base_layer
        base.weight.data += layer.update()
        parent, _, name = path.rpartition(".")
        setattr(plain.get_submodule(parent), name, base)
    return plain.requires_grad_(True)


def save_adapters(module: nn.Module, folder: str | Path) -> Path:
    """Saves a network's adapters in the files that PEFT loads them from, and returns the folder.

    Args:
        module: the network.
        folder: where the files go; it is made if it is not there.
    """
    layers = adapted_layers(module)
    if not layers:
        raise ModelError(f"{type(module).__name__} has no adapters; `potluck.models.lora` puts them in.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"base_model.model.{path}.{part}.weight": getattr(layer, part)[ADAPTER].weight.detach().contiguous()
        for path, layer in layers.items()
        for part in ("lora_A", "lora_B")
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    first = next(iter(layers.values()))
    config: dict[str, Any] = {
        "peft_type": "LORA",
        "r": first.rank,
        "lora_alpha": first.alpha,
        "target_modules": sorted(layers),
        "rank_pattern": {path: layer.rank for path, layer in layers.items() if layer.rank != first.rank},
        "alpha_pattern": {path: layer.alpha for path, layer in layers.items() if layer.alpha != first.alpha},
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "base_model_name_or_path": None,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1))
    return folder


def with_lora(
    input_shape: Sequence[int],
    classes: int,
    base: str,
    rank: int,
    targets: Collection[str] | None = None,
    alpha: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Another model of the zoo, or one of one's own, with low-rank adapters beside its layers.

    Args:
        input_shape: the shape of one input.
        classes: how many logits it puts out.
        base: the name of that model.
        rank: r, the rank of every adapter.
        targets: which layers get one; by default all but the last.
        alpha: α, by which what an adapter adds is scaled (α / r); by default the rank.
        settings: that model's settings; by default none.
    """
    from potluck.models import build  # which lists this builder

    made = build(base, input_shape, classes, **(settings or {}))
    if not isinstance(made, nn.Module):
        raise ModelError(f"{base!r} makes a {type(made).__name__}; adapters go beside the layers of a torch module.")
    return lora(made, rank, targets, alpha)
