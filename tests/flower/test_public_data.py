"""Public data as they travel: the same or refused, rows in order."""

from __future__ import annotations

import hashlib

import pandas as pd
import pytest
import torch

from potluck.core.classification import MultiLabel
from potluck.core.errors import DataError, PayloadError, PotluckError
from potluck.core.payload import Payload
from potluck.flower.protocol import PublicDataInfo
from potluck.flower.public_data import PublicDataStore, checksum, from_payload, to_payload
from tests.flower.fakes import PUBLIC, shared


def info(payload):
    return PublicDataInfo(source="made", sha256=checksum(payload), labelled=True, count=len(payload["x"]))


@pytest.mark.parametrize("public", [PUBLIC, PUBLIC[0], (PUBLIC[0], [f"kind {label}" for label in PUBLIC[1]])])
def test_inputs_and_labels_come_back_as_they_were(public):
    sent = shared(public)
    found = from_payload(Payload.from_bytes(to_payload(sent).to_bytes()))
    assert torch.equal(found.x, sent.x)
    assert found.x.dtype == sent.x.dtype
    assert (found.y is None) == (sent.y is None)
    assert sent.y is None or found.y.tolist() == sent.y.tolist()


def test_the_columns_of_labels_keep_their_names():
    labels = pd.DataFrame({"old": [0, 1], "calm": [1, 1]})
    sent = shared((torch.ones(2, 3), labels))
    found = from_payload(Payload.from_bytes(to_payload(sent).to_bytes()))
    assert found.columns == ("old", "calm")
    for public in (sent, found):
        assert public.whole(MultiLabel(("calm", "old"))).y.tolist() == [[1, 0], [1, 1]]


def test_the_checksum_is_of_the_bytes_and_sees_the_order_of_the_rows():
    payload = to_payload(shared(PUBLIC))
    assert checksum(payload) == hashlib.sha256(payload.to_bytes()).hexdigest()
    assert checksum(to_payload(shared((PUBLIC[0][::-1].copy(), PUBLIC[1][::-1].copy())))) != checksum(payload)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (Payload(), "expected public data; got"),
        (Payload({"x": torch.ones(2), "z": torch.ones(2)}), r"expected public data; got \['x', 'z'\]"),
        (Payload({"x": torch.ones(2)}, {"labels": []}), r"expected public data; got \['x'\] and \['labels'\]"),
        (Payload({"x": torch.ones(2)}, {"y": [1]}), "2 public inputs but 1 labels"),
        (Payload({"x": torch.ones(1)}, {"y": [[1]], "columns": [[1]]}), "neither text nor integers"),
    ],
)
def test_what_is_no_public_data_is_refused(payload, why):
    with pytest.raises(PayloadError, match=why):
        from_payload(payload)


def test_what_came_once_is_there_until_it_is_damaged(tmp_path):
    payload = to_payload(shared(PUBLIC))
    store = PublicDataStore(tmp_path, None)
    assert store.find(info(payload), 0) is None
    assert torch.equal(store.keep(info(payload), payload.to_bytes()).x, payload["x"])
    assert torch.equal(PublicDataStore(tmp_path, None).find(info(payload), 0).x, payload["x"])
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    assert store.find(info(payload), 0) is None


def test_what_was_not_announced_is_not_kept(tmp_path):
    payload, other = to_payload(shared(PUBLIC)), to_payload(shared((PUBLIC[0] + 1, PUBLIC[1])))
    for announced in (None, info(payload)):
        with pytest.raises(PayloadError, match="not those that were announced"):
            PublicDataStore(tmp_path, None).keep(announced, other.to_bytes())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("odd", [{"count": 3}, {"labelled": False}])
def test_public_data_are_as_many_as_the_owner_agreed_to(odd, tmp_path):
    payload = to_payload(shared(PUBLIC))
    with pytest.raises(PayloadError, match="the public data that came are 30 samples with labels, not those"):
        PublicDataStore(tmp_path, None).keep(info(payload).model_copy(update=odd), payload.to_bytes())
    assert list(tmp_path.iterdir()) == []


def test_an_owners_copy_is_loaded_with_the_seed_and_compared(tmp_path):
    seeds, payload = [], to_payload(shared(PUBLIC))
    store = PublicDataStore(tmp_path, lambda seed: (seeds.append(seed), shared(PUBLIC))[1])
    assert torch.equal(store.find(info(payload), 5).x, payload["x"])
    assert seeds == [5]
    other = to_payload(shared((PUBLIC[0] + 1, PUBLIC[1])))
    with pytest.raises(PotluckError, match="are not the server's made"):
        store.find(info(other), 5)


def test_a_table_of_numbers_travels_as_numbers_and_another_one_not():
    numbers = pd.DataFrame({"age": [1.0, 2.0], "bmi": [3.0, 4.0]})
    found = from_payload(to_payload(shared(numbers)))
    assert found.x.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    with pytest.raises(DataError, match=r"public data, which travel as tensors: .*'town'"):
        to_payload(shared(numbers.assign(town=["a", "b"])))
