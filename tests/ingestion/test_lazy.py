from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck import DataError, Samples
from potluck.ingestion import lazy
from potluck.ingestion.lazy import LazyRows, Store, chunks, preloads

X = torch.arange(20.0).reshape(10, 2)
ROWS = torch.tensor([7, 0, 7])


class Counted:
    """Rows that are counted when they are read."""

    def __init__(self, x=X):
        self.x, self.read = x, 0

    def __call__(self, rows):
        self.read += len(rows)
        return {name: part[rows] for name, part in self.x.items()} if isinstance(self.x, dict) else self.x[rows]


def lazy_rows(x=X, **settings):
    counted = Counted(x)
    rows = len(x) if not isinstance(x, dict) else len(next(iter(x.values())))
    return Samples({}, source=LazyRows(Store(counted, rows, counted([0]), **settings))), counted


def test_only_the_rows_that_are_asked_for_are_read():
    samples, counted = lazy_rows()
    counted.read = 0
    some = samples.take(torch.arange(4, 10))
    assert (len(some), counted.read) == (6, 0)
    assert torch.equal(some.at(torch.tensor([3, 0])), X[[7, 4]])
    assert counted.read == 2
    assert torch.equal(samples.read(ROWS, 1), X[ROWS])
    assert torch.equal(samples.at(slice(8, 12)), X[8:])
    assert samples.at(slice(20, 30)).shape == (0, 2)


def test_they_look_like_the_first():
    both = {"ids": torch.zeros(3, 4, dtype=torch.int64), "mask": torch.ones(3, 4, dtype=torch.bool)}
    samples, _ = lazy_rows(both)
    assert {name: str(kind) for name, kind in samples.kinds.items()} == {"x.ids": "shape (4,)", "x.mask": "shape (4,)"}
    assert set(samples.at(slice(2))) == {"ids", "mask"}
    assert samples.source.types() != lazy_rows({**both, "ids": both["ids"].int()})[0].source.types()


def test_sets_are_put_together_without_reading_them():
    samples, counted = lazy_rows()
    counted.read = 0
    both = Samples.concat([samples.with_targets(y=torch.zeros(10)), Samples({"x": X[:2].double()}), samples])
    assert (len(both), counted.read) == (22, 0)
    assert torch.equal(both.at(torch.tensor([21, 10, 0, 11])), torch.stack([X[9], X[0], X[0], X[1]]))
    assert both.at(slice(9, 13)).dtype == X.dtype
    first = Samples.concat([Samples({"x": X[:2]}), samples])
    assert torch.equal(first.at(torch.tensor([2, 1])), X[[0, 1]])


def test_a_network_reads_them_as_they_are_unless_they_hold_gaps():
    samples, counted = lazy_rows()
    assert samples.for_network("clinic").source is samples.source
    counted.read = 0
    samples.take(ROWS).for_network("clinic")
    assert counted.read == 0, "it is known by now"
    gaps = X.clone()
    gaps[3] = torch.nan
    with pytest.raises(DataError, match="clinic, rows 0 to 9: 1 of 10 samples hold NaN"):
        lazy_rows(gaps)[0].for_network("clinic")
    known, counted = lazy_rows(finite=True)
    counted.read = 0
    known.for_network("clinic")
    assert counted.read == 0


def test_the_checksum_is_that_of_the_rows_in_their_order():
    digests = {lazy_rows(x)[0].source.digest() for x in (X, X.clone(), X.flip(0), X.double())}
    assert len(digests) == 3
    samples, _ = lazy_rows()
    assert samples.take(ROWS).source.digest() != samples.source.digest()


def test_what_is_read_at_the_start(monkeypatch):
    monkeypatch.setattr(lazy, "PRELOAD_BYTES", 100)
    assert [preloads("auto", size, "p") for size in (100, 101)] == [True, False]
    assert preloads(True, 101, "p")
    assert not preloads(False, 1, "p")
    with pytest.raises(DataError, match=r"p: preload is 'lazy'; expected True, False or \"auto\""):
        preloads("lazy", 1, "p")


def test_all_rows_are_in_a_chunk():
    assert [row for rows in chunks(np.arange(150)) for row in rows] == list(range(150))
    assert max(len(rows) for rows in chunks(range(150))) == 64
