"""What holds for every test: one thread, and nothing of the process left as another test has set it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

# Small networks gain nothing from several threads, and lose much when another process is busy.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_file_rights() -> Iterator[None]:
    """Commands that are called within this process have what they write be their user's alone."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
