"""Certificates for tests of TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(directory: Path, address: str) -> tuple[Path, Path]:
    """A key and its certificate for an IP address, which is its own authority; PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - hour)
        .not_valid_after(now + hour)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = directory / "key.pem", directory / "certificate.pem"
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[0].write_bytes(key.private_bytes(pem, form, none))
    paths[1].write_bytes(certificate.public_bytes(pem))
    return paths
