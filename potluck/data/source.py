"""A data source: training rows, test rows, and what else is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.core.labels import LabelSpace, label_space
from potluck.data.sampling import as_labels, as_values, draws, same_length, set_aside
from potluck.ingestion.arrays import as_inputs
from potluck.ingestion.tables import is_frame, rows_of


@dataclass(frozen=True, eq=False)
class Source:
    """Training and test rows with their targets, checked when made.

    Args:
        name: what errors call it.
        x: the training inputs: rows × shape of one input, or a DataFrame.
        y: their labels, whole numbers or text; or values.
        x_test: the test inputs.
        y_test: their labels, all of which occur in ``y``; or values.
        fine: the subclass of each training row, where ``y`` are superclasses; by default None.
        fine_test: the subclass of each test row; by default None.
        groups: the group of each training row, such as its writer or hospital; by default None.
        groups_test: the group of each test row; by default None.
        values: whether the targets are values, as regression has them, and no labels; by default False.
    """

    name: str
    x: Any
    y: NDArray[Any]
    x_test: Any
    y_test: NDArray[Any]
    fine: NDArray[Any] | None = None
    fine_test: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    groups_test: NDArray[Any] | None = None
    values: bool = False

    def __post_init__(self) -> None:
        for field in ("x", "x_test"):
            given = getattr(self, field)
            if not is_frame(given):
                object.__setattr__(self, field, as_inputs(given, f"{self.name}: {field}").numpy())
        for field in ("y", "y_test", "fine", "fine_test", "groups", "groups_test"):
            if getattr(self, field) is not None:
                read = as_values if self.values and field in ("y", "y_test") else as_labels
                object.__setattr__(self, field, read(getattr(self, field), f"{self.name}: {field}"))
        self._check_rows()
        self._check_test()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        shape: tuple[int, ...] = self.x.shape[1:]
        return shape

    @property
    def labels(self) -> LabelSpace:
        """The whole label space: what occurs in the training rows; none where the targets are values."""
        return () if self.values else label_space(np.unique(self.y), self.name)

    def _check_rows(self) -> None:
        if not self.shape:
            raise DataError(f"{self.name}: x has shape {self.x.shape}; expected (rows, features) or more axes.")
        training = {"x": self.x, "y": self.y, "fine": self.fine, "groups": self.groups}
        test = {
            "x_test": self.x_test,
            "y_test": self.y_test,
            "fine_test": self.fine_test,
            "groups_test": self.groups_test,
        }
        for columns in (training, test):
            same_length(**{name: column for name, column in columns.items() if column is not None})

    def _check_test(self) -> None:
        if self.x_test.shape[1:] != self.shape:
            raise DataError(f"{self.name}: x_test has inputs of shape {self.x_test.shape[1:]}; x has {self.shape}.")
        if is_frame(self.x) != is_frame(self.x_test) or (is_frame(self.x) and [*self.x] != [*self.x_test]):
            raise DataError(f"{self.name}: x and x_test have other columns; expected the same in the same order.")
        if not is_frame(self.x) and (self.x.dtype == np.uint8) != (self.x_test.dtype == np.uint8):
            raise DataError(
                f"{self.name}: x is {self.x.dtype} and x_test {self.x_test.dtype}; expected one scale for both."
            )
        strange = np.setdiff1d(self.y_test, self.y) if not self.values else np.empty(0)
        if len(strange):
            raise DataError(
                f"{self.name}: y_test has labels that no training row has: {strange.tolist()[:10]}. "
                f"Nobody can learn them; drop those rows."
            )


def held_out(
    name: str,
    x: Any,
    y: NDArray[Any],
    test_share: float,
    seed: int,
    fine: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
    values: bool = False,
) -> Source:
    """A source whose test rows are a share of these rows, every class in proportion, or at random of rows with values.

    Args:
        name: what errors call it.
        x: the inputs.
        y: their targets.
        test_share: the share of test rows.
        seed: what the draws derive from.
        fine: the subclass of each row; by default None.
        groups: the group of each row; by default None.
        values: whether the targets are values; by default False.
    """
    same_length(x=x, y=y)
    if not 0 < test_share < 1:
        raise DataError(f"{name}: test_share={test_share!r}; expected a share between 0 and 1.")
    count = max(1, round(test_share * len(y)))
    classes = np.zeros(len(y), dtype=np.int64) if values else y
    test, training = set_aside(classes, count, draws(seed, "test rows"), f"{name}: the test set")
    return Source(
        name,
        rows_of(x, training),
        y[training],
        rows_of(x, test),
        y[test],
        fine=None if fine is None else fine[training],
        fine_test=None if fine is None else fine[test],
        groups=None if groups is None else groups[training],
        groups_test=None if groups is None else groups[test],
        values=values,
    )
