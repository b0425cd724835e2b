"""A port of this machine is its owner's: other users are turned away before anything of theirs is read."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest
import uvicorn

from potluck.flower import same_user
from potluck.flower.same_user import SameUserProtocol, user_of
from tests.flower.other_user import NOBODY, as_another_user, needs_another_user

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says whose a connection is")


def connected(family, host):
    """Both ends of a connection on this machine."""
    with socket.socket(family) as listening:
        listening.bind((host, 0))
        listening.listen()
        client = socket.socket(family)
        client.connect(listening.getsockname())
        return client, listening.accept()[0]


@linux
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_linux_knows_whose_a_connection_is(family, host):
    client, server = connected(family, host)
    with client, server:
        ends = server.getpeername(), server.getsockname()
        assert user_of(*ends) == os.geteuid()
        assert user_of(("127.0.0.9", ends[0][1]), ends[1]) is None, "the same ports, but another address"
        client.close()
        assert user_of(*ends) is None, "what is closed may be listed as root's"


def test_a_list_is_read_as_linux_writes_it(tmp_path, monkeypatch):
    lines = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:B6F1 0100007F:1F90 06 00000000:00000000 03:00000207 00000000     0        0 0 3 0000",
        "   1: 0200007F:B6F1 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0000",
        "   2: 0100007F:B6F1 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 7 1 0000",
    ]
    (tmp_path / "tcp").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "byteorder", "little")
    monkeypatch.setattr(same_user, "TABLES", (tmp_path / "none", tmp_path / "tcp"))
    assert user_of(("127.0.0.1", 0xB6F1), ("127.0.0.1", 8080)) == 1000
    assert user_of(("::ffff:127.0.0.1", 0xB6F1), ("127.0.0.1", 8080)) == 1000
    assert user_of(("127.0.0.1", 0xB6F2), ("127.0.0.1", 8080)) is None


def answers(asking):
    """What a port of this user's answers to a program, which is given the port."""
    heard = []

    async def app(scope, receive, send):
        heard.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def scene():
        server = uvicorn.Server(uvicorn.Config(app, port=0, http=SameUserProtocol, lifespan="off", log_level="error"))
        task = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found = await asyncio.get_running_loop().run_in_executor(None, asking, port)
        server.should_exit = True
        await task
        return found

    return asyncio.run(scene()), heard


def ask(port):
    """All that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        try:
            connection.sendall(ASKED)
            return b"".join(iter(lambda: connection.recv(1000), b""))
        except ConnectionError:
            return b""


@linux
def test_programs_of_this_user_are_answered_and_others_are_not(monkeypatch):
    found, heard = answers(ask)
    assert found.startswith(b"HTTP/1.1 200")
    assert heard == ["/"]
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert answers(ask) == (b"", [])


@linux
@needs_another_user
def test_another_user_of_the_machine_is_turned_away():
    assert answers(lambda port: as_another_user(ask, port)) == (b"", [])
