"""Small networks gain nothing from several threads, and lose much when another process is busy."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
