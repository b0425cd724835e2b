"""CIFAR's files are read in both versions, and a pickle runs nothing of what it names."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.ingestion.cifar import read_cifar_binary, read_cifar_pickle

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R"
    b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x05U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    b"K\x00tb\x89T\x00\x0c\x00\x00" + bytes(PIXELS[0]) + b"tbU\x06labelsq\x06]K\x07au."
)
"""A batch of one image, as Python 2 pickled the published files."""


def test_the_binary_version():
    rows = np.hstack([np.array([[1, 20], [3, 40], [5, 60], [7, 80]], np.uint8), PIXELS])
    images, labels = read_cifar_binary(rows.tobytes(), 2, "x")
    assert np.array_equal(images, PIXELS.reshape(4, 3, 32, 32))
    assert labels.tolist() == [[1, 20], [3, 40], [5, 60], [7, 80]]
    assert labels.dtype == np.int64


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3074)])
def test_a_binary_file_of_another_length_is_refused(content):
    with pytest.raises(DataError, match=r"x has [\d,]+ bytes; expected a multiple of 3073"):
        read_cifar_binary(content, 1, "x")


@pytest.mark.parametrize("protocol", [3, 4])
def test_the_python_version(protocol):
    found = read_cifar_pickle(pickle.dumps({b"data": PIXELS, b"labels": [3, 1, 2, 0]}, protocol), "x")
    assert np.array_equal(found["data"], PIXELS.reshape(4, 3, 32, 32))
    assert found["labels"] == [3, 1, 2, 0]


def test_the_python_version_as_it_is_published():
    found = read_cifar_pickle(PYTHON_2, "x")
    assert np.array_equal(found["data"], PIXELS[:1].reshape(1, 3, 32, 32))
    assert found["labels"] == [7]


class Evil:
    """Makes a file when it is unpickled in earnest."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_nothing_that_a_pickle_names_is_run(tmp_path):
    with pytest.raises(DataError, match=r"names (posix|nt)\.system, which no such file needs"):
        read_cifar_pickle(pickle.dumps({b"data": PIXELS, b"labels": Evil(tmp_path / "made")}, 3), "x")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "batch",
    [
        {b"labels": [1]},
        [1, 2],
        {b"data": PIXELS.astype(np.float32)},
        {b"data": np.asfortranarray(PIXELS[:, :2])},
        {b"data": PIXELS[:, :7]},
        {b"data": [1, 2, 3]},
    ],
)
def test_other_pickles_are_refused(batch):
    with pytest.raises(DataError, match="x cannot be read as a batch of CIFAR"):
        read_cifar_pickle(pickle.dumps(batch, 3), "x")


def test_a_damaged_pickle_is_refused():
    with pytest.raises(DataError, match="x cannot be read as a batch of CIFAR"):
        read_cifar_pickle(PYTHON_2[:-500], "x")
