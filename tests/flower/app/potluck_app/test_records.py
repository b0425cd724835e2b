"""A head and a body through Flower's records, and what is none."""

from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, RecordDict

from potluck.flower.app.potluck_app.records import from_records, to_records


@pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 50])
@pytest.mark.parametrize("head", ["{}", '{"name":"é"}'])
def test_what_goes_in_comes_out(head, body):
    assert from_records(to_records(head, body)) == (head, body)


def test_an_empty_body_takes_no_record():
    assert set(to_records("{}", b"")) == {"head"}


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({}, "it holds no head and body"),
        ({"head": ConfigRecord({"other": "{}"})}, "it holds no head and body"),
        ({"head": ConfigRecord({"json": "{}"}), "more": ConfigRecord()}, r"it holds \['head', 'more'\]; expected"),
        ({"head": ConfigRecord({"json": "{}"}), "body": ConfigRecord()}, "it holds no head and body"),
    ],
)
def test_anything_else_is_refused(records, why):
    with pytest.raises(ValueError, match=why):
        from_records(RecordDict(records))
