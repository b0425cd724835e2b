"""Tasks with a label at each position: of tokens, pixels, or the next token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.classification import QUICK, LabelTask
from potluck.core.errors import DataError, SettingsError
from potluck.core.labels import UNLABELLED, Label, decode, encode, label_space, no_labels, plain_label, plain_labels
from potluck.core.metrics import OF_LABELS, Array, Graded, Metrics, quick
from potluck.core.tasks import Shape, Task


@dataclass(frozen=True)
class Positions(Task):
    """What tasks with a label at each position have in common.

    The loss and the metrics are over all positions that have a label. Answers have the probabilities last.
    """

    KNOWN = OF_LABELS

    def known(self, y: Tensor) -> Tensor:
        return (y != UNLABELLED).flatten(1).any(dim=1)

    def shapes(self, y: Tensor) -> tuple[Shape, ...]:
        rows, *positions = y.shape
        return ((rows, self.outputs, *positions),) if self.labels_first(y) else ((rows, *positions, self.outputs),)

    def labels_first(self, like: Tensor) -> bool:
        """Whether labels come before positions in a model's output, where targets have as many axes as these."""
        return False

    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Cross-entropy, the mean over positions with a label. There is a weight for each sample, or each position."""
        logits = outputs if self.labels_first(y) else outputs.movedim(-1, 1)
        losses = F.cross_entropy(logits, y.clamp(min=0), reduction="none")
        counts = (y != UNLABELLED).to(losses.dtype)
        if weight is not None:
            counts = counts * weight.to(losses.dtype).reshape(*weight.shape, *[1] * (y.ndim - weight.ndim))
        return (counts * losses).sum() / counts.sum().clamp(min=torch.finfo(losses.dtype).tiny)

    def answers(self, outputs: Tensor) -> Tensor:
        return (outputs.movedim(1, -1) if self.labels_first(outputs[..., 0]) else outputs).softmax(dim=-1)

    def tested(self, answers: Tensor, y: Tensor) -> Graded:
        there = y != UNLABELLED
        table = answers[there].double().numpy()
        return Graded(y[there].numpy(), table.argmax(axis=1), table)

    def _quick(self, tested: Graded) -> Metrics:
        return quick(tested) if any(metric in QUICK for metric in self.metrics) else {}


@dataclass(frozen=True)
class PerPosition(Positions, LabelTask):
    """Each position of a sample has a label: each token of a text, each pixel of a picture.

    Args:
        labels: as in ``LabelTask``.
        ignore: the label of positions that have none, as of padding; by default None, for no such label.
        axis: where a model's output has its numbers for each label: "last" (samples × positions × labels, as texts
            have it), "first" (samples × labels × rows × columns, as pictures have it), or "usual" (the default): last
            for positions in one axis, first for positions in several.
        metrics: as in ``Task``; by default those of ``Classification``.
    """

    KIND: ClassVar[str] = "per-position"
    USUAL: ClassVar[tuple[str, ...]] = QUICK

    ignore: Label | None = None
    axis: str = "usual"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axis not in ("usual", "first", "last"):
            raise SettingsError(f"axis is {self.axis!r}; expected 'usual', 'first' or 'last'.")
        if self.ignore is not None:
            object.__setattr__(self, "ignore", plain_label(self.ignore, type(self).__name__))
            object.__setattr__(self, "labels", tuple(label for label in self.labels if label != self.ignore))

    @property
    def encoded(self) -> Task:
        return _of_positions(type(self), self.outputs, self.axis)

    def shared_settings(self) -> dict[str, Any]:
        return {**super().shared_settings(), "ignore": self.ignore, "axis": self.axis}

    def fitted(self, raw: Array | None, owner: str) -> PerPosition:
        if self.labels:
            return self
        if raw is None:
            raise no_labels(owner)
        found = label_space(np.unique(plain_labels(raw.reshape(-1), owner)), owner)
        return replace(self, labels=tuple(label for label in found if label != self.ignore))

    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        if raw.ndim < 2:
            raise DataError(f"{owner}: labels of shape {raw.shape}; expected a label for each position of each sample.")
        flat = plain_labels(raw.reshape(-1), owner)
        codes = torch.full(flat.shape, UNLABELLED)
        there = np.ones(len(flat), dtype=bool) if self.ignore is None else flat != self.ignore
        codes[torch.from_numpy(there)] = encode(flat[there], self.labels, owner, strict=strict)
        return codes.reshape(raw.shape)

    def decode(self, y: Tensor) -> Array:
        """The labels; ``ignore`` where there is none."""
        found = decode(y.clamp(min=0).reshape(-1), self.labels).reshape(tuple(y.shape))
        return found if self.ignore is None else np.where((y == UNLABELLED).numpy(), self.ignore, found)

    def labels_first(self, like: Tensor) -> bool:
        return self.axis == "first" or (self.axis == "usual" and like.ndim > 2)

    def said(self, answers: Tensor) -> Array:
        codes = answers.argmax(dim=-1)
        return decode(codes.reshape(-1), self.labels).reshape(tuple(codes.shape))


@lru_cache(maxsize=1024)
def _of_positions(kind: type[PerPosition], outputs: int, axis: str) -> Task:
    return kind(tuple(range(outputs)), axis=axis)


@dataclass(frozen=True)
class NextToken(Positions):
    """Each token of a text foretells the next one: targets are the inputs, moved by one, and data are the inputs alone.

    Args:
        vocabulary: how many tokens there are.
        padding: the token that fills up short texts and is not to be foretold; by default None.
        name: of several inputs, the one that holds the tokens; by default "ids".
        metrics: as in ``Task``; by default the cross-entropy (``loss``) and the accuracy.
    """

    KIND: ClassVar[str] = "next-token"
    USUAL: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    vocabulary: int
    padding: int | None = None
    name: str = "ids"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.vocabulary, bool) or not isinstance(self.vocabulary, int) or self.vocabulary < 1:
            raise SettingsError(f"vocabulary is {self.vocabulary!r}; expected how many tokens there are.")

    @property
    def outputs(self) -> int:
        return self.vocabulary

    def shared_settings(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary, "padding": self.padding, "name": self.name}

    def targets_in(self, inputs: Any, owner: str) -> Array:
        """Each token's next one."""
        ids = inputs[self.name] if isinstance(inputs, Mapping) else inputs
        array = ids.numpy() if isinstance(ids, Tensor) else np.asarray(ids)
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise DataError(
                f"{owner}: tokens of shape {array.shape} and type {array.dtype}; expected texts × positions, in "
                f"integers."
            )
        array = array.astype(np.int64)
        return np.concatenate([array[:, 1:], np.full((len(array), 1), UNLABELLED)], axis=1)

    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        if raw.ndim != 2:
            raise DataError(
                f"{owner}: targets of shape {raw.shape} beside the tokens; expected the tokens alone, data=ids: the "
                f"next tokens are found in them."
            )
        codes = torch.from_numpy(np.asarray(raw, dtype=np.int64))
        if self.padding is not None:
            codes = codes.masked_fill(codes == self.padding, UNLABELLED)
        if len(codes) and int(codes.max()) >= self.vocabulary:
            raise DataError(
                f"{owner}: the data holds token {int(codes.max())}; expected tokens below {self.vocabulary}."
            )
        return codes

    def decode(self, y: Tensor) -> Array:
        """The tokens; -1 where there is none."""
        return y.numpy()

    def said(self, answers: Tensor) -> Array:
        return answers.argmax(dim=-1).numpy()
