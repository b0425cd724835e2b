"""A server and a folder for data sets."""

from __future__ import annotations

import pytest

from tests.data.sets.server import serving


@pytest.fixture
def server(monkeypatch):
    """A server with a file; whoever waits for it again does not wait long."""
    monkeypatch.setattr("potluck.data.sets.download.PAUSE", 0.001)
    with serving({"words.txt": bytes(range(256)) * 2000}) as running:
        yield running


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """The folder where data sets are."""
    folder = tmp_path / "sets"
    monkeypatch.setenv("POTLUCK_DATA", str(folder))
    for name in ("POTLUCK_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return folder
