"""Why a handshake was broken off, as the server hears it."""

from __future__ import annotations

import ssl

import pytest

from potluck.flower.key_folder import make_keys
from potluck.flower.tls_watch import WatchedTls


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        make_keys(folder / name, [], ["localhost"], 1)
    return folder


def handshake(keys, authority, host="localhost", first=b""):
    """A client and a server shake hands in memory; what the server said."""
    said = []
    WatchedTls.heard = said.append
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(keys / "ours" / "server.pem", keys / "ours" / "server.key")
    server_context.sslobject_class = WatchedTls
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(inward, outward, server_side=True)
    client = ssl.create_default_context(cafile=str(keys / authority / "ca.crt")).wrap_bio(
        outward, inward, server_hostname=host
    )
    if first:
        inward.write(first)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                if side is server:
                    return said
    return said


def test_a_handshake_that_goes_well_says_nothing(keys):
    assert handshake(keys, "ours") == []


def test_a_site_that_does_not_trust_the_certificate_is_heard(keys):
    (line,) = handshake(keys, "theirs")
    assert line.startswith("a site broke off: it does not know the authority")


def test_somebody_without_tls_is_heard(keys):
    (line,) = handshake(keys, "ours", first=b"GET / HTTP/1.1\r\n\r\n")
    assert line.startswith("somebody spoke without TLS")


def test_what_is_no_mistake_of_a_sites_says_nothing(keys):
    assert handshake(keys, "ours", first=b"\0" * 50) == []
