from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck import DataError, Samples
from potluck.core.classification import Classification
from potluck.core.inputs import InputKind
from potluck.core.labels import UNLABELLED
from potluck.core.samples import InputSource, SharedData
from tests.ingestion.datasets import shaken

X = torch.arange(6.0).reshape(3, 2)
Y = torch.tensor([0, 1, 0])


def test_columns_must_have_one_length():
    with pytest.raises(DataError, match=r"one length; got {'x': 3, 'y': 2}"):
        Samples({"x": X, "y": Y[:2]})


def test_samples_know_their_length_inputs_and_labels():
    samples = Samples({"x": X, "y": Y})
    assert len(samples) == 3
    assert samples.labelled
    assert samples.x is X
    assert samples.y is Y


def test_samples_may_have_no_inputs():
    samples = Samples({"row": Y})
    assert (len(samples), samples.kinds, samples.x, samples.read(Y, 0)) == (3, {}, {}, {})
    assert Samples.concat([samples, samples.take(torch.arange(1))]).columns["row"].tolist() == [0, 1, 0, 0]


def test_asking_for_labels_that_are_not_there_is_an_error():
    samples = Samples({"x": X})
    assert not samples.labelled
    with pytest.raises(DataError, match="carry no labels"):
        _ = samples.y


def test_rows_are_taken_in_the_order_given_from_every_column():
    taken = Samples({"x": X, "y": Y, "soft": X + 1}).take(torch.tensor([2, 1]))
    assert torch.equal(taken.x, X[[2, 1]])
    assert taken.y.tolist() == [0, 1]
    assert torch.equal(taken.columns["soft"], X[[2, 1]] + 1)


def test_targets_are_further_columns():
    soft, weight = torch.ones(3, 4), torch.tensor([1.0, 2.0, 3.0])
    samples = Samples({"x": X, "y": Y}).with_targets({"soft": soft}, weight=weight)
    assert set(samples.columns) == {"x", "y", "soft", "weight"}
    assert samples.columns["soft"] is soft
    assert samples.columns["weight"] is weight
    assert set(samples.inputs().columns) == {"x"}


def test_targets_replace_a_column_of_the_same_name_and_leave_the_original_alone():
    samples = Samples({"x": X, "y": Y})
    assert samples.with_targets(y=1 - Y).y.tolist() == [1, 0, 1]
    assert samples.y is Y


def test_targets_of_another_length_are_an_error():
    with pytest.raises(DataError, match="'soft': 2"):
        Samples({"x": X}).with_targets(soft=torch.ones(2))


def test_joining_sets_fills_what_one_of_them_lacks():
    labelled = Samples({"x": X, "y": Y})
    weighted = Samples({"x": X[:2], "weight": torch.tensor([0.5, 0.25])})
    softened = Samples({"x": X[:1], "y": Y[1:2], "soft": torch.ones(1, 4)})
    both = Samples.concat([labelled, weighted, softened])
    assert torch.equal(both.x, torch.cat([X, X[:2], X[:1]]))
    assert both.y.tolist() == [0, 1, 0, UNLABELLED, UNLABELLED, 1]
    assert both.columns["weight"].tolist() == [1, 1, 1, 0.5, 0.25, 1]
    assert both.columns["soft"].sum(dim=1).tolist() == [0, 0, 0, 0, 0, 4]
    assert both.y.dtype == torch.int64


ALL = torch.arange(3)


def whole_part(found):
    """Which row of X each random reading is of."""
    return [next(i for i, row in enumerate(X) if bool(((found_row - row).abs() < 1).all())) for found_row in found]


def test_parts_of_random_items_are_read_by_their_own_rows():
    some = shaken().take(torch.tensor([2, 0])).take(torch.tensor([1, 0, 1]))
    found = some.read(torch.tensor([0, 1, 2]), 5)
    assert whole_part(found) == [0, 2, 0]
    assert not torch.equal(found[0], found[2])
    assert shaken().with_targets(weight=torch.ones(3)).reader is not None
    assert not torch.equal(shaken().inputs().read(ALL, 1), shaken().x)


def test_random_items_joined_with_others_stay_random_and_the_others_do_not():
    both = Samples.concat([Samples({"x": X[:2]}), shaken(), Samples({"x": X[:1]})])
    found = both.read(torch.tensor([5, 0, 4, 1, 2]), 3)
    assert torch.equal(found[[0, 1, 3]], X[[0, 0, 1]])
    assert whole_part(found[[2, 4]]) == [2, 0]
    assert not torch.equal(found[2], both.x[4])
    assert Samples.concat([Samples({"x": X}), Samples({"x": X})]).reader is None


# Data that all may see


def test_each_label_space_sees_the_labels_it_knows():
    shared = SharedData(torch.arange(4.0).reshape(4, 1), np.array(["a", "b", "a", "c"]))
    assert shared.whole(Classification(("a", "b"))).y.tolist() == [0, 1, 0, -1]
    known = shared.known(Classification(("a", "b")))
    assert known is not None
    assert (known.x.flatten().tolist(), known.y.tolist()) == ([0.0, 1.0, 2.0], [0, 1, 0])
    assert shared.known(Classification(("d", "e"))) is None
    every = Classification(("a", "b", "c"))
    assert shared.known(every) is shared.whole(every), "one copy, where all are known"
    assert shared.known(Classification(("a", "b"))) is known, "and one for each label space"


def test_data_without_labels_are_shown_without():
    assert "y" not in SharedData(torch.zeros(2, 1)).whole(Classification(("a",))).columns


def test_a_source_of_inputs_counts_as_a_column():
    class Ten(InputSource):
        """Ten rows."""

        def __len__(self):
            return 10

        read = take = kinds = digest = then = None

    with pytest.raises(DataError, match=r"one length; got \{'y': 3, 'x': 10\}"):
        Samples({"y": torch.zeros(3)}, source=Ten())


class Words(InputSource):
    """What no network reads."""

    def __len__(self):
        return 2

    def read(self, rows):
        return ["a", "b"]

    def take(self, rows):
        return self

    def kinds(self):
        return {"x": InputKind((), "text")}

    def digest(self):
        return b""

    def then(self, other):
        return self

    def for_network(self, owner):
        raise DataError("words")


def test_the_server_sees_tensors_where_there_can_be_any():
    words = SharedData(Samples({}, source=Words()))
    assert words.for_server() is words
    with pytest.raises(DataError):
        words.read_by(network=True)
    tensors = SharedData(torch.zeros(2, 1))
    assert tensors.for_server() is tensors
    gaps = SharedData(torch.full((2, 1), torch.nan))
    assert gaps.for_server() is gaps


def test_only_inputs_take_the_precision_of_the_first_set():
    one = Samples({"x": torch.zeros(1, 2), "aim": torch.tensor([2])})
    other = Samples({"x": torch.ones(1, 2).double(), "aim": torch.tensor([0.5])})
    both = Samples.concat([one, other])
    assert both.x.dtype == torch.float32
    assert both.columns["aim"].tolist() == [2.0, 0.5], "a target is not cut to what the first one's are"
