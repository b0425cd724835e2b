"""Made data sets: of the size asked for, drawn from the seed, and worth learning from."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from potluck.core.errors import DataError
from potluck.data import Source, generated, generated_images


def linear_accuracy(source: Source) -> float:
    model = LogisticRegression(max_iter=1000).fit(source.x.reshape(len(source.x), -1), source.y)
    return float(model.score(source.x_test.reshape(len(source.x_test), -1), source.y_test))


def test_a_generated_table_has_all_that_partitions_need():
    made = generated(samples=400, features=7, classes=3, subclasses=4, groups=5, test_share=0.2)
    assert made.fine is not None
    assert made.fine_test is not None
    assert made.groups is not None
    assert made.x.shape == (320, 7)
    assert made.x_test.shape == (80, 7)
    assert made.x.dtype == np.float32
    assert made.labels == (0, 1, 2)
    assert set(made.fine) == set(range(12))
    assert (made.fine // 4 == made.y).all()
    assert (made.fine_test // 4 == made.y_test).all()
    assert set(made.groups) == set(range(5))


def test_generated_images_are_small_pictures():
    made = generated_images(samples=100, classes=3, size=5, channels=2)
    assert made.x.shape == (75, 2, 5, 5)
    assert made.x_test.shape == (25, 2, 5, 5)
    assert made.x.dtype == np.float32
    assert made.x.min() >= 0
    assert made.x.max() <= 1
    assert made.labels == (0, 1, 2)


@pytest.mark.parametrize("make", [generated, generated_images])
def test_classes_can_be_learnt_but_not_all_of_it(make):
    made = make(samples=1000, seed=3)
    assert 2 / len(made.labels) < linear_accuracy(made) < 1


@pytest.mark.parametrize("make", [generated, generated_images])
def test_the_seed_alone_decides(make):
    first, again, other = make(samples=60, seed=1), make(samples=60, seed=1), make(samples=60, seed=2)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.y_test, again.y_test)
    assert not np.array_equal(first.x, other.x)


def test_more_noise_is_harder():
    assert linear_accuracy(generated(noise=6.0)) < linear_accuracy(generated(noise=1.0)) - 0.1


def test_groups_lean_their_own_way():
    made = generated(samples=4000, classes=1, subclasses=1, groups=2, noise=0.5, features=10)
    assert made.groups is not None
    apart = made.x[made.groups == 0].mean(axis=0) - made.x[made.groups == 1].mean(axis=0)
    assert np.abs(apart).max() > 0.2


@pytest.mark.parametrize("setting", ["samples", "features", "classes", "subclasses", "groups"])
def test_nothing_can_be_generated_from_nothing(setting):
    with pytest.raises(DataError, match=f"{setting}=0"):
        generated(**{setting: 0})


def test_images_need_pixels():
    with pytest.raises(DataError, match="size=0"):
        generated_images(size=0)
