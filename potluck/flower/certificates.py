"""Certificates and keys, in the forms that Flower reads: made, written, read; what is signed with them; their dates."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from potluck.channel.audit_log import Seal
from potluck.core.errors import SettingsError

WARN_DAYS = 14
"""How long before its end a certificate is warned of."""
PUBLIC = serialization.PublicFormat
ENCODING = serialization.Encoding


def new_authority(key: ec.EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    """A certificate of an authority, for some days. One with the same key takes the place of another."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Potluck trial authority")])
    usage = dict.fromkeys(_USES, False) | {"key_cert_sign": True, "crl_sign": True}
    return (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def new_server(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    days: int,
) -> x509.Certificate:
    """A server's certificate, signed by an authority, for these host names and addresses."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    usage = dict.fromkeys(_USES, False) | {"digital_signature": True}
    return (
        _builder(name, authority.subject, key, days)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )


_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _no_encryption() -> serialization.NoEncryption:
    return serialization.NoEncryption()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(ENCODING.PEM, serialization.PrivateFormat.PKCS8, _no_encryption())


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    """Writes a certificate, perhaps in the place of another."""
    draft = path.with_name(f".{path.name}.unfinished")
    draft.write_bytes(certificate.public_bytes(ENCODING.PEM))
    draft.replace(path)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new key."""
    return ec.generate_private_key(ec.SECP384R1())


def write_node_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    """Writes a participant's key, and its public half beside it, whose file it returns."""
    write_secret(path, key.private_bytes(ENCODING.PEM, serialization.PrivateFormat.OpenSSH, _no_encryption()))
    half = path.with_name(f"{path.name}.pub")
    half.write_bytes(key.public_key().public_bytes(ENCODING.OpenSSH, PUBLIC.OpenSSH) + b"\n")
    return half


def write_pem_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Writes the key of a certificate."""
    write_secret(path, _pem(key))


def write_secret(path: Path, data: bytes) -> None:
    """Writes a new file that its owner alone may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def sealing(path: str | None) -> Seal | None:
    """Signs checksums with a node's or a server's private key; None where there is no key."""
    if path is None:
        return None
    key = private_key(path)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return lambda checksum: base64.b64encode(key.sign(checksum, ec.ECDSA(hashes.SHA256()))).decode()
    if isinstance(key, rsa.RSAPrivateKey):
        return lambda checksum: base64.b64encode(key.sign(checksum, padding.PKCS1v15(), hashes.SHA256())).decode()
    raise SettingsError(f"{path} is no key that can sign; `potluck keys add` makes one.")


def check_seal(path: str, checksum: str, seal: str) -> bool:
    """Whether the owner of a public key, or of a certificate, signed a checksum."""
    key = public_half(path)
    try:
        signed, of = base64.b64decode(seal), bytes.fromhex(checksum)
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signed, of, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signed, of, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def signed_by(public: bytes, message: bytes, seal: str) -> bool:
    """Whether the owner of a public key, given as PEM, signed a message, as ``sealing`` does."""
    try:
        key = serialization.load_pem_public_key(public)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        key.verify(base64.b64decode(seal), message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def public_pem(path: str) -> bytes:
    """A participant's public half, in the form in which Flower gives it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem: bytes = public_half(path).public_bytes(ENCODING.PEM, form)
    return pem


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate in a file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} holds no certificate: {error}.") from error


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def days_left(certificate: x509.Certificate) -> float:
    """How many days a certificate is good for from now on; below 0 if it has ended."""
    return (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).total_seconds() / 86400


def date_of(certificate: x509.Certificate) -> str:
    """The day on which a certificate ends."""
    return certificate.not_valid_after_utc.strftime("%Y-%m-%d")


def warn_of_end(what: str, certificate: x509.Certificate, days: float = WARN_DAYS) -> str | None:
    """A sentence where a certificate ends soon, or has ended; None where there is time."""
    left = days_left(certificate)
    if left > days:
        return None
    when = f"ends on {date_of(certificate)}, in {left:.0f} days" if left >= 0 else f"ended on {date_of(certificate)}"
    return f"{what} {when}; `potluck keys renew` makes another one."


def fingerprint(path: str) -> str:
    """The SHA-256 of the public half of a key, by which people compare keys."""
    return fingerprint_of(private_key(path).public_key())


def fingerprint_of(key: Any) -> str:
    """The SHA-256 of a public key, itself or as PEM."""
    public = serialization.load_pem_public_key(key) if isinstance(key, bytes) else key
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def private_key(path: str) -> Any:
    """The private key in a file."""
    data = Path(path).read_bytes()
    load = serialization.load_ssh_private_key if b"OPENSSH" in data else serialization.load_pem_private_key
    try:
        return load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SettingsError(
            f"{path} is no private key without a password: {error}. `potluck keys add` makes one."
        ) from error


def public_half(path: str) -> Any:
    """The public key in a file: a participant's public half, or that of a certificate."""
    try:
        data = Path(path).read_bytes()
        if b"CERTIFICATE" in data:
            key: Any = x509.load_pem_x509_certificate(data).public_key()
        else:
            key = serialization.load_ssh_public_key(data)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path} is no public key: {error}. `potluck keys add` makes one.") from error
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise SettingsError(f"{path} is no public key that can check a signature; `potluck keys add` makes one.")
    return key
