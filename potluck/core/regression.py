"""Regression: each sample has one value, or several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.errors import DataError, SettingsError
from potluck.core.metrics import OF_VALUES, Array, Graded
from potluck.core.tasks import Shape, Task, weighted_mean

SCALES = ("standard", "none")


@dataclass(frozen=True)
class Regression(Task):
    """Each sample has one value, or several, and a model puts out as many numbers.

    Targets are scaled before a network sees them, and its answers are scaled back: answers, what is shared of them, and
    all metrics are in the user's units. An estimator gets the targets as they are.

    Args:
        outputs: how many values each sample has; by default 0, for as many as in the participant's data.
        scale: "standard" (the default), by which the targets that a participant brings get mean 0 and deviation 1;
            "none"; or a published scale ``(mean, deviation)``, of lists where there are several outputs. Where weights
            are averaged, a network's output means the same everywhere only with a published scale, or with none.
        found: the scale that "standard" was found to be in a participant's targets; nobody is told. By default ().
        metrics: as in ``Task``; by default R², the mean absolute error, and the root of the mean squared error.
    """

    KIND: ClassVar[str] = "regression"
    KNOWN = OF_VALUES
    USUAL: ClassVar[tuple[str, ...]] = ("r2", "mae", "rmse")
    ESTIMATORS: ClassVar[bool] = True

    outputs: int = 0
    scale: Any = "standard"
    found: Any = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.outputs, bool) or not isinstance(self.outputs, int) or self.outputs < 0:
            raise SettingsError(f"outputs is {self.outputs!r}; expected how many values each sample has.")
        if self.scale not in SCALES:
            mean, deviation = _published(self.scale)
            outputs = self.outputs or max(len(mean), len(deviation))
            object.__setattr__(self, "outputs", outputs)
            object.__setattr__(self, "scale", (_for_each(mean, outputs), _for_each(deviation, outputs)))

    def fitted(self, raw: Array | None, owner: str) -> Regression:
        if raw is None:
            if not self.outputs or self.scale == "standard":
                raise DataError(
                    f"{owner}: there are no targets to scale by; pass a published scale, e.g. "
                    f"task=Regression(scale=(mean, deviation))."
                )
            return self
        values = _table(raw, owner)
        found = self if self.outputs else replace(self, outputs=values.shape[1])
        if found.scale == "standard":
            found._check(values, owner)
            deviation = values.std(axis=0)
            scale = tuple(values.mean(axis=0).tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())
            found = replace(found, found=scale)
        return found

    def common(self, others: Iterable[Task]) -> Task:
        """The scale of all, where they have one; otherwise one that is yet to be found."""
        scales = {other.scale for other in others if isinstance(other, Regression)}
        return replace(self, scale=self.scale if scales <= {self.scale} else "standard", found=())

    def unlike(self, other: Task) -> str | None:
        """Scales that differ by a tenth or more."""
        if not isinstance(other, Regression):
            return None
        ours, theirs = (task._of_scale(torch.zeros(())) for task in (self, other))
        if ours is None or theirs is None:
            alike = ours is theirs
        else:
            apart = (ours[0] - theirs[0]).abs() / ours[1]
            alike = bool((apart < 0.1).all() and (theirs[1] / ours[1]).log().abs().max() < 0.1)
        if alike:
            return None
        return (
            "scale values by their own data, so that an averaged network means other values at each of them; give all "
            "of them one scale: Regression(scale=(mean, deviation))"
        )

    @property
    def encoded(self) -> Task:
        return replace(self, scale="none", found=(), metrics=())

    def shared_settings(self) -> dict[str, Any]:
        scale = self.scale if isinstance(self.scale, str) else [list(part) for part in self.scale]
        return {"outputs": self.outputs, "scale": scale}

    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        values = _table(raw, owner)
        self._check(values, owner)
        return self._scaled(torch.from_numpy(values))

    def _check(self, values: Array, owner: str) -> None:
        if values.shape[1] != self.outputs:
            raise DataError(f"{owner}: {values.shape[1]} targets for each sample; expected {self.outputs}.")
        if not np.isfinite(values).all():
            raise DataError(f"{owner}: targets hold NaN or infinity. Clean or drop those samples first.")

    def _of_scale(self, like: Tensor) -> tuple[Tensor, Tensor] | None:
        scale = self.found or self.scale
        if isinstance(scale, str):
            return None
        mean, deviation = (torch.tensor(part, dtype=like.dtype, device=like.device) for part in scale)
        return mean, deviation

    def _scaled(self, values: Tensor) -> Tensor:
        scale = self._of_scale(values)
        return values if scale is None else (values - scale[0]) / scale[1]

    def _in_units(self, y: Tensor) -> Tensor:
        scale = self._of_scale(y)
        return y if scale is None else y * scale[1] + scale[0]

    def unknown(self, rows: int) -> Tensor:
        return torch.full((rows, self.outputs), torch.nan, dtype=torch.float64)

    def known(self, y: Tensor) -> Tensor:
        return ~y.isnan().any(dim=1)

    def decode(self, y: Tensor) -> Array:
        if bool(y.isnan().any()):
            raise DataError("Some samples have no target; expected a value for each.")
        return self.said(self._in_units(y))

    def shapes(self, y: Tensor) -> tuple[Shape, ...]:
        """One output may come without an axis of its own."""
        shape = (len(y), self.outputs)
        return (shape, shape[:1]) if self.outputs == 1 else (shape,)

    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The squared error of the scaled targets, the mean over outputs."""
        losses = F.mse_loss(outputs.reshape(y.shape), y.to(outputs.dtype), reduction="none")
        return weighted_mean(losses.mean(dim=-1), weight)

    def answers(self, outputs: Tensor) -> Tensor:
        return self._in_units(outputs.reshape(outputs.shape[0], self.outputs))

    def soft(self, outputs: Tensor, temperature: float = 1.0) -> Tensor:
        """Values have no temperature."""
        return self.answers(outputs)

    def outputs_for(self, answers: Tensor) -> Tensor:
        return self._scaled(answers)

    def taught(self, soft: Tensor) -> Tensor:
        """Values, scaled as one's own targets are."""
        return self._scaled(soft)

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.distances(outputs, y)

    def distances(self, outputs: Tensor, soft: Tensor, temperature: float = 1.0) -> Tensor:
        """The squared error, the mean over outputs."""
        known, target = ~soft.isnan(), soft.nan_to_num().to(outputs.dtype)
        return (F.mse_loss(outputs.reshape(soft.shape), target, reduction="none") * known).mean(dim=-1)

    def of_estimator(self, model: Any, rows: Any, owner: str) -> Tensor:
        said = np.asarray(model.predict(rows), dtype=np.float64)
        return torch.from_numpy(said.reshape(len(said), self.outputs))

    def said(self, answers: Tensor) -> Array:
        """The values: one for each sample, or a row of several."""
        values = answers.detach().cpu().numpy()
        return values[:, 0] if self.outputs == 1 else values

    def tested(self, answers: Tensor, y: Tensor) -> Graded:
        return Graded(self._in_units(y).numpy(), answers.double().numpy())


def _table(raw: Array, owner: str) -> Array:
    """Targets as a table of numbers, a column for each output."""
    try:
        values = np.array(raw, dtype=np.float64)  # a copy: what a data frame lends cannot be written to
    except (TypeError, ValueError) as error:
        raise DataError(f"{owner}: targets of type {raw.dtype}; expected numbers to regress on: {error}.") from error
    if values.ndim not in (1, 2):
        raise DataError(f"{owner}: targets of shape {values.shape}; expected one value for each sample, or a row.")
    return values.reshape(len(values), -1)


def _published(scale: Any) -> tuple[list[float], list[float]]:
    """A mean and a deviation for each output."""
    try:
        mean, deviation = (np.atleast_1d(np.asarray(part, dtype=np.float64)).tolist() for part in scale)
    except (TypeError, ValueError):
        mean, deviation = [], []
    if not mean or not np.isfinite(mean).all() or not all(0 < value < np.inf for value in deviation):
        raise SettingsError(
            f"scale is {scale!r}; expected 'standard', 'none', or (mean, deviation) with deviations above 0."
        )
    return mean, deviation


def _for_each(values: list[float], outputs: int) -> tuple[float, ...]:
    """One number for all outputs, or one for each."""
    if len(values) not in (1, outputs):
        raise SettingsError(f"scale has {len(values)} numbers; expected one, or one for each of {outputs} outputs.")
    return tuple(values if len(values) == outputs else values * outputs)
