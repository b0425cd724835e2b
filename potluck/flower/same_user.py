"""Whether a program of this user's is at the other end of a connection on this machine.

Flower's programs speak to one another at ports of 127.0.0.1, to which every user of a machine can connect. Linux says
whose each connection is, so that those of other users are turned away before anything of theirs is read.
"""

from __future__ import annotations

import os
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Where Linux lists connections, with the user of each."""
ESTABLISHED = "01"
"""The state of a connection that its program has not closed: of others the list may name root, whoever's they were."""

Address = tuple[Any, ...]
"""A host and a port, and for IPv6 more."""


def user_of(client: Address, server: Address) -> int | None:
    """Whose program holds the client's end of a connection on this machine; None if nobody's is found.

    Args:
        client: the address of the client's end.
        server: the address of the server's end.
    """
    ends = [(_plain(ip_address(host)), port) for host, port, *_ in (client, server)]
    ports = [f":{port:04X}" for _, port in ends]
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, state, _, _, _, user, *_ = line.split()
            if [local[-5:], remote[-5:]] == ports and state == ESTABLISHED and [_read(local), _read(remote)] == ends:
                return int(user)
    return None


def _read(listed: str) -> tuple[IPv4Address | IPv6Address, int]:
    """An address as Linux lists it: words of four bytes, each as this machine writes numbers."""
    host, _, port = listed.partition(":")
    words = (int(host[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(host), 8))
    return _plain(ip_address(b"".join(words))), int(port, 16)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return getattr(address, "ipv4_mapped", None) or address


def is_own(transport: Any) -> bool:
    """Whether a connection comes from a program of this user's. Only Linux can tell; elsewhere all are taken for so."""
    if sys.platform != "linux":
        return True
    return user_of(transport.get_extra_info("peername"), transport.get_extra_info("sockname")) == os.geteuid()


class SameUserProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Answers the programs of this user alone."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self.serves_all(transport) and not is_own(transport):
            print(f"Turned away another user of this machine, at {transport.get_extra_info('peername')}.", flush=True)
            transport.abort()

    def serves_all(self, transport: Any) -> bool:
        """Whether a connection is to a port that is not for this user alone."""
        return False
