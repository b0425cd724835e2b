"""Numbers in arrays, tensors and lists, as tensors; and targets as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError


def as_inputs(x: Any, owner: str) -> Tensor:
    """Inputs given as an array, tensor or nested list, checked: not empty, numeric."""
    if isinstance(x, Tensor):
        if x.layout != torch.strided:
            raise DataError(f"{owner}: inputs are a sparse tensor; expected a dense one: `x.to_dense()`.")
        tensor = x.detach().cpu()
    else:
        try:
            array = np.asarray(x, order="C")
        except ValueError as error:
            raise DataError(f"{owner}: inputs form no table: {error}.") from error
        if array.dtype.kind not in "fiub":
            raise DataError(
                f"{owner}: inputs of type {array.dtype}; expected numbers. Encode them first, or give an estimator a "
                f"DataFrame, whose columns it gets as they are."
            )
        array = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
        tensor = torch.from_numpy(array)
    if tensor.ndim == 0 or len(tensor) == 0:
        raise DataError(f"{owner}: no samples; expected at least one row of inputs.")
    return tensor


def as_targets(y: Any, count: int, owner: str) -> np.ndarray[Any, Any]:
    """Targets as they were brought, in an array: a row for each of so many samples."""
    targets = _array(y)
    if targets.ndim == 0 or len(targets) != count:
        raise DataError(f"{owner}: {count} inputs but labels of shape {targets.shape}; expected one label for each.")
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        raise DataError(f"{owner}: labels hold NaN or infinity. Clean or drop those samples first.")
    return targets


def _array(y: Any) -> np.ndarray[Any, Any]:
    if isinstance(y, Tensor):
        found: np.ndarray[Any, Any] = y.detach().cpu().numpy()
        return found
    try:
        return np.asarray(y)
    except ValueError:  # lists of unequal length: the labels of each sample
        found = np.empty(len(y), dtype=object)
        found[:] = list(y)
        return found


def as_weights(weight: Any, count: int, owner: str) -> Tensor:
    """A weight for each sample, as floats."""
    try:
        weights = torch.from_numpy(np.array(weight, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"{owner}: sample weights are no numbers: {error}.") from error
    if weights.shape != (count,) or not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise DataError(
            f"{owner}: sample weights of shape {tuple(weights.shape)} for {count} samples; expected a finite number, "
            f"0 or more, for each."
        )
    if not bool(weights.any()):
        raise DataError(f"{owner}: all sample weights are 0; expected some above.")
    return weights
