"""What a network's code does besides computing, found by running a copy of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn

from potluck.core.architecture import Architecture
from potluck.core.model_view import ModelView
from potluck.core.plan import Plan
from potluck.core.randomness import all_seeded, drawing
from potluck.core.samples import Samples


@dataclass(frozen=True)
class Traits:
    """What a network's code does besides computing, which a stack of networks cannot do for each of them.

    Args:
        draws: it draws random numbers in training, as Dropout does; by default False.
        changes_itself: it changes attributes of its modules when it runs, as a counter in ``forward`` does; by default
            False.
    """

    draws: bool = False
    changes_itself: bool = False


def probed(module: nn.Module, samples: Samples, plan: Plan, dtype: torch.dtype) -> Traits:
    """What a copy of the module does when it runs two samples, in training and in evaluation."""
    try:
        twin = copy.deepcopy(module).cpu().train()
        before = Architecture(twin)
        with torch.no_grad(), all_seeded(0):
            x = plan.inputs(samples.at(slice(2)), dtype)
            _, draws = drawing(lambda: ModelView(twin)(x))
            ModelView(twin.eval())(x)
    except Exception:  # whatever is wrong with it comes again, with its traceback, where it is trained
        return Traits()
    return Traits(draws, Architecture(twin) != before)
