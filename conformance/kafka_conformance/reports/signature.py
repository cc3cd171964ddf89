"""Signatures of certificates: OpenSSH's format, Ed25519 keys, made and checked by `ssh-keygen` without a network.

    certificate.json        every byte of it is signed
    certificate.json.sig    the signature, as `ssh-keygen -Y sign -n kafkaproof-certificate` writes it
    signers                 the keys that count, in OpenSSH's format "allowed signers":

        release@example.org namespaces="kafkaproof-certificate",valid-before="20280101" ssh-ed25519 AAAA…

A signature names its key, its purpose (the namespace) and its algorithms.  These are read here first, so that a
refusal has a reason, and nothing but Ed25519 and this namespace counts.  `ssh-keygen` then decides with a list of the
one entry that fits.  Dates are in UTC.
"""

from __future__ import annotations

import binascii
import os
import re
import shutil
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from kafka_conformance.sanitize import printable, tail
from kafka_conformance.testees.connection import CannotRun

NAMESPACE: Final = "kafkaproof-certificate"
SUFFIX: Final = ".sig"
PROGRAM: Final = "ssh-keygen"
# Keys in files, and keys in security tokens.
KEY_TYPES: Final = ("ssh-ed25519", "sk-ssh-ed25519@openssh.com")
HASHES: Final = ("sha256", "sha512")
MAX_SIGNATURE: Final = 16 * 1024
MAX_SIGNERS: Final = 1024 * 1024
SECONDS: Final = 60
_ARMOR: Final = re.compile(rb"\s*-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END SSH SIGNATURE-----\s*")
_MAGIC: Final = b"SSHSIG"
_SIGNER: Final = re.compile(
    r"(?P<names>[^\s\"]+)\s+"
    r"(?:(?P<options>[A-Za-z-]+(?:=\"[^\"]*\")?(?:,[A-Za-z-]+(?:=\"[^\"]*\")?)*)\s+)??"
    r"(?P<type>(?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+)\s+(?P<key>[A-Za-z0-9+/]+=*)(?:\s.*)?"
)
_OPTION: Final = re.compile(r"([A-Za-z-]+)(?:=\"([^\"]*)\")?(?:,|$)")
_TIME: Final = re.compile(r"\d{8}(?:\d{4}(?:\d{2})?)?")


class BadSignature(ValueError):
    """The signature does not count; the text says why, on one line."""


class BadSigners(ValueError):
    """The list of signers cannot be used; the text has the path and the line."""


class SigningError(ValueError):
    """The key cannot be used to sign; the text says why, on one line."""


@dataclass(frozen=True, slots=True)
class SignatureFields:
    """The fields of a signature that say by which key, and for which purpose, it was made."""

    key: bytes
    key_type: str
    namespace: str

    @property
    def fingerprint(self) -> str:
        """The key's fingerprint, as `ssh-keygen -l` prints it."""
        return key_fingerprint(self.key)


@dataclass(frozen=True, slots=True)
class SignerEntry:
    """One line of a list of signers.

    Attributes:
        name: the first name of the line.
        key_type: the algorithm of the key.
        key: the public key in OpenSSH's binary form.
        namespaces: the purposes that the key counts for; None for all.
        after: the key does not count before this time.
        before: the key does not count from this time on.
        line: the number of the line.
    """

    name: str
    key_type: str
    key: bytes
    namespaces: tuple[str, ...] | None = None
    after: datetime | None = None
    before: datetime | None = None
    line: int = 0

    def refusal(self, now: datetime) -> str:
        """Why a signature by this key does not count at the time *now*; empty if it does."""
        if self.namespaces is not None and NAMESPACE not in self.namespaces:
            return f"the key of {self.name} is not for {NAMESPACE}, but for {', '.join(self.namespaces) or 'nothing'}"
        if self.after is not None and now < self.after:
            return f"the key of {self.name} is not valid before {_shown(self.after)}"
        if self.before is not None and now >= self.before:
            return f"the key of {self.name} expired on {_shown(self.before)}"
        return ""

    def text(self) -> str:
        """The entry as the only line of a list."""
        return f'{self.name} namespaces="{NAMESPACE}" {self.key_type} {b64encode(self.key).decode()}\n'


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d" if time.time() == datetime.min.time() else "%Y-%m-%d %H:%M:%S UTC")


def key_fingerprint(key: bytes) -> str:
    """The fingerprint of a public key."""
    return f"SHA256:{b64encode(sha256(key).digest()).decode().rstrip('=')}"


def signature_file(certificate: Path) -> Path:
    """Where the signature of *certificate* is."""
    return certificate.with_name(certificate.name + SUFFIX)


def signature_fields(signature: bytes) -> SignatureFields:
    """The fields of *signature*, in armor.

    Raises:
        BadSignature: it is none, or not one that counts for a certificate: another algorithm or namespace.
    """
    match = _ARMOR.fullmatch(signature)
    try:
        data = b64decode(b"".join(match[1].split()), validate=True) if match else b""
    except binascii.Error:
        data = b""
    if not data.startswith(_MAGIC + b"\0\0\0\1"):
        raise BadSignature("it is no OpenSSH signature")
    strings = _strings(data[len(_MAGIC) + 4 :])
    if strings is None or len(strings) != 5:
        raise BadSignature("it is cut, or no OpenSSH signature")
    key, namespace, _reserved, hashed, signed = strings
    key_type, algorithm = _first_string(key), _first_string(signed)
    if key_type not in KEY_TYPES:
        raise BadSignature(f"its key is {_quoted(key_type)}; only Ed25519 keys count ({', '.join(KEY_TYPES)})")
    if algorithm != key_type or hashed.decode("latin-1") not in HASHES:
        used = f"{_quoted(algorithm)} and {_quoted(hashed.decode('latin-1'))}"
        raise BadSignature(f"its algorithms {used} are not those of an Ed25519 key")
    purpose = namespace.decode("utf-8", "backslashreplace")
    if purpose != NAMESPACE:
        raise BadSignature(f"it was made for the purpose {_quoted(purpose)}, not for {NAMESPACE}")
    return SignatureFields(key, key_type, purpose)


def _quoted(text: str) -> str:
    return repr(printable(text, 60))


def _strings(data: bytes) -> list[bytes] | None:
    """The strings that *data* consists of, each after its length; None if the lengths do not fit."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            return None
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def _first_string(data: bytes) -> str:
    size = int.from_bytes(data[:4], "big")
    return data[4 : 4 + size].decode("latin-1") if len(data) >= 4 + size else ""


def parse_signers(text: bytes, place: str) -> tuple[SignerEntry, ...]:
    """The entries with Ed25519 keys of a list of signers; *place* is its path.

    Raises:
        BadSigners: a line is no entry, has a pattern in place of a name, or an option that is not supported.
    """
    return tuple(_entries(text, place))


def _entries(text: bytes, place: str) -> Iterator[SignerEntry]:
    for number, raw in enumerate(text.splitlines(), 1):
        where = f"{place}:{number}"
        line = raw.decode("utf-8", "backslashreplace").strip()
        if not line or line.startswith("#"):
            continue
        match = _SIGNER.fullmatch(line)
        if match is None:
            raise BadSigners(f"{where}: it is no entry NAME [OPTIONS] KEYTYPE KEY: {printable(line, 80)}")
        if re.search(r"[*?!]", match["names"]) or not match["names"].isprintable():
            raise BadSigners(f"{where}: {printable(match['names'], 80)} is a pattern; a signer has a name")
        options = _options(match["options"] or "", where)
        key = _public_key(match["key"], match["type"], where)
        if match["type"] in KEY_TYPES:
            yield SignerEntry(
                name=match["names"].split(",")[0],
                key_type=match["type"],
                key=key,
                namespaces=tuple(options["namespaces"].split(",")) if "namespaces" in options else None,
                after=_time(options.get("valid-after"), where),
                before=_time(options.get("valid-before"), where),
                line=number,
            )


def _public_key(text: str, key_type: str, where: str) -> bytes:
    try:
        key = b64decode(text, validate=True)
    except binascii.Error:
        key = b""
    if _first_string(key) != key_type:
        raise BadSigners(f"{where}: it has no key of type {printable(key_type, 60)}")
    return key


def _options(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _OPTION.findall(text):
        if name.lower() not in ("namespaces", "valid-after", "valid-before"):
            raise BadSigners(f"{where}: the option {name} is not supported")
        if name.lower() in found:
            raise BadSigners(f"{where}: the option {name} is there twice")
        found[name.lower()] = value
    return found


def _time(text: str | None, where: str) -> datetime | None:
    if text is None:
        return None
    digits = text.removesuffix("Z")
    try:
        if _TIME.fullmatch(digits):
            return datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        pass  # the same error
    raise BadSigners(f"{where}: {printable(text, 40)!r} is no date YYYYMMDD or time YYYYMMDDHHMM[SS]")


def check_signature(data: bytes, signature: bytes, signers: Sequence[SignerEntry], now: datetime) -> SignerEntry:
    """The entry of *signers* whose key signed exactly *data*.

    Raises:
        BadSignature: it was not signed by a key that counts at the time *now*.
        CannotRun: `ssh-keygen` is not here.
    """
    fields = signature_fields(signature)
    same = [entry for entry in signers if entry.key == fields.key]
    if not same:
        raise BadSignature(f"its key {fields.fingerprint} is not in the list of signers")
    refusals = [entry.refusal(now) for entry in same]
    if all(refusals):
        raise BadSignature(refusals[-1])
    signer = same[refusals.index("")]
    with tempfile.TemporaryDirectory(prefix="kafkaproof-signature-") as folder:
        listed, detached = Path(folder, "signers"), Path(folder, "signature")
        listed.write_text(signer.text(), encoding="utf-8")
        detached.write_bytes(signature)
        done = _run("-Y", "verify", "-n", NAMESPACE, "-I", signer.name, "-f", listed, "-s", detached, given=data)
    if done.returncode:
        raise BadSignature(f"the signature by {signer.name} is not of these bytes ({tail(done.stderr, 120)})")
    return signer


def sign_bytes(data: bytes, key: Path) -> bytes:
    """The signature of *data* with the private key in *key*; for a public key, with the agent that has the private one.

    Raises:
        SigningError: the key cannot be used, or is no Ed25519 key.
        CannotRun: `ssh-keygen` is not here.
    """
    done = _run("-Y", "sign", "-n", NAMESPACE, "-f", key, given=data, seconds=None)
    if done.returncode:
        raise SigningError(f"{key}: {PROGRAM} does not sign with it: {tail(done.stderr, 200)}")
    try:
        signature_fields(done.stdout)
    except BadSignature as error:
        raise SigningError(f"{key}: a signature by it would not count: {error}") from error
    return done.stdout


def _run(*words: str | Path, given: bytes, seconds: float | None = SECONDS) -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen` with *words*; *given* is its standard input."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise CannotRun(f"{PROGRAM} is not on the path", "install OpenSSH 8.2 or newer (package openssh-client)")
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    try:
        return subprocess.run(
            [program, *map(str, words)], input=given, capture_output=True, env=environment, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{PROGRAM} does not end: {printable(str(error))}") from error
