"""Hears why sites break off TLS with a server, which web servers do not tell."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import ClassVar

REASONS = {
    "HTTP_REQUEST": "somebody spoke without TLS, and was not answered: a site without `root_certificates`?",
    "ALERT_UNKNOWN_CA": "a site broke off: it does not know the authority that signed this server's certificate",
    "ALERT_CERTIFICATE_EXPIRED": "a site broke off: this server's certificate has ended; `potluck keys renew`",
    "ALERT_BAD_CERTIFICATE": "a site broke off: this server's certificate is not for the host name that it uses",
    "ALERT_CERTIFICATE_UNKNOWN": "a site broke off: it does not accept this server's certificate",
}
"""What is said, by what OpenSSL's reason ends with."""
TLS_BEGINS = b"\x16\x03"
"""The first bytes of whoever speaks TLS."""


class WatchedTls(ssl.SSLObject):
    """A server's side of TLS that says why a handshake was broken off."""

    heard: ClassVar[Callable[[str], None]] = print
    """Is given a line for each."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            reason = error.reason or ""
            line = next((line for ending, line in REASONS.items() if reason.endswith(ending)), None)
            if line is not None:
                type(self).heard(line)
            raise
