"""Whether a network reads its owner's inputs, and puts out what its task needs. Reported before anything is trained."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from potluck.core.classification import Classification
from potluck.core.errors import ModelError
from potluck.core.inputs import advice_on, describe
from potluck.core.model_view import ModelView
from potluck.core.randomness import seeded
from potluck.core.samples import Samples
from potluck.core.tasks import Task


def check_output(module: nn.Module, example: Any, samples: Samples, task: Task, owner: str) -> None:
    """Raises ModelError, with what to do, unless the module answers two samples as the task needs.

    Args:
        module: the network, in evaluation mode.
        example: the first two samples as the network reads them.
        samples: the samples as they are stored.
        task: what is learned.
        owner: whose they are.
    """
    kind = type(module).__name__
    try:
        with torch.no_grad(), seeded(0):
            output = ModelView(module)(example)
    except ModelError as error:
        raise ModelError(f"{owner}: {kind}: {error}") from error
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        message = f"{owner}: {kind} cannot read inputs of {describe(samples.kinds)}: {error}"
        raise ModelError(message + advice_on(example)) from error
    found, wanted = tuple(output.shape), task.shapes(samples.y[:2])
    if found not in wanted:
        what, pass_ = ("labels", ", or pass `labels`") if task.labels else ("outputs", "")
        raise ModelError(
            f"{owner}: {kind} puts out {found} for {wanted[0][0]} samples; expected {wanted[0]}, one number "
            f"for each of its {task.outputs} {what}. Change the last layer{pass_}."
        )
    if isinstance(task, Classification):
        warn_of_probabilities(output, kind)


def warn_of_probabilities(output: Tensor, kind: str) -> None:
    """Warns where a classifier's outputs are probabilities, as after a Softmax: the loss would apply a second one."""
    sums = output.sum(dim=-1)
    alike = output.shape[-1] > 1 and torch.allclose(sums, torch.ones_like(sums), atol=1e-4)
    if alike and bool((output >= 0).all()):
        warnings.warn(
            f"{kind} puts out probabilities: for each sample numbers from 0 that add up to 1, as after a Softmax. The "
            f"loss and the metrics expect logits, and apply a softmax themselves; leave out the last one.",
            stacklevel=2,
        )
