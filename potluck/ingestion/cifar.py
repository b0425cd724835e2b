"""Reads the files of CIFAR-10 and CIFAR-100: the binary ones, and the pickled ones without running what they name."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError

_PIXELS = 3 * 32 * 32


def read_cifar_binary(content: bytes, labels: int, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images (rows, 3, 32, 32) and labels (rows, labels) of a binary file, in which the labels precede each image.

    Args:
        content: the file's bytes.
        labels: how many labels an image has.
        name: what an error calls it.
    """
    row = labels + _PIXELS
    if not content or len(content) % row:
        raise DataError(f"{name} has {len(content):,} bytes; expected a multiple of {row}: labels and 3×32×32 pixels.")
    rows = np.frombuffer(content, np.uint8).reshape(-1, row)
    return rows[:, labels:].reshape(-1, 3, 32, 32).copy(), rows[:, :labels].astype(np.int64)


def read_cifar_pickle(content: bytes, name: str) -> dict[str, Any]:
    """The entries of a pickled batch: lists, and ``data`` as images (rows, 3, 32, 32).

    A pickle may call what it names. This reader knows three names, those of an array of bytes, and calls none of them:
    a stand-in keeps the bytes, and any other name is refused.
    """
    try:
        found = _Reader(io.BytesIO(content), encoding="bytes").load()
        entries = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in found.items()}
        pixels = entries["data"].pixels
        entries["data"] = np.frombuffer(pixels, np.uint8).reshape(-1, 3, 32, 32).copy()
    except DataError:
        raise
    except Exception as error:  # whatever a damaged pickle leads to
        raise DataError(f"{name} cannot be read as a batch of CIFAR: {type(error).__name__}: {error}.") from error
    return entries


class _Bytes:
    """Stands in for an array: keeps the bytes that it is filled with."""

    pixels = b""

    def __setstate__(self, state: Any) -> None:
        *_, fortran, pixels = state
        if fortran or not isinstance(pixels, bytes):
            raise ValueError("an array of something else than bytes in rows")
        self.pixels = pixels


class _Type:
    """Stands in for the type of an array's numbers."""

    def __init__(self, name: Any = "", *_: Any) -> None:
        if name not in ("u1", b"u1"):
            raise ValueError(f"an array of {name!r}; expected bytes")

    def __setstate__(self, state: Any) -> None:
        """Nothing of it matters for bytes."""


def _made(*_: Any) -> _Bytes:
    return _Bytes()


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _made,
    ("numpy._core.multiarray", "_reconstruct"): _made,
    ("numpy", "ndarray"): _Bytes,
    ("numpy", "dtype"): _Type,
}


class _Reader(pickle.Unpickler):
    """Finds the stand-ins, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise DataError(f"A batch of CIFAR names {module}.{name}, which no such file needs. It is not read.")
        return _STAND_INS[module, name]
