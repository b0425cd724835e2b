from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from potluck import DataError
from potluck.ingestion.user_data import read_inputs, read_labelled
from tests.ingestion.datasets import ByItself, Rows, Shaken, X, Y, shaken

ALL = torch.arange(3)


def test_a_dataset_of_random_items_can_be_read_anew():
    samples = shaken()
    assert torch.equal(samples.x, shaken().x), "the first reading has a seed, too"
    assert torch.equal(samples.read(ALL, 1), samples.read(ALL, 1))
    for other in (samples.x, samples.read(ALL, 2)):
        assert not torch.equal(samples.read(ALL, 1), other)
    assert (samples.read(ALL, 1) - X).abs().max() < 1
    assert samples.read(ALL, 1).dtype == samples.x.dtype


@pytest.mark.parametrize("data", [TensorDataset(X, Y), Rows(X, Y), (X, Y)])
def test_what_is_the_same_each_time_is_read_once(data):
    inputs = read_labelled(data, "p").inputs
    assert inputs.reader is None
    assert torch.equal(inputs.read(torch.tensor([2, 0]), 1), X[[2, 0]])


def test_a_dataset_that_no_seed_decides_is_refused():
    with pytest.raises(DataError, match=r"clinic: reading item 0 of the ByItself twice .* torch\.rand"):
        read_labelled(ByItself(X, Y), "clinic")


def test_reading_a_dataset_leaves_the_global_generators_alone():
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    shaken().read(ALL, 1)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states[1:]


class Named(Dataset[Any]):
    """A torch Dataset of dicts."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


TOKENS: dict[str, list[Any]] = {"ids": [[1, 2, 3], [4, 5, 6]], "mask": [[1, 1, 0], [1, 1, 1]], "label": [1, 0]}
DICTS = Named([{name: column[row] for name, column in TOKENS.items()} for row in range(2)])


@pytest.mark.parametrize("preload", [True, False])
def test_of_a_dataset_of_dicts_the_target_is_named(preload):
    given = read_labelled((DICTS, "label"), "clinic", preload)
    assert [int(y) for y in given.y] == [1, 0]
    found = given.inputs.at(torch.tensor([1, 0]))
    assert found["ids"].tolist() == [[4, 5, 6], [1, 2, 3]]
    assert set(found) == {"ids", "mask"}
    assert (given.inputs.source is None) == preload


def test_a_dict_with_one_input_is_that_input():
    rows = Named([{"image": np.zeros((3, 3)), "y": y, "w": w} for y, w in (("a", 1), ("b", 2))])
    given = read_labelled((rows, "y", "w"), "p")
    assert given.inputs.x.shape == (2, 3, 3)
    assert given.y.tolist() == ["a", "b"]
    assert given.inputs.columns["weight"].tolist() == [1.0, 2.0]


def test_an_item_may_hold_several_inputs_and_a_weight():
    rows = [((X[row], Y[row]), int(Y[row]), 0.5) for row in range(3)]
    given = read_labelled(Named(rows), "p")
    assert [part.tolist() for part in given.inputs.x] == [X.tolist(), Y.tolist()]
    assert given.inputs.columns["weight"].tolist() == [0.5] * 3


@pytest.mark.parametrize("rows", [list(X), [(one,) for one in X], [one.numpy() for one in X]])
@pytest.mark.parametrize("preload", [True, False])
def test_items_may_be_inputs_alone(rows, preload):
    for data in (Named(rows), (Named(rows), None)):
        given = read_labelled(data, "p", preload)
        assert given.y is None
        assert torch.equal(given.inputs.at(torch.arange(len(X))), X)
    assert torch.equal(read_inputs(Named([{"only": one} for one in X]), "p").x, X)


def test_targets_may_stand_beside_a_dataset_of_inputs():
    given = read_labelled((Named(list(X)), ["a", "b", "a"]), "p")
    assert torch.equal(given.inputs.x, X)
    assert given.y.tolist() == ["a", "b", "a"]


class Stream(IterableDataset[Any]):
    def __iter__(self):
        return iter([(X[0], 0)])


class Endless(Dataset[Any]):
    def __getitem__(self, index):
        return X[0], 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DICTS, r"dicts of ids, mask, label, and nothing says which .* data=\(dataset, 'label'\)"),
        ((DICTS, "lable"), r"items of Named hold no 'lable'\. Did you mean 'label'"),
        ((Rows(X, Y), "label"), "'label' names a target, but items of Rows are a tuple of 2"),
        (Named(["a", "b"]), r"items of Named are a str; expected \(input, target\), or a dict"),
        (Stream(), "Stream can only be read from its beginning to its end; expected a map-style Dataset"),
        (DataLoader(Rows(X, Y)), r"data is a DataLoader; expected its Dataset"),
        (Endless(), "Endless has no length"),
        (Rows(["a", "b"], [0, 1]), "an item of the Dataset holds a str; expected numbers"),
        (Rows([X[0], X[0][:1]], [0, 1]), "items of the Dataset differ in shape"),
        (Named([({"a": X[0]}, 0), ({"b": X[0]}, 0)]), "items of the Dataset differ in shape"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_way_out(data, message):
    with pytest.raises(DataError, match=f"clinic: .*{message}"):
        read_labelled(data, "clinic")


@pytest.mark.parametrize("data", [Rows(X, Y), Shaken(X, Y)])
def test_what_is_read_when_it_is_needed_is_the_same(data):
    early, late = (read_labelled(data, "p", preload).inputs for preload in (True, False))
    assert early.source is None
    assert late.source is not None
    order = torch.tensor([2, 0, 1, 2])
    assert torch.equal(early.at(order), late.at(order))
    assert torch.equal(early.read(order, 5), late.read(order, 5))
    assert torch.equal(late.take(order).at(slice(2)), late.at(order[:2]))


@pytest.mark.parametrize("cut", [slice(None), slice(1, None)])
def test_a_memory_map_is_read_row_by_row(tmp_path, cut):
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")[cut]
    lazy = read_inputs(x, "p", preload=False)
    assert lazy.columns == {}
    assert lazy.at(torch.tensor([3, 0])).tolist() == [x[3].tolist(), x[0].tolist()]
    assert torch.equal(read_inputs(x, "p").x, torch.from_numpy(np.array(x)))


def test_pictures_of_pillow_have_their_channels_first():
    pictures = [Image.fromarray(np.zeros((2, 5, 3), dtype=np.uint8))] * 2
    assert read_labelled(Rows(pictures, [0, 1]), "p").inputs.x.shape == (2, 3, 2, 5)
