"""Matrices of low rank: an entry as the product of two thin matrices, with as many singular values as it needs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from potluck.core.architecture import Layout
from potluck.core.payload import dtype_named
from potluck.core.schema import TensorSpec

PARTS = ("left", "values", "right")
"""What is sent of a matrix: U, the singular values, Vᵀ."""


def rank_for(values: Tensor, energy: float) -> int:
    """The least number of singular values whose squares hold this share of all, and one at least."""
    held = values.double().square().cumsum(dim=0)
    enough = held >= energy * held[-1] * (1 - 1e-12)
    return int(enough.nonzero()[0].item()) + 1 if enough.any() else 1


def factors(matrix: Tensor, energy: float) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values and Vᵀ of the nearest matrix of the least rank that holds this share of the energy."""
    if not bool(torch.isfinite(matrix).all()):  # what a training that went wrong sends is refused by its name
        broken = torch.full_like(matrix[:1, :1], torch.nan)
        return broken.expand(len(matrix), 1).contiguous(), broken[0], broken.expand(1, matrix.shape[1]).contiguous()
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    rank = rank_for(values, energy)
    return left[:, :rank].contiguous(), values[:rank].contiguous(), right[:rank].contiguous()


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """An entry's shape as a matrix (outputs, rest); None for what is no matrix, or one of a single row or column."""
    rest = torch.Size(shape[1:]).numel()
    return (shape[0], rest) if len(shape) > 1 and shape[0] > 1 and rest > 1 else None


def compressed(entries: Mapping[str, Tensor], energy: float) -> dict[str, Tensor]:
    """Entries as they travel: matrices of floats as factors, all else as it is."""
    found: dict[str, Tensor] = {}
    for name, entry in entries.items():
        shape = as_matrix(tuple(entry.shape)) if entry.is_floating_point() else None
        if shape is None:
            found[name] = entry
        else:
            parts = factors(entry.reshape(shape), energy)
            found.update({f"{name} {part}": tensor for part, tensor in zip(PARTS, parts, strict=True)})
    return found


def restored(sent: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries again, in the shapes of others of these names."""
    return {name: _product(sent, name, other) for name, other in like.items()}


def _product(sent: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    if name in sent:
        return sent[name]
    left, values, right = (sent[f"{name} {part}"] for part in PARTS)
    return ((left * values) @ right).reshape(like.shape)


def compressed_specs(layout: Layout) -> dict[str, TensorSpec]:
    """What compressed entries of a layout must look like."""
    specs: dict[str, TensorSpec] = {}
    for name, (kind, *lengths) in layout.items():
        dtype, whole = dtype_named(str(kind)), tuple(int(length) for length in lengths)
        shape = as_matrix(whole) if dtype.is_floating_point else None
        if shape is None:
            specs[name] = TensorSpec(whole, dtype)
        else:
            rank = f"rank of {name}"
            parts: tuple[tuple[int | str, ...], ...] = ((shape[0], rank), (rank,), (rank, shape[1]))
            specs.update({f"{name} {part}": TensorSpec(one, dtype) for part, one in zip(PARTS, parts, strict=True)})
    return specs
