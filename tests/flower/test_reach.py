"""Whether a server can be reached: each mistake has a sentence of its own. Real servers, on loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from potluck.core.errors import SettingsError
from potluck.flower import reach as reach_module
from potluck.flower.hello import PATH
from potluck.flower.key_folder import make_keys, revoke
from potluck.flower.processes import free_port
from potluck.flower.protocol import PROTOCOL
from potluck.flower.reach import ReachError, Site, address_of, reach
from potluck.flower.reception import DoorList, Reception, known_site


class Handler(BaseHTTPRequestHandler):
    """Answers as the public port of `potluck serve` does."""

    server_version, reception, odd = "test", None, None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != PATH or self.odd is not None:
            self.send_error(404)
            return
        answer = self.reception.answer(body, "127.0.0.1")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self):
        self.send_error(403)

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def keys(tmp_path):
    make_keys(tmp_path / "keys", ["ann", "bob", "stranger"], ["localhost", "127.0.0.1"], 30)
    make_keys(tmp_path / "other", ["ann"], ["localhost", "127.0.0.1"], 30)
    return tmp_path


@pytest.fixture
def serving(keys):
    """Starts servers; their addresses, and what they said."""
    running = []

    def serve(tls="keys", version=PROTOCOL, banner="test", odd=None, with_keys=True):
        said = []
        sites = [known_site(name, str(keys / "keys" / f"{name}.pub") if with_keys else None) for name in ("ann", "bob")]
        DoorList(version, "0.9", tuple(sites), str(keys / "none")).write(keys / "door.json")
        told = {"reception": Reception(keys / "door.json", said.append), "server_version": banner, "odd": odd}
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), told))
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keys / tls / "server.pem", keys / tls / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append(server)
        return f"127.0.0.1:{server.server_port}", said

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def site(keys):
    def made(name="ann", key="keys/ann", authority="keys/ca.crt"):
        return Site(name, authority and str(keys / authority), key and str(keys / key))

    return made


def test_who_is_let_in_learns_how_it_stands(serving, site):
    address, _ = serving()
    found = reach(address, site())
    assert found.answer.standing == "welcome"
    assert found.certificate is not None
    assert found.warnings(site()) == []


def test_without_tls_and_keys_names_count(serving, site):
    address, _ = serving(tls=None, with_keys=False)
    assert reach(address, site(key=None, authority=None)).certificate is None
    with pytest.raises(ReachError, match="has no participant 'anne'"):
        reach(address, site("anne", None, None))


def test_each_mistake_has_a_sentence_of_its_own(serving, site, keys, monkeypatch):
    address, _ = serving()
    plain, _ = serving(tls=None)
    foreign, _ = serving(tls="other")
    nobody = f"127.0.0.1:{free_port()}"
    revoke(keys / "keys", "bob")
    said = {}

    def ask(what, where, who):
        with pytest.raises(ReachError) as raised:
            reach(where, who)
        said[what] = str(raised.value)
        assert raised.value.passing == (what == "down")

    ask("unknown key", address, site(key="keys/stranger"))
    ask("other name", address, site("bert"))
    ask("revoked", address, site("bob", "keys/bob"))
    ask("no key", address, site(key=None))
    ask("foreign", foreign, site())
    ask("server without TLS", plain, site())
    ask("site without TLS", address, site(key=None, authority=None))
    ask("down", nobody, site())
    monkeypatch.setattr(reach_module, "USUAL_PORT", int(address.rpartition(":")[2]))
    ask("wrong port", nobody, site())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(reach_module, "TIMEOUT", 0.3)
        ask("another service", f"127.0.0.1:{silent.getsockname()[1]}", site())
    with pytest.raises(SettingsError) as raised:
        reach(f"https://{address}", site())
    said["https://"] = str(raised.value)
    expected = {
        "unknown key": r"does not know your key (",
        "other name": "knows your key as 'ann', and your file says 'bert'",
        "revoked": "it was revoked",
        "no key": "lets in those with keys alone",
        "foreign": "was not signed by the authority in",
        "server without TLS": "speaks without TLS, and your file has `root_certificates`",
        "site without TLS": "speaks TLS, and your file does not",
        "down": "the server is not up, or listens at another port",
        "wrong port": f"but somebody at {address.rpartition(':')[2]}",
        "another service": "is no Potluck server",
        "https://": f"expected it without https://, as '{address}'",
    }
    assert {what: part in said[what] for what, part in expected.items()} == dict.fromkeys(expected, True)
    assert len({text.replace(address, "").replace(plain, "") for text in said.values()}) == len(said)
    assert not any("\n" in text for text in said.values())


def test_certificates_that_have_ended_or_are_for_others_are_told(serving, site, keys, monkeypatch):
    make_keys(keys / "elsewhere", [], ["example.org"], 30)
    address, _ = serving(tls="elsewhere")
    with pytest.raises(ReachError, match=r"is for example.org, not for 127.0.0.1.*--host 127.0.0.1"):
        reach(address, site(authority="elsewhere/ca.crt"))
    make_keys(keys / "soon", [], ["127.0.0.1"], 9)
    address, _ = serving(tls="soon")
    lines = reach(address, site(authority="soon/ca.crt")).warnings(site(authority="soon/ca.crt"))
    assert len(lines) == 2
    assert all("in 9 days" in line for line in lines)
    make_keys(keys / "ended", [], ["127.0.0.1"], 0)
    address, _ = serving(tls="ended")
    with pytest.raises(ReachError, match=r"authority's certificate here, .* ended on 20"):
        reach(address, site(authority="ended/ca.crt"))


def test_a_servers_certificate_that_has_ended_is_told(serving, site, keys):
    from potluck.flower import certificates

    authority, key = certificates.read_certificate(keys / "keys" / "ca.crt"), keys / "keys" / "ca.key"
    server = certificates.private_key(str(keys / "keys" / "server.key"))
    ended = certificates.new_server(server, authority, certificates.private_key(str(key)), ["127.0.0.1"], 0)
    certificates.write_certificate(keys / "keys" / "server.pem", ended)
    address, _ = serving()
    with pytest.raises(ReachError, match=r"The certificate of the server at .* ended on 20.*`potluck keys renew`"):
        reach(address, site())


def test_another_version_is_told(serving, site):
    address, _ = serving(version=PROTOCOL + 1)
    with pytest.raises(ReachError, match=rf"speaks protocol {PROTOCOL + 1} \(potluck 0.9\), this machine {PROTOCOL}"):
        reach(address, site())


def test_flowers_own_server_does_not_say_and_others_are_no_server(serving, site):
    address, _ = serving(banner="uvicorn", odd=True)
    assert reach(address, site()).answer is None
    address, _ = serving(banner="nginx", odd=True)
    with pytest.raises(ReachError, match="is no Potluck server"):
        reach(address, site())


def test_a_host_that_is_not_there_is_told(site):
    with pytest.raises(ReachError, match=r"There is no host 'nowhere\.invalid'"):
        reach("nowhere.invalid:1", site())


def test_an_authority_that_is_none_is_told(serving, site, keys):
    address, _ = serving()
    with pytest.raises(SettingsError, match="holds no certificate of an authority"):
        reach(address, site(authority="keys/ann.pub"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a.org:1", ("a.org", 1)), (" 10.0.0.1:8443 ", ("10.0.0.1", 8443)), ("[::1]:8443", ("::1", 8443))],
)
def test_addresses_are_read(text, expected):
    assert address_of(text) == expected


@pytest.mark.parametrize("text", ["somewhere", "a:b", ":1", "a:0", "a:99999", "a/b:1", "http://a:1", "https://a:1/"])
def test_what_is_no_address_is_told(text):
    with pytest.raises(SettingsError, match="--server is"):
        address_of(text)
