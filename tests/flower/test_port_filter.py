"""What the public port lets through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from potluck.flower.port_filter import PortFilter


def ask(path, port=8443, length=b"10", ready=Path(__file__)):
    """The status that a request gets."""
    seen = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        seen.append(message)

    headers = [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "path": path, "server": ("127.0.0.1", port), "client": ("x", 1), "headers": headers}
    asyncio.run(PortFilter(app, 8443, 100, ready)(scope, None, send))
    return seen[0]["status"]


def test_only_nodes_may_ask_at_the_public_port():
    assert ask("/v1/fleet/pull-messages") == 200
    for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/get-nodes", "/docs", "/"):
        assert ask(path) == 403
        assert ask(path, port=9000) == 200  # the port on this machine


def test_nodes_are_asked_to_come_back_until_the_keys_are_registered(tmp_path):
    assert ask("/v1/fleet/activate-node", ready=tmp_path / "ready") == 503
    assert ask("/v1/control/register-node", port=9000, ready=tmp_path / "ready") == 200


@pytest.mark.parametrize("length", [b"101", b"99999999999", None, b"-1"])
def test_no_request_may_be_too_large(length):
    assert ask("/v1/fleet/push-object", length=length) == 413
