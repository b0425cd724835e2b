"""Makes an authority, a server's certificate and node keys, in the forms that Flower reads."""

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

PUBLIC = serialization.PublicFormat
ENCODING = serialization.Encoding


def make_keys(folder: Path, names: Sequence[str], hosts: Sequence[str], days: int) -> dict[Path, str]:
    """Writes everything for a trial, and says what each file is for. Secrets are readable by their owner alone."""
    for name in names:
        if Path(name).name != name or not name.strip() or name.startswith("."):
            raise SettingsError(f"A participant's name is {name!r}; expected one that can be a file name.")
    if len(set(names)) < len(names) or {"ca", "server"} & set(names):
        raise SettingsError(f"The names {list(names)} must differ, also from 'ca' and 'server'.")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = ["ca.crt", "ca.key", "server.pem", "server.key", *names, *(f"{name}.pub" for name in names)]
    taken = [folder / file for file in files if (folder / file).exists()]
    if taken:
        raise SettingsError(f"{taken[0]} is there already and stays as it is; choose another folder with --out.")
    authority = ec.generate_private_key(ec.SECP384R1())
    certificate = _authority(authority, days)
    _certificate(folder / "ca.crt", certificate)
    _secret(folder / "ca.key", _pem(authority))
    server = ec.generate_private_key(ec.SECP384R1())
    _certificate(folder / "server.pem", _server(server, certificate, authority, hosts, days))
    _secret(folder / "server.key", _pem(server))
    made = {
        folder / "ca.crt": "the authority: give it to everyone",
        folder / "ca.key": "the authority's secret: keep it off the network",
        folder / "server.pem": f"the server's certificate, for {', '.join(dict.fromkeys(hosts))}",
        folder / "server.key": "the server's secret",
    }
    for name in names:
        key = ec.generate_private_key(ec.SECP384R1())
        _secret(folder / name, key.private_bytes(ENCODING.PEM, serialization.PrivateFormat.OpenSSH, _no_encryption()))
        (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(ENCODING.OpenSSH, PUBLIC.OpenSSH) + b"\n")
        made[folder / name] = f"{name}'s secret: for its machine alone"
        made[folder / f"{name}.pub"] = "its public half: for the server"
    return made


def _authority(key: ec.EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Potluck trial authority")])
    usage = dict.fromkeys(_USES, False) | {"key_cert_sign": True, "crl_sign": True}
    return (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def _server(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    days: int,
) -> x509.Certificate:
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


def _certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(ENCODING.PEM))


def _secret(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def sealing(path: str | None) -> Seal | None:
    """Signs checksums with a node's or a server's private key; None where there is no key."""
    if path is None:
        return None
    key = _private_key(path)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return lambda checksum: base64.b64encode(key.sign(checksum, ec.ECDSA(hashes.SHA256()))).decode()
    if isinstance(key, rsa.RSAPrivateKey):
        return lambda checksum: base64.b64encode(key.sign(checksum, padding.PKCS1v15(), hashes.SHA256())).decode()
    raise SettingsError(f"{path} is no key that can sign; `potluck keys` makes one.")


def check_seal(path: str, checksum: str, seal: str) -> bool:
    """Whether the owner of a public key, or of a certificate, signed a checksum."""
    key = _public_key(path)
    try:
        signed, of = base64.b64decode(seal), bytes.fromhex(checksum)
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signed, of, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signed, of, padding.PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(path: str) -> str:
    """The SHA-256 of the public half of a key, by which people compare keys."""
    return fingerprint_of(_private_key(path).public_key())


def fingerprint_of(key: Any) -> str:
    """The SHA-256 of a public key, itself or as PEM."""
    public = serialization.load_pem_public_key(key) if isinstance(key, bytes) else key
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _private_key(path: str) -> Any:
    data = Path(path).read_bytes()
    load = serialization.load_ssh_private_key if b"OPENSSH" in data else serialization.load_pem_private_key
    try:
        return load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SettingsError(
            f"{path} is no private key without a password: {error}. `potluck keys` makes one."
        ) from error


def _public_key(path: str) -> Any:
    data = Path(path).read_bytes()
    try:
        if b"CERTIFICATE" in data:
            key: Any = x509.load_pem_x509_certificate(data).public_key()
        else:
            key = serialization.load_ssh_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path} is no public key: {error}. `potluck keys` makes one.") from error
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise SettingsError(f"{path} is no public key that can check a signature; `potluck keys` makes one.")
    return key
