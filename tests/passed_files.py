"""Which of Potluck's files a piece of work passes through: how far one must read to follow it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import potluck

PACKAGE = Path(potluck.__file__).parent
VALUES = {
    f"core/{name}.py"
    for name in (
        "payload",
        "schema",
        "exchange_order",
        "job",
        "samples",
        "inputs",
        "plan",
        "randomness",
        "history",
        "columns",
        "tasks",
        "classification",
        "metrics",
        "model_view",
    )
}
"""Plain values of the core, which a reader knows already: what a schema is to a payload, columns are to a history."""


class PassedFiles:
    """Notes the files whose functions are called between ``start`` and ``stop``, in the order of their first call.

    ``side`` names whose work it is at present; each side has a list of its own in ``files``.
    """

    def __init__(self, side: str = "here") -> None:
        self.side = side
        self.files: dict[str, list[str]] = {}
        self._threads = torch.get_num_threads()

    def start(self) -> None:
        """With one thread: where there are several, ``engines/threads.py`` chooses how many a step has."""
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        sys.setprofile(self._called)

    def stop(self) -> None:
        sys.setprofile(None)
        torch.set_num_threads(self._threads)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            passed = self.files.setdefault(self.side, [])
            if name not in VALUES and name not in passed:
                passed.append(name)
