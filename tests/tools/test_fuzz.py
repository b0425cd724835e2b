"""Damaged bytes are refused or lawful, and the same ones come with the same seed."""

from __future__ import annotations

import random

from tools import fuzz


def test_nothing_damaged_crashes_or_breaks_its_schema():
    found = fuzz.fuzz(2_000, 20.0, seed=1)
    assert found.crashes == {}
    assert found.breaches == []
    assert sum(found.outcomes.values()) > 500
    assert set(found.outcomes) == {"accepted", "refused"}
    assert found.peak < 2**28


def test_damage_is_drawn_from_the_seed():
    assert fuzz.damaged(b"x" * 100, random.Random(3)) == fuzz.damaged(b"x" * 100, random.Random(3))


def test_it_has_an_end():
    assert sum(fuzz.fuzz(10**9, 0.2).outcomes.values()) < 10**6


def test_a_crash_is_kept_with_what_caused_it(monkeypatch):
    monkeypatch.setattr(fuzz, "payload", lambda data: 1 // 0)
    assert list(fuzz.fuzz(50, 5.0).crashes) == ["ZeroDivisionError: integer division or modulo by zero"]
