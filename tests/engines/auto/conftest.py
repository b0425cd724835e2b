"""What the tests of the automatic engines share."""

from __future__ import annotations

import pytest

from potluck.engines.auto import autotune, engine, workers


@pytest.fixture
def two_cores(monkeypatch):
    """Tests run with one thread; workers are as many as threads."""
    for module in (autotune, engine, workers):
        monkeypatch.setattr(module, "cores", lambda: 2)
