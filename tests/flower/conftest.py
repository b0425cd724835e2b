"""What all tests of real federations have in common."""

from __future__ import annotations

import pytest

from potluck.flower import gateway


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    """Gateways of this process look for answers all the time."""
    monkeypatch.setattr(gateway, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(gateway, "NODE_INTERVAL", 0.0)
    monkeypatch.setattr(gateway, "RETRY_DELAY", 0.01)
