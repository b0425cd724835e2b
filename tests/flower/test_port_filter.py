"""What the public port lets through."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from pathlib import Path

import pytest
import uvicorn

from potluck.flower import port_filter
from potluck.flower.certificates import public_pem
from potluck.flower.hello import PATH, Hello
from potluck.flower.key_folder import make_keys, revoke
from potluck.flower.port_filter import GuardedProtocol, PortFilter
from potluck.flower.reception import KEY_HEADER, DoorList, KnownSite, Reception, known_site


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


@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/run",
        "/v1/fleet/./x",
        "/v1/fleet//x",
        "/v1/fleet/",
        "//v1/fleet/x",
        "/v1/fleet/..%2fcontrol/run",
        "/v1/fleet/x\\..\\control",
        "/v1/fleet/é",
        "/V1/fleet/x",
    ],
)
def test_a_path_that_somebody_else_might_resolve_is_refused(path):
    assert ask(path) == 403


def test_a_path_is_read_as_it_was_sent():
    scope = {"path": "/v1/fleet/../control", "raw_path": b"/v1/fleet/%2e%2e/control"}
    assert not port_filter.is_for_nodes(scope)
    assert not port_filter.is_for_nodes({"path": "/v1/fleet/x", "raw_path": b"/v1/%66leet/x"})
    assert port_filter.is_for_nodes({"path": "/v1/fleet/pull-messages", "raw_path": b"/v1/fleet/pull-messages?x=1"})


def at_reception(body, tmp_path, path=PATH, length=None, method="POST", headers=()):
    """What the public port answers, with a reception at it."""
    DoorList(1, "1", (KnownSite("ann"),), str(tmp_path / "none")).write(tmp_path / "door.json")
    seen, said = [], []
    found = Reception(tmp_path / "door.json", said.append)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        seen.append(message)

    parts = [{"body": body[:5], "more_body": True}, {"body": body[5:]}]

    async def receive():
        return parts.pop(0)

    scope = {"type": "http", "path": path, "method": method, "server": ("127.0.0.1", 8443), "client": ("10.0.0.1", 1)}
    scope["headers"] = [(b"content-length", str(len(body) if length is None else length).encode()), *headers]
    asyncio.run(PortFilter(app, 8443, 100, Path(__file__), found)(scope, receive, send))
    return seen[0]["status"], seen[-1].get("body", b""), said


def test_a_site_is_told_how_it_stands(tmp_path):
    status, body, said = at_reception(Hello(name="ann", time=1.0).model_dump_json().encode(), tmp_path)
    assert (status, json.loads(body)["standing"]) == (200, "welcome")
    status, body, said = at_reception(Hello(name="bob", time=1.0).model_dump_json().encode(), tmp_path)
    assert json.loads(body)["standing"] == "unknown name"
    assert len(said) == 1
    assert at_reception(b"no question", tmp_path)[0] == 400
    assert at_reception(b"", tmp_path, length=2**20)[0] == 413
    assert at_reception(b"", tmp_path, method="GET")[0] == 403


def test_a_key_that_was_revoked_gets_no_further(tmp_path):
    make_keys(tmp_path / "keys", ["ann"], ["localhost"], 1)
    DoorList(1, "1", (known_site("ann", str(tmp_path / "keys" / "ann.pub")),), "none").write(tmp_path / "own.json")
    found, statuses = Reception(tmp_path / "own.json", print), []
    header = (KEY_HEADER, base64.b64encode(public_pem(str(tmp_path / "keys" / "ann.pub"))))

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})

    async def send(message):
        statuses.append(message.get("status"))

    scope = {"type": "http", "path": "/v1/fleet/pull-messages", "server": ("127.0.0.1", 8443), "client": ("x", 1)}
    scope["headers"] = [(b"content-length", b"10"), header]
    asyncio.run(PortFilter(app, 8443, 100, Path(__file__), found)(scope, None, send))
    revoke(tmp_path / "keys", "ann")
    asyncio.run(PortFilter(app, 8443, 100, Path(__file__), found)(scope, None, send))
    assert [status for status in statuses if status] == [200, 401]


def test_nodes_need_no_websockets():
    sent = []

    async def app(scope, receive, send):
        raise AssertionError("it was let through")

    async def send(message):
        sent.append(message["type"])

    scope = {"type": "websocket", "path": "/v1/fleet/x", "server": ("127.0.0.1", 8443), "client": ("x", 1)}
    asyncio.run(PortFilter(app, 8443, 100, Path(__file__))(scope, None, send))
    assert sent == ["websocket.close"]


async def app_for_all(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def listening(public=True):
    config = uvicorn.Config(app_for_all, port=0, http=GuardedProtocol, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GuardedProtocol, "public_port", port if public else None)
        yield port
    server.should_exit = True
    await task


def test_half_open_connections_are_closed_and_there_are_only_so_many(monkeypatch):
    monkeypatch.setattr(port_filter, "HEAD_TIMEOUT", 0.3)
    monkeypatch.setattr(port_filter, "MOST_CONNECTIONS", 5)

    async def scene():
        async with listening() as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
            for _, writer in held:
                writer.write(b"POST /v1/fleet/x HTTP/1.1\r\nHost")
            ended = [await asyncio.wait_for(reader.read(), 5) for reader, _ in held]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await asyncio.wait_for(reader.readuntil(b"ok"), 5)).startswith(b"HTTP/1.1 200")
            assert await asyncio.wait_for(reader.read(), 5) == b"", "it does not stay for ever either"
            return ended

    assert asyncio.run(scene()) == [b""] * 8


async def sent(port, *pieces):
    """What comes back of some pieces, one after the other, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
        return await asyncio.wait_for(reader.read(), 5)
    return b"reset"


HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"


def test_a_head_that_does_not_end_is_not_kept():
    async def scene():
        async with listening() as port:
            return await sent(port, b"GET / HTTP/1.1\r\n", *[b"X: " + b"y" * 30_000 + b"\r\n"] * 5)

    assert asyncio.run(scene()) in (b"", b"reset")


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(port_filter, "HEAD_TIMEOUT", 0.3)
    monkeypatch.setattr(port_filter, "BODY_TIMEOUT", 0.3)

    async def reads(scope, receive, send):
        while (await receive()).get("more_body"):
            pass

    async def scene():
        async with listening() as port:
            answered = await sent(port, HEAD, b"0123456789", b"POST /x HTT")  # the head that follows is late, too
            monkeypatch.setitem(globals(), "app_for_all", reads)
        async with listening() as port:
            return answered, await sent(port, HEAD, b"01234")

    answered, silent = asyncio.run(scene())
    assert answered.startswith(b"HTTP/1.1 200")
    assert silent in (b"", b"reset")


def test_connections_to_the_public_port_do_not_keep_this_machine_out(monkeypatch):
    monkeypatch.setattr(port_filter, "MOST_CONNECTIONS", 0)

    async def scene(public):
        async with listening(public) as port:
            return await sent(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert asyncio.run(scene(True)) in (b"", b"reset")
    assert asyncio.run(scene(False)).startswith(b"HTTP/1.1 200")
