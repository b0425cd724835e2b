from __future__ import annotations

import json

import pytest
import torch

from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from tests.core.payloads import same, sample


def test_the_limits_unless_somebody_sets_others():
    """Two gigabytes, a hundred thousand tensors, sixteen million characters: what a stranger can have read at most."""
    assert Limits() == Limits(bytes=2_147_483_648, tensors=100_000, facts=16_777_216)


def test_as_many_bytes_as_allowed_and_not_one_more():
    Limits(bytes=10).check_size(10)
    with pytest.raises(PayloadError, match="the payload has 11 bytes; the limit is 10"):
        Limits(bytes=10).check_size(11)


def test_each_limit_holds_when_a_payload_is_read():
    payload = Payload({"a": torch.ones(2), "b": torch.ones(3)}, {"note": "x"})
    data, facts = payload.to_bytes(), len('{"note":"x"}')
    found = Limits(bytes=len(data), tensors=2, facts=facts).read(data)
    assert found.facts == {"note": "x"}
    assert found["b"].tolist() == [1.0, 1.0, 1.0]
    for limits, message in [
        (Limits(bytes=len(data) - 1), f"the payload has {len(data)} bytes; the limit is {len(data) - 1}"),
        (Limits(tensors=1), "has 2 tensors; the limit is 1"),
        (Limits(facts=facts - 1), f"facts have {facts} characters; the limit is {facts - 1}"),
    ]:
        with pytest.raises(PayloadError, match=message):
            limits.read(data)


def test_what_is_not_finite_is_refused_unless_a_schema_looks_later():
    data = Payload({"a": torch.tensor([1.0, float("nan")])}).to_bytes()
    with pytest.raises(PayloadError, match="tensor 'a' holds NaN or infinity"):
        Limits().read(data)
    assert Limits().read(data, finite=False)["a"].isnan().tolist() == [False, True]


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (Limits(bytes=100), r"has \d+ bytes; the limit is 100"),
        (Limits(tensors=2), "has 3 tensors; the limit is 2"),
        (Limits(facts=10), r"facts have \d+ characters; the limit is 10"),
    ],
)
def test_what_is_over_a_limit_is_refused(limits, complaint):
    with pytest.raises(PayloadError, match=complaint):
        limits.read(sample().to_bytes())


def test_what_is_just_at_the_limits_is_read():
    data = sample().to_bytes()
    text = json.dumps(dict(sample().facts), separators=(",", ":"))
    same(Limits(bytes=len(data), tensors=3, facts=len(text)).read(data), sample())
