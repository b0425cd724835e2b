"""MNIST, Fashion-MNIST, CIFAR-10, CIFAR-100 and SVHN, from the files in which they were published."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.sets.catalog import CIFAR10, CIFAR100, FASHION_MNIST, MNIST, SVHN, PublishedSet
from potluck.data.sets.published import Download, Files, need, open_set
from potluck.data.sets.subset import some_rows
from potluck.data.source import Source
from potluck.ingestion.cifar import read_cifar_binary, read_cifar_pickle
from potluck.ingestion.idx import read_idx

Array = NDArray[Any]


@dataclass(frozen=True)
class ImageSet:
    """A published set of images, which is called as a function.

    Args:
        published: which one.
        read: makes a source of its files.
    """

    published: PublishedSet
    read: Callable[[Files], Source]

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", f"{self.published.title}, as bytes.")

    def __call__(
        self,
        train: int | None = None,
        test: int | None = None,
        seed: int = 0,
        data_dir: str | Path | None = None,
        download: Download = False,
    ) -> Source:
        """The images.

        Args:
            train: how many for training, every class in proportion; by default all.
            test: how many for tests; by default all.
            seed: what the choice of images derives from; by default 0.
            data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
            download: whether they are downloaded if they are not there, or "hub" for the Hugging Face hub; by default
                False.
        """
        return some_rows(open_set(self.published, self.read, data_dir, download), train, test, seed)


def cifar100(
    labels: Literal["fine", "coarse"] = "fine",
    train: int | None = None,
    test: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: Download = False,
) -> Source:
    """CIFAR-100: photographs of a hundred kinds of things in 20 groups, 50,000 and 10,000 images of 3×32×32, as bytes.

    Args:
        labels: "fine" (by default), or "coarse" for the 20 groups; then the hundred are the subclasses.
        train: how many for training, every class in proportion; by default all.
        test: how many for tests; by default all.
        seed: what the choice of images derives from; by default 0.
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether they are downloaded if they are not there, or "hub" for the Hugging Face hub; by default
            False.
    """
    if labels not in ("fine", "coarse"):
        raise DataError(f"labels={labels!r}; expected 'fine' or 'coarse'.")
    source = open_set(CIFAR100, _cifar100, data_dir, download)
    if source.fine is None:
        if labels == "coarse":
            raise DataError(f"The file of {source.name} has no coarse labels; expected y_coarse_train, y_coarse_test.")
    elif labels == "fine":
        assert source.fine_test is not None, "subclasses are known of all rows, or of none"
        source = Source(source.name, source.x, source.fine, source.x_test, source.fine_test)
    return some_rows(source, train, test, seed)


def _idx(published: PublishedSet, files: Files) -> Source:
    contents = need(files, *published.patterns, owner=published)
    x, y, x_test, y_test = (read_idx(content, name) for content, name in zip(contents, published.patterns, strict=True))
    return Source(published.name, x[:, None], y, x_test[:, None], y_test)


def _cifar10(files: Files) -> Source:
    binary = any(path.endswith(".bin") for path in files)
    end = ".bin" if binary else ""
    names = [*(f"data_batch_{number}{end}" for number in range(1, 6)), f"test_batch{end}"]
    read = [_cifar_batch(content, name, binary, ["labels"]) for name, content in _named(files, names, CIFAR10)]
    x, y = (np.concatenate(parts) for parts in zip(*read[:-1], strict=True))
    x_test, y_test = read[-1]
    return Source("cifar10", x, y[:, 0], x_test, y_test[:, 0])


def _cifar100(files: Files) -> Source:
    binary = any(path.endswith(".bin") for path in files)
    names = ["train.bin", "test.bin"] if binary else ["train", "test"]
    kinds = ["coarse_labels", "fine_labels"]  # in the order of the binary files
    (x, y), (x_test, y_test) = (
        _cifar_batch(content, name, binary, kinds) for name, content in _named(files, names, CIFAR100)
    )
    return Source("cifar100", x, y[:, 0], x_test, y_test[:, 0], fine=y[:, 1], fine_test=y_test[:, 1])


def _named(files: Files, names: list[str], owner: PublishedSet) -> list[tuple[str, bytes]]:
    return list(zip(names, need(files, *names, owner=owner), strict=True))


def _cifar_batch(content: bytes, name: str, binary: bool, labels: list[str]) -> tuple[Array, Array]:
    """Images, and a column for each kind of label."""
    if binary:
        return read_cifar_binary(content, len(labels), name)
    entries = read_cifar_pickle(content, name)
    if missing := [kind for kind in labels if kind not in entries]:
        raise DataError(f"{name} holds no {', '.join(missing)}; it holds {', '.join(sorted(entries))}.")
    return entries["data"], np.array([entries[kind] for kind in labels], dtype=np.int64).T


def _svhn(files: Files) -> Source:
    from scipy.io import loadmat

    parts = []
    for name, content in _named(files, ["train_32x32.mat", "test_32x32.mat"], SVHN):
        try:
            found = loadmat(io.BytesIO(content), variable_names=["X", "y"])
            x, y = found["X"], found["y"][:, 0]
        except Exception as error:  # whatever scipy meets in a damaged file
            raise DataError(f"{name} cannot be read as a file of MATLAB's with X and y: {error}.") from error
        parts += [np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y % 10]  # there a zero has the label 10
    return Source("svhn", *parts)


mnist = ImageSet(MNIST, partial(_idx, MNIST))
fashion_mnist = ImageSet(FASHION_MNIST, partial(_idx, FASHION_MNIST))
cifar10 = ImageSet(CIFAR10, _cifar10)
svhn = ImageSet(SVHN, _svhn)
