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


class HuggingFace:
    """What is read of a Hugging Face dataset."""

    def __init__(self, columns, form=None, features=None):
        self.columns, self.form, self.features = columns, form, features
        self.format = {"type": form, "columns": list(columns)}
        self.column_names, self.num_rows = list(columns), len(next(iter(columns.values())))

    def with_format(self, form, columns):
        return HuggingFace({name: self.columns[name] for name in columns}, form, self.features)

    def __len__(self):
        return self.num_rows

    def __getitem__(self, index):
        row = {name: column[index] for name, column in self.columns.items()}
        return {name: np.asarray(part) for name, part in row.items()} if self.form == "numpy" else row


TOKENS: dict[str, list[Any]] = {"ids": [[1, 2, 3], [4, 5, 6]], "mask": [[1, 1, 0], [1, 1, 1]], "label": [1, 0]}
DICTS = Named([{name: column[row] for name, column in TOKENS.items()} for row in range(2)])


@pytest.mark.parametrize("dataset", [DICTS, HuggingFace(TOKENS)], ids=["torch", "hugging face"])
@pytest.mark.parametrize("preload", [True, False])
def test_of_a_dataset_of_dicts_the_target_is_named(dataset, preload):
    given = read_labelled((dataset, "label"), "clinic", preload)
    assert [int(y) for y in given.y] == [1, 0]
    found = given.inputs.at(torch.tensor([1, 0]))
    assert found["ids"].tolist() == [[4, 5, 6], [1, 2, 3]]
    assert set(found) == {"ids", "mask"}
    assert (given.inputs.source is None) == preload


class Torch(HuggingFace):
    """Its owner has chosen tensors."""

    def __getitem__(self, index):
        return {name: torch.tensor(column[index]) + 1 for name, column in self.columns.items()}


def test_a_format_that_its_owner_chose_stays():
    given = read_labelled((Torch({"x": [[1.0], [2.0]], "label": [0, 1]}, "torch"), "label"), "p")
    assert given.inputs.x.tolist() == [[2.0], [3.0]]


Pictures = type("Image", (), {})
"""How a Hugging Face dataset says that a column holds pictures."""


def test_pictures_have_their_channels_first():
    columns = {"image": np.zeros((2, 5, 4, 3), dtype=np.uint8), "table": np.zeros((2, 5, 4, 3)), "label": [0, 1]}
    found = read_labelled((HuggingFace(columns, features={"image": Pictures(), "label": None}), "label"), "p").inputs.x
    assert {name: tuple(part.shape) for name, part in found.items()} == {"image": (2, 3, 5, 4), "table": (2, 5, 4, 3)}


def test_a_dict_with_one_input_is_that_input():
    given = read_labelled((HuggingFace({"image": np.zeros((2, 3, 3)), "y": ["a", "b"], "w": [1, 2]}), "y", "w"), "p")
    assert given.inputs.x.shape == (2, 3, 3)
    assert given.y.tolist() == ["a", "b"]
    assert given.inputs.columns["weight"].tolist() == [1.0, 2.0]


def test_an_item_may_hold_several_inputs_and_a_weight():
    rows = [((X[row], Y[row]), int(Y[row]), 0.5) for row in range(3)]
    given = read_labelled(Named(rows), "p")
    assert [part.tolist() for part in given.inputs.x] == [X.tolist(), Y.tolist()]
    assert given.inputs.columns["weight"].tolist() == [0.5] * 3


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
        (HuggingFace(TOKENS), r"items of HuggingFace are dicts .* data=\(dataset, 'label'\)"),
        ((Rows(X, Y), "label"), "'label' names a target, but items of Rows are a tuple of 2"),
        (Named([X[0], X[1]]), r"items of Named are a Tensor; expected \(input, target\), or a dict"),
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


def test_several_datasets_in_one_are_told():
    class Splits(dict):
        column_names, num_rows, with_format = (), (), None

    with pytest.raises(DataError, match="data holds several datasets: train, test; expected one of them"):
        read_labelled((Splits(train=1, test=2), "label"), "clinic")


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
