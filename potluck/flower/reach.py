"""Whether a server can be reached and lets this site in: each mistake has a sentence that says what to do."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from pydantic import ValidationError

import potluck
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.harmless import one_line
from potluck.flower.certificates import (
    date_of,
    days_left,
    fingerprint,
    hosts_of,
    private_key,
    read_certificate,
    sealing,
    warn_of_end,
)
from potluck.flower.hello import PATH, DoorAnswer, Hello, SiteStanding
from potluck.flower.protocol import PROTOCOL

TIMEOUT = 10.0
"""Seconds that a server has to answer."""
USUAL_PORT = 8443
"""Where servers listen unless their files say otherwise."""
EXPIRED, NOT_YET, OTHER_HOST, OTHER_ADDRESS = 10, 9, 62, 64
"""What OpenSSL says of a certificate; anything else is about who has signed it."""


TURNED_AWAY: dict[SiteStanding, str] = {
    "unknown name": "has no participant {name!r}: ask those who run it what its file calls you.",
    "other name": "knows your key as {known!r}, and your file says {name!r}: expected the same `name`.",
    "no key": "lets in those with keys alone: set `key` in your file to your private key.",
    "unknown key": "does not know your key{mark}: give its public half, {key}.pub, to those who run it.",
    "revoked": "does not let in your key{mark} any more: it was revoked. Ask those who run it.",
    "unsigned": "finds that your key{mark} did not sign what came from here: something in between changes it.",
    "other clock": "has a clock that is minutes apart from the one here: set both right.",
}
"""What a site is told where it is not welcome."""


class ReachError(PotluckError):
    """The server cannot be reached, or does not let this site in.

    Args:
        text: why, and what to do.
        passing: whether it may be otherwise in a while, as when the server is not up yet; by default False.
    """

    def __init__(self, text: str, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


@dataclass(frozen=True)
class Site:
    """Who wants to reach a server.

    Args:
        name: what its file calls it.
        certificates: the file with the authority that signed the server's certificate; None without TLS.
        key: the file with its private key; None without keys.
    """

    name: str
    certificates: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class ReachedServer:
    """A server that was reached.

    Args:
        certificate: the server's; None without TLS.
        answer: how the site stands with it; None where it does not say, as Flower's own server.
    """

    certificate: x509.Certificate | None
    answer: DoorAnswer | None

    def warnings(self, site: Site) -> list[str]:
        """What ends soon: the server's certificate, and the authority's here."""
        found = []
        if self.certificate is not None:
            found.append(warn_of_end("The server's certificate", self.certificate))
        if site.certificates is not None:
            authority = read_certificate(Path(site.certificates))
            found.append(warn_of_end(f"The authority's certificate, {site.certificates},", authority))
        return [line for line in found if line is not None]


def address_of(text: str) -> tuple[str, int]:
    """Host and port of an address as ``--server`` takes it."""
    if scheme := re.match(r"\s*(\w+)://(.*)", text):
        bare = scheme[2].strip("/ ") or "HOST:PORT"
        raise SettingsError(f"--server is {text!r}; expected it without {scheme[1]}://, as {bare!r}.")
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host:
        raise SettingsError(f"--server is {text!r}; expected HOST:PORT, such as federation.example.org:{USUAL_PORT}.")
    return host, int(port)


def reach(address: str, site: Site) -> ReachedServer:
    """Asks a server how a site stands. Raises ReachError, with what to do, where it is not reached or not let in."""
    host, port = address_of(address)
    _check_listens(host, port, address)
    certificate = None if site.certificates is None else _check_tls(host, port, address, site.certificates)
    try:
        answer = _answer(host, port, address, site)
    except ReachError:
        if site.certificates is None and _peer(host, port) is not None:
            raise ReachError(
                f"The server at {address} speaks TLS, and your file does not: set `root_certificates` to the "
                f"authority's certificate that those who run it gave you, and `key` to your key."
            ) from None
        raise
    if answer is not None:
        _check_standing(answer, address, site)
    return ReachedServer(certificate, answer)


def _check_listens(host: str, port: int, address: str) -> None:
    try:
        socket.create_connection((host, port), TIMEOUT).close()
    except socket.gaierror:
        raise ReachError(f"There is no host {host!r}: see that its name is written as it should be.") from None
    except ConnectionRefusedError:
        if port != USUAL_PORT and _listens(host, USUAL_PORT):
            raise ReachError(
                f"Nobody listens at port {port} of {host}, but somebody at {USUAL_PORT}: see that the port is the one "
                f"in the server's file."
            ) from None
        raise ReachError(
            f"Nobody listens at {address}: the server is not up, or listens at another port.", passing=True
        ) from None
    except OSError as error:
        raise ReachError(
            f"{host} does not answer at port {port} ({_said(error)}): it is off, or a firewall is in between.",
            passing=True,
        ) from None


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 2.0).close()
    except OSError:
        return False
    return True


def _check_tls(host: str, port: int, address: str, authority: str) -> x509.Certificate:
    """The server's certificate, if it is one that the authority vouches for."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"{authority} holds no certificate of an authority: {_said(error)}.") from error
    peer = _peer(host, port)
    if peer is None:
        if _speaks_http(host, port):
            raise ReachError(
                f"The server at {address} speaks without TLS, and your file has `root_certificates`: nothing would be "
                f"encrypted. Those who run it add [tls] to its file."
            )
        raise _nobody_we_know(address)
    own = read_certificate(Path(authority))
    if days_left(own) < 0:
        raise ReachError(
            f"The authority's certificate here, {authority}, ended on {date_of(own)}: those who run the server have "
            f"another one (`potluck keys renew`)."
        )
    try:
        with (
            socket.create_connection((host, port), TIMEOUT) as raw,
            context.wrap_socket(raw, server_hostname=host),
        ):
            return peer
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(error, peer, host, address, authority) from None
    except (OSError, ssl.SSLError) as error:
        raise ReachError(f"The server at {address} breaks off TLS: {_said(error)}.", passing=True) from error


def _untrusted(
    error: ssl.SSLCertVerificationError, peer: x509.Certificate, host: str, address: str, authority: str
) -> ReachError:
    what = f"The certificate of the server at {address}"
    if error.verify_code == EXPIRED:
        return ReachError(
            f"{what} ended on {date_of(peer)}: those who run it make another one with `potluck keys renew`."
        )
    if error.verify_code == NOT_YET:
        begins = peer.not_valid_before_utc.strftime("%Y-%m-%d %H:%M")
        return ReachError(f"{what} is good from {begins} UTC on: see that the clocks of both machines are right.")
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        names = ", ".join(map(one_line, hosts_of(peer))) or "no host"
        return ReachError(
            f"{what} is for {names}, not for {host}: use one of these in --server, or have a certificate made for "
            f"{host} (`potluck keys renew --host {host}`)."
        )
    return ReachError(
        f"{what} was not signed by the authority in {authority}: somebody else may be answering there, or you have the "
        f"certificate of another authority. Ask those who run the server for theirs."
    )


def _peer(host: str, port: int) -> x509.Certificate | None:
    """The certificate that a server shows, whoever signed it; None where it speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is looked at, and nothing is said
    try:
        with (
            socket.create_connection((host, port), TIMEOUT) as raw,
            context.wrap_socket(raw, server_hostname=host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except (OSError, ssl.SSLError, ValueError):
        return None
    return None if shown is None else x509.load_der_x509_certificate(shown)


def _speaks_http(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _answer(host: str, port: int, address: str, site: Site) -> DoorAnswer | None:
    """How the site stands with the server, by its own word; None where it does not say."""
    connection: http.client.HTTPConnection
    if site.certificates is None:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
    else:
        context = ssl.create_default_context(cafile=site.certificates)
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
    try:
        connection.request("POST", PATH, _question(site).model_dump_json(), {"content-type": "application/json"})
        answer = connection.getresponse()
        status, kind, body = answer.status, answer.getheader("server") or "", answer.read(2**22)
    except (OSError, http.client.HTTPException):
        raise _nobody_we_know(address) from None
    finally:
        connection.close()
    if status == 200:
        try:
            return DoorAnswer.model_validate_json(body)
        except ValidationError:
            raise _nobody_we_know(address) from None
    if "uvicorn" in kind:  # Flower's own server, which somebody runs without `potluck serve`, does not say
        return None
    raise _nobody_we_know(address)


def _question(site: Site) -> Hello:
    if site.key is None:
        return Hello(name=site.name, time=time.time())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = private_key(site.key).public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    asked, seal = Hello(name=site.name, key=public, time=time.time()), sealing(site.key)
    assert seal is not None
    return asked.model_copy(update={"seal": seal(asked.signed_text())})


def _check_standing(found: DoorAnswer, address: str, site: Site) -> None:
    """Raises ReachError unless the site is welcome."""
    server, key = f"The server at {address}", "" if site.key is None else f" ({fingerprint(site.key)[:16]}…)"
    if found.protocol != PROTOCOL:
        raise ReachError(
            f"{server} speaks protocol {found.protocol} (potluck {found.potluck}), this machine {PROTOCOL} (potluck "
            f"{potluck.__version__}): install the same version on both sides."
        )
    if found.standing in TURNED_AWAY:
        why = TURNED_AWAY[found.standing]
        known = one_line(found.known_as or "")
        raise ReachError(f"{server} {why.format(name=site.name, known=known, mark=key, key=site.key)}")


def _nobody_we_know(address: str) -> ReachError:
    return ReachError(
        f"What listens at {address} is no Potluck server: see that host and port are those of the server's file."
    )


def _said(error: Exception) -> Any:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
