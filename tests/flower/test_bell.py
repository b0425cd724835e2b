"""A run hears which messages were answered, and nobody waits for one that does not listen."""

from __future__ import annotations

import threading
import time

import pytest

from potluck.flower.bell import Bell, ring


@pytest.fixture
def folder(tmp_path_factory):
    """One with a short path, as a socket needs."""
    return tmp_path_factory.mktemp("b")


def test_it_hears_what_was_rung_in_order(folder):
    bell = Bell(folder)
    for number in ("one", "two", "three"):
        ring(folder, number)
    assert bell.wait(5) == ["one", "two", "three"]
    assert bell.wait(0.01) == []
    bell.close()
    assert list(folder.iterdir()) == []


def test_it_wakes_at_once(folder):
    bell = Bell(folder)
    threading.Timer(0.2, ring, (folder, "one")).start()
    began = time.monotonic()
    assert bell.wait(30) == ["one"]
    assert time.monotonic() - began < 10
    bell.close()


def test_whoever_is_gone_is_forgotten_and_whoever_does_not_listen_is_not_waited_for(folder):
    bell = Bell(folder)
    bell._socket.close()  # as after kill -9
    ring(folder, "one")
    assert list(folder.iterdir()) == []
    deaf = Bell(folder)
    for number in range(10_000):
        ring(folder, str(number))
    heard = deaf.wait(1)
    assert heard[:2] == ["0", "1"]
    deaf.close()
