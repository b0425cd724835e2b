"""Inputs that estimators read and networks cannot read as they are: data frames, sparse matrices, texts."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError
from potluck.core.inputs import NAME, InputKind, InputKinds
from potluck.core.samples import InputSource, Samples

FEW = 5
"""How many columns an error names."""


class WholeTable(InputSource):
    """Rows that are all in memory, in a form of their own.

    Args:
        rows: the rows.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def read(self, rows: Tensor) -> Any:
        return self.rows[rows.numpy()]

    def take(self, rows: Tensor) -> InputSource:
        return type(self)(self.read(rows))

    def then(self, other: Samples) -> InputSource:
        return type(self)(self.joined(other.x, what_of(other)))

    def kinds(self) -> InputKinds:
        return {NAME: self.kind()}

    @abstractmethod
    def kind(self) -> InputKind:
        """What one row looks like."""

    @abstractmethod
    def joined(self, others: Any, what: str) -> Any:
        """These rows and, after them, others, which an error calls ``what``."""


def what_of(samples: Samples) -> str:
    """What samples hold as inputs, for an error."""
    return "an array" if samples.source is None else type(samples.source).__name__


class DataFrameTable(WholeTable):
    """A pandas or polars DataFrame. Its columns keep their types: numbers, categories, text, dates, gaps."""

    def read(self, rows: Tensor) -> Any:
        return rows_of(self.rows, rows.numpy())

    def kind(self) -> InputKind:
        return InputKind((len(self.rows.columns),), "mixed columns" if self.odd_columns() else "floats")

    def joined(self, others: Any, what: str) -> Any:
        mine = self.rows
        if isinstance(others, Tensor) and others.ndim == 2 and others.shape[1] == len(mine.columns):
            others = type(mine)(dict(zip(mine.columns, others.numpy().T, strict=True)))
        if not is_frame(others) or list(others.columns) != list(mine.columns):
            raise DataError(
                f"Rows of a DataFrame with the columns {_some(mine.columns)} cannot be put together with {what}"
                + (f" with {_some(others.columns)}" if is_frame(others) else "")
                + "; expected a DataFrame with the same columns in the same order."
            )
        if _of_polars(mine):
            import polars as pl

            return pl.concat([mine, others.cast(dict(mine.schema))]) if len(mine) else others
        import pandas as pd

        return pd.concat(_with_all_categories(mine, others), ignore_index=True) if len(mine) else others

    def digest(self) -> bytes:
        found = hashlib.sha256()
        for name in self.rows.columns:
            column = self.rows[name]
            found.update(f"{name}\x1f{column.dtype}\x1f".encode())
            if getattr(column.dtype, "kind", "") in "biuf" and not _of_polars(self.rows):
                found.update(np.ascontiguousarray(column.to_numpy(dtype=column.dtype)).view(np.uint8).data)
            else:
                found.update("\x1f".join(map(repr, column.to_list())).encode())
        return found.digest()

    def odd_columns(self) -> dict[str, str]:
        """The columns that are no numbers, and what they are."""
        if _of_polars(self.rows):
            types = self.rows.schema.items()
            return {name: str(kind) for name, kind in types if not (kind.is_numeric() or str(kind) == "Boolean")}
        from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

        kinds = self.rows.dtypes.items()
        numbers = {name: is_numeric_dtype(kind) or is_bool_dtype(kind) for name, kind in kinds}
        return {
            str(name): str(kind)
            for name, kind in self.rows.dtypes.items()
            if not numbers[name] or is_complex_dtype(kind) or str(kind) == "category"
        }

    def for_network(self, owner: str) -> Samples:
        """The columns as floats."""
        if odd := self.odd_columns():
            names = [f"{name!r} ({kind})" for name, kind in odd.items()]
            raise DataError(
                f"{owner}: a torch module reads numbers, and these columns are none: {_listed(names)}. Have a "
                f"scikit-learn transformer make numbers of them, fitted on this participant's training rows: "
                f"Participant(preprocess=make_column_transformer((OneHotEncoder(handle_unknown='ignore'), "
                f"{list(odd)[:FEW]}), remainder=StandardScaler())); or leave them out."
            )
        numbers = self._floats()
        gaps = {str(name): int(count) for name, count in zip(self.rows.columns, _gaps(numbers), strict=True) if count}
        if gaps:
            names = [f"{name!r} ({count} of {len(self)})" for name, count in gaps.items()]
            raise DataError(
                f"{owner}: a torch module reads no gaps, and these columns hold NaN or infinity: {_listed(names)}. "
                f"Fill them, e.g. with Participant(preprocess=make_pipeline(SimpleImputer(), StandardScaler())), or "
                f"drop those rows."
            )
        return Samples({NAME: torch.from_numpy(numbers)})

    def _floats(self) -> np.ndarray[Any, Any]:
        single = all("32" in str(self.rows[name].dtype).lower() for name in self.rows.columns)
        kind = np.float32 if single else np.float64
        if _of_polars(self.rows):
            columns = [self.rows[name].cast(float).to_numpy() for name in self.rows.columns]
            return np.ascontiguousarray(np.stack(columns, axis=1).astype(kind))
        return np.array(self.rows.to_numpy(dtype=kind, na_value=np.nan), order="C")


class SparseTable(WholeTable):
    """A scipy sparse matrix."""

    def kind(self) -> InputKind:
        return InputKind(tuple(self.rows.shape[1:]))

    def joined(self, others: Any, what: str) -> Any:
        import scipy.sparse

        if isinstance(others, Tensor) and others.ndim == 2:
            others = scipy.sparse.csr_array(others.numpy())
        if not scipy.sparse.issparse(others) or others.shape[1] != self.rows.shape[1]:
            raise DataError(f"Rows of a sparse matrix with {self.rows.shape[1]} columns cannot be joined to {what}.")
        return scipy.sparse.vstack([self.rows, others], format="csr")

    def digest(self) -> bytes:
        rows = self.rows.copy()
        rows.sum_duplicates()
        found = hashlib.sha256(f"{rows.shape} {rows.dtype}".encode())
        for part in (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data):
            found.update(np.ascontiguousarray(part).view(np.uint8).data)
        return found.digest()

    def for_network(self, owner: str) -> Samples:
        """All columns, with their zeros."""
        return Samples({NAME: torch.from_numpy(self.rows.toarray())}).for_network(owner)


class TextTable(WholeTable):
    """Texts, one for each row."""

    def kind(self) -> InputKind:
        return InputKind((), "text")

    def joined(self, others: Any, what: str) -> Any:
        if not is_text(others):
            raise DataError(f"Texts cannot be put together with {what}; expected texts.")
        return np.concatenate([self.rows, np.asarray(others, dtype=object)])

    def digest(self) -> bytes:
        return hashlib.sha256("\x1f".join(map(repr, self.rows.tolist())).encode()).digest()

    def for_network(self, owner: str) -> Samples:
        raise DataError(
            f"{owner}: a torch module reads numbers, and the inputs are text. Give it the ids of tokens, as integers; "
            f"or have a scikit-learn transformer make numbers of them: Participant(preprocess=TfidfVectorizer())."
        )


def is_frame(x: Any) -> bool:
    """Whether something is a pandas or polars DataFrame."""
    return type(x).__name__ == "DataFrame" and hasattr(x, "columns") and type(x).__module__.split(".")[0] in _FRAMES


def rows_of(x: Any, rows: Any) -> Any:
    """Some rows of a DataFrame or an array, in the order given."""
    return x.iloc[rows] if is_frame(x) and not _of_polars(x) else x[rows]


def is_series(x: Any) -> bool:
    """Whether something is a column of pandas' or polars'."""
    return type(x).__name__ == "Series" and type(x).__module__.split(".")[0] in _FRAMES


def is_text(x: Any) -> bool:
    """Whether something is a list, a tuple or an array of texts."""
    if isinstance(x, np.ndarray):
        texts = x.dtype.kind == "U" or (x.dtype.kind == "O" and all(isinstance(text, str) for text in x.flat))
        return x.ndim == 1 and len(x) > 0 and texts
    return isinstance(x, list | tuple) and len(x) > 0 and all(isinstance(text, str) for text in x)


def as_table(x: Any, owner: str) -> InputSource | None:
    """A data frame, sparse matrix or list of texts as a source of inputs; None for anything else."""
    import scipy.sparse

    found: InputSource | None = None
    if is_frame(x):
        if not _of_polars(x) and not x.columns.is_unique:
            raise DataError(f"{owner}: some columns of the DataFrame have the same name; expected names that differ.")
        found = DataFrameTable(x)
    elif scipy.sparse.issparse(x):
        found = SparseTable(x.tocsr())
    elif is_text(x):
        found = TextTable(np.asarray(x, dtype=object))
    if found is not None and len(found) == 0:
        raise DataError(f"{owner}: no samples; expected at least one row of inputs.")
    return found


_FRAMES = ("pandas", "polars")


def _of_polars(frame: Any) -> bool:
    return type(frame).__module__.startswith("polars")


def _gaps(numbers: np.ndarray[Any, Any]) -> Any:
    return (~np.isfinite(numbers)).sum(axis=0)


def _with_all_categories(mine: Any, others: Any) -> list[Any]:
    """Two pandas frames whose columns of categories know each other's, so that they can be put together."""
    for name, kind in mine.dtypes.items():
        if str(kind) == "category" and others[name].dtype != kind:
            column = others[name].astype("category")
            both = kind.categories.union(column.cat.categories, sort=False)
            mine = mine.assign(**{name: mine[name].cat.set_categories(both)})
            others = others.assign(**{name: column.cat.set_categories(both)})
    return [mine, others]


def _some(names: Any) -> str:
    return _listed([repr(str(name)) for name in names])


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts[:FEW]) + (f" and {len(texts) - FEW} more" if len(texts) > FEW else "")
