"""What is fed with guidance: whole inputs are taken, damaged ones refused, and a breach is told."""

from __future__ import annotations

import pytest

from tools import fuzz, fuzz_guided


def test_whole_inputs_are_taken_and_damaged_ones_refused(tmp_path):
    for feed, whole in fuzz_guided.targets(tmp_path).values():
        feed(whole)
        feed(whole[:-3])
        feed(b"")


def test_what_breaks_its_schema_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "payload", lambda data: False)
    with pytest.raises(AssertionError, match="its schema does not allow"):
        fuzz_guided.targets(tmp_path)["payload"][0](b"")


def test_another_error_is_a_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "payload", lambda data: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        fuzz_guided.targets(tmp_path)["payload"][0](b"")
