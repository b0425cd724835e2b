"""The ServerApp hands Flower's grid, and what a run is configured with, to the server's half."""

from __future__ import annotations

from types import SimpleNamespace

from potluck.flower import server_app
from potluck.flower.app.potluck_app.server import app


def test_it_serves_what_the_run_names(monkeypatch):
    served = []
    monkeypatch.setattr(server_app, "serve", lambda grid, config: served.append((grid, config)))
    grid, context = SimpleNamespace(), SimpleNamespace(run_config={"federation": "/there/federation.toml"})
    app(grid, context)
    assert served == [(grid, {"federation": "/there/federation.toml"})]
