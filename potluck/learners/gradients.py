"""Gradients that are not simply those of a whole batch: for each sample, or put together from pieces of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap
from torch.utils._pytree import tree_map

from potluck.core.errors import ModelError
from potluck.core.inputs import Batch, size_of
from potluck.core.model_view import view_of
from potluck.core.objectives import Context, Gradients
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.learners.schedule import GRADIENT_NOISE, cuts

WithLoss = tuple[Gradients, Tensor]
"""An objective's gradients and its loss."""

GradientsOf = Callable[[Any, Any, Mapping[str, Tensor], Batch, Context], WithLoss]
"""(objective, view of the network, the parameters whose gradients are sought, batch, context) → the gradients."""

LossOf = Callable[[Gradients, Batch], Tensor]
"""The loss for a batch, as a function of the parameters whose gradients are sought."""


def noise_apart(batch: Batch, context: Context) -> tuple[Batch, Context]:
    """A batch without the numbers that were drawn for each parameter, and the context with them."""
    drawn = {name.removeprefix(GRADIENT_NOISE): c for name, c in batch.items() if name.startswith(GRADIENT_NOISE)}
    rest = {name: column for name, column in batch.items() if not name.startswith(GRADIENT_NOISE)}
    return rest, {**context, "gradient_noise": drawn}


def gradients_in_pieces(gradients_of: Callable[[Batch], WithLoss], batch: Batch, work: Fit, plan: Plan) -> WithLoss:
    """The gradients of a step's batch from those of its pieces: their mean over samples, or all samples' own."""
    parts: list[WithLoss] = []
    sizes: list[int] = []
    for piece in pieces(batch, plan):
        parts.append(gradients_of(piece))
        sizes.append(size_of(piece))
    if len(parts) == 1:
        return parts[0]
    shares = [size / sum(sizes) for size in sizes]
    loss = _mean([loss for _, loss in parts], shares)
    each = {name: [found[name] for found, _ in parts] for name in parts[0][0]}
    join = torch.cat if work.per_sample else lambda found: _mean(found, shares)
    return {name: join(found) for name, found in each.items()}, loss


def _mean(values: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    first, *rest = (share * value for share, value in zip(shares, values, strict=True))
    return sum(rest, first)


def pieces(batch: Batch, plan: Plan) -> Iterator[Batch]:
    """A step's batch in pieces of the plan's batch size."""
    size = size_of(batch)
    starts = [0, *cuts(size, plan.batch_size)]
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        yield tree_map(lambda column, rows=slice(start, end): column[rows], batch)


def of_each_sample(loss_of: LossOf, sought: Mapping[str, Tensor], batch: Batch) -> WithLoss:
    """Each sample's own gradients, along a first dimension, and the mean of their losses, all at once."""

    def of_one(sought: Gradients, sample: Batch) -> tuple[Gradients, Tensor]:
        alone = tree_map(lambda column: column.unsqueeze(0), sample)
        found: tuple[Gradients, Tensor] = grad_and_value(loss_of)(sought, alone)
        return found

    found, losses = vmap(of_one, (None, 0), randomness="different")(dict(sought), batch)
    return found, losses.detach().mean()


def as_asked(plain: GradientsOf, module: nn.Module, work: Fit, plan: Plan) -> GradientsOf:
    """How one network's gradients are found where a Fit wants each sample's, or its plan small pieces.

    Args:
        plain: how they are found for a batch as a whole.
        module: the network.
        work: the training.
        plan: its plan.
    """
    if work.per_sample:
        check_each_sample(module)

    def found(objective: Any, view: Any, sought: Mapping[str, Tensor], batch: Batch, context: Context) -> WithLoss:
        def alone(piece: Batch) -> WithLoss:
            return plain(objective, view, sought, piece, context)

        def each(piece: Batch) -> WithLoss:
            try:
                with torch.no_grad():
                    return of_each_sample(lambda own, one: objective(view_of(module, own), one, context), sought, piece)
            except RuntimeError:  # an objective that cannot be mapped
                return _one_by_one(alone, piece)

        return gradients_in_pieces(each if work.per_sample else alone, batch, work, plan)

    return found


def _one_by_one(gradients_of: Callable[[Batch], WithLoss], batch: Batch) -> WithLoss:
    rows = range(size_of(batch))
    each = [gradients_of(tree_map(lambda column, at=slice(row, row + 1): column[at], batch)) for row in rows]
    found = {name: torch.stack([gradients[name] for gradients, _ in each]) for name in each[0][0]}
    return found, torch.stack([loss for _, loss in each]).mean()


def check_each_sample(module: nn.Module) -> None:
    """Raises ModelError where samples have no gradients of their own, since layers look at a whole batch."""
    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            raise ModelError(
                f"The model's layer {path!r} normalises over the batch, so that samples have no gradients of their "
                f"own. Train with freeze_norm_stats=True, or use GroupNorm."
            )
