"""What a line says of how it was made is what the run says of itself."""

from __future__ import annotations

import torch

import potluck
from potluck.federation.fingerprint import fingerprint, settings_as_run
from potluck.methods import CoFED
from potluck.reproduction.circumstances import load, made_with
from tests.tables import made_data, mlp, participants


def told(**changes):
    federation = potluck.Federation(participants([mlp(0), mlp(1)]), CoFED(), public=made_data(7, 9)[0], device="cpu")
    return made_with(settings_as_run(federation) | changes, fingerprint(federation))


def test_of_a_federation():
    found = told()
    assert found["device"] == "cpu"
    assert found["versions"]["torch"] == torch.__version__
    assert all(len(found["data"][name]) == 64 for name in ("participants' data", "test data", "public data"))
    assert found["data"]["samples"] == [24, 31]
    assert found["data"]["public samples"] == 7


def test_the_commit_and_whether_the_source_was_changed():
    assert (told(commit="abc+")["commit"], told(commit="abc+")["dirty"]) == ("abc", True)
    assert (told(commit="abc")["commit"], told(commit="abc")["dirty"]) == ("abc", False)
    assert (told(commit=None)["commit"], told(commit=None)["dirty"]) == (None, None)


def test_the_machine_is_as_busy_as_the_system_says():
    assert load() is None or load() >= 0
