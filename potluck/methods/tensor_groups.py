"""Several groups of tensors in one payload, each under a name of its own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from potluck.core.payload import Payload


def under(group: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as they travel beside others: ``group/name``."""
    return {f"{group}/{name}": tensor for name, tensor in tensors.items()}


def group_of(payload: Payload, group: str) -> dict[str, Tensor]:
    """What ``under`` put into a payload."""
    start = f"{group}/"
    return {name.removeprefix(start): tensor for name, tensor in payload.tensors.items() if name.startswith(start)}
