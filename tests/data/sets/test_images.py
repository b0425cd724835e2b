"""Sets of images come out of the files in which they were published, pixel by pixel."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import cifar10, cifar100, fashion_mnist, mnist, svhn
from tests.data.sets.published_files import (
    COLOUR,
    GREY,
    TEN,
    cifar10_binary,
    cifar10_pickles,
    cifar100_binary,
    cifar100_pickles,
    mnist_files,
    put,
    svhn_files,
    tarred,
)


@pytest.mark.parametrize(("load", "folder"), [(mnist, "MNIST/raw"), (fashion_mnist, "fashion-mnist")])
def test_mnist_and_fashion_mnist(sets, load, folder):
    put(sets / folder, mnist_files())
    found = load()
    assert np.array_equal(found.x, GREY[:20, None])
    assert np.array_equal(found.x_test, GREY[20:, None])
    assert found.y.tolist() == TEN[:20].tolist()
    assert found.y_test.tolist() == TEN[20:30].tolist()


@pytest.mark.parametrize(
    "files",
    [
        {f"cifar-10-batches-bin/{name}": content for name, content in cifar10_binary().items()},
        {f"cifar-10-batches-py/{name}": content for name, content in cifar10_pickles().items()},
        {"cifar10/cifar-10-binary.tar.gz": tarred(cifar10_binary(), "cifar-10-batches-bin")},
        {"cifar10/cifar-10-python.tar.gz": tarred(cifar10_pickles(), "cifar-10-batches-py")},
    ],
)
def test_cifar10_in_both_versions_and_their_archives(sets, files):
    put(sets, files)
    found = cifar10()
    assert np.array_equal(found.x, COLOUR[:50])
    assert np.array_equal(found.x_test, COLOUR[50:])
    assert found.y.tolist() == TEN[:50].tolist()
    assert found.fine is None


@pytest.mark.parametrize("files", [cifar100_binary(), cifar100_pickles()])
def test_cifar100_with_fine_labels_or_coarse_ones(sets, files):
    put(sets / "cifar100", files)
    assert cifar100().y.tolist() == TEN[:40].tolist()
    assert cifar100().fine is None
    coarse = cifar100(labels="coarse")
    assert coarse.y.tolist() == (TEN[:40] // 5).tolist()
    assert coarse.fine is not None
    assert coarse.fine.tolist() == TEN[:40].tolist()
    assert np.array_equal(coarse.x_test, COLOUR[40:])


def test_cifar100_from_arrays(sets):
    sets.mkdir()
    columns = {"x_train": COLOUR[:40], "x_test": COLOUR[40:], "y_train": TEN[:40], "y_test": TEN[40:60]}
    np.savez(sets / "cifar100.npz", **columns)
    assert len(cifar100().labels) == 10
    with pytest.raises(DataError, match="has no coarse labels; expected y_coarse_train"):
        cifar100(labels="coarse")
    np.savez(sets / "cifar100.npz", **columns, y_coarse_train=TEN[:40] // 5, y_coarse_test=TEN[40:60] // 5)
    assert cifar100().labels == tuple(range(10))
    assert cifar100(labels="coarse").labels == (0, 1)
    with pytest.raises(DataError, match="labels='finer'; expected 'fine' or 'coarse'"):
        cifar100(labels="finer")


def test_svhn_where_a_zero_is_a_ten(sets):
    put(sets / "SVHN", svhn_files())
    found = svhn()
    assert np.array_equal(found.x, COLOUR[:40])
    assert found.y.tolist() == TEN[:40].tolist()
    assert np.array_equal(found.x_test, COLOUR[40:])


def test_some_of_the_images(sets):
    put(sets / "svhn", svhn_files())
    assert np.bincount(svhn(train=20, test=10).y).tolist() == [2] * 10
    assert len(svhn(train=20, test=10).y_test) == 10


@pytest.mark.parametrize(
    ("load", "files", "wrong"),
    [
        (
            svhn,
            {"svhn/train_32x32.mat": b"MATLAB?", "svhn/test_32x32.mat": b""},
            "train_32x32.mat cannot be read as a f",
        ),
        (
            cifar10,
            {"cifar10/data_batch_1.bin": b"x"},
            r"cifar10: data_batch_2.bin, .* is missing beside data_batch_1.bin",
        ),
        (
            cifar100,
            {"cifar100/train.bin": bytes(7), "cifar100/test.bin": b""},
            "train.bin has 7 bytes; expected a multip",
        ),
        (
            cifar100,
            {f"cifar100/{name}": cifar10_pickles()["test_batch"] for name in ("train", "test")},
            "holds no coarse",
        ),
        (mnist, {f"mnist/{name}": b"?" for name in mnist_files()}, "cannot be read"),
    ],
)
def test_damaged_files_are_told(sets, load, files, wrong):
    put(sets, files)
    with pytest.raises(DataError, match=wrong):
        load()


def test_a_set_says_what_it_is_and_takes():
    assert inspect.getdoc(mnist) == "MNIST: handwritten digits, 60,000 and 10,000 images of 28×28, as bytes."
    assert list(inspect.signature(mnist).parameters) == ["train", "test", "seed", "data_dir", "download"]
