"""A spool: tensors that wait on disk until all are there, for merges that need them together."""

from __future__ import annotations

import mmap
import shutil
import tempfile
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.core.errors import MergeError

FREE = 0.5
"""How much of a disk's free space a spool may take."""
ALIGNED = 64
"""At multiples of how many bytes tensors begin."""


@dataclass(frozen=True)
class Spooled:
    """Where a tensor is in a spool, and what it is.

    Args:
        at: its first byte.
        dtype: its type.
        shape: its shape.
    """

    at: int
    dtype: torch.dtype
    shape: tuple[int, ...]


class Spool:
    """Tensors in a file of the temporary folder, which has no name there and goes with the process.

    They come back as views of the file: what is read of them is in memory only as long as there is room for it.

    Args:
        budget: how many bytes it may take; by default half of what the disk has free.
    """

    def __init__(self, budget: int | None = None) -> None:
        folder = tempfile.gettempdir()
        self._budget = int(FREE * shutil.disk_usage(folder).free) if budget is None else budget
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it is closed when nothing refers to it
        self._size = 0
        self._map: mmap.mmap | None = None

    def put(self, tensor: Tensor) -> Spooled:
        """Stores a tensor."""
        stored = tensor.detach().cpu().contiguous()
        end = self._size + stored.numel() * stored.element_size()
        if end > self._budget:
            raise MergeError(
                f"answers wait on disk for a robust merge, which takes more than the {self._budget} bytes that there "
                f"is room for; free space in {tempfile.gettempdir()!r}, have fewer take part in a round, or merge as "
                f'answers come: no `robust`, or robust="norm-bound"'
            )
        spooled = Spooled(self._size, stored.dtype, tuple(stored.shape))
        self._file.seek(self._size)
        if stored.numel():
            self._file.write(stored.reshape(-1).view(torch.uint8).numpy().data)
        self._size = -(-end // ALIGNED) * ALIGNED
        return spooled

    def get(self, spooled: Spooled) -> Tensor:
        """A stored tensor, which must not be written to. Nothing can be put from then on."""
        if self._map is None:
            self._file.truncate(max(self._size, ALIGNED))
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        count = torch.Size(spooled.shape).numel()
        if not count:
            return torch.empty(spooled.shape, dtype=spooled.dtype)
        found = torch.frombuffer(self._map, dtype=spooled.dtype, count=count, offset=spooled.at)
        return found.reshape(spooled.shape)
