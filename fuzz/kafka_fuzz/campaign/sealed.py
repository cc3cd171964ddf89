"""Sealed campaigns: a campaign's folder as one encrypted, authenticated file.

The file has the format of age (age-encryption.org/v1, X25519 recipients, ChaCha20-Poly1305), written by pyrage.  Its
content is an uncompressed tar archive and, after it, 32 bytes of proof.  Anyone who has the recipient's public key can
seal; the proof is an HMAC-SHA256 of the archive under a key derived from the identity, so only who has the identity can
make it.  It is random where the identity was not there.

Nothing is unpacked before the last byte is authenticated and every name in the archive is checked.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyrage import x25519

PROOF_SIZE: Final = 32
_PROOF_CONTEXT: Final = b"kafkaproof sealed campaign, version 1\0"
_CHUNK: Final = 1 << 20
_NAME_LENGTH: Final = 1000  # characters


class SealError(ValueError):
    """A campaign cannot be sealed, or a sealed file is refused; the text names no file of the campaign."""


class SealedFile(NamedTuple):
    """A sealed file that was written.

    Attributes:
        sha256: the digest of the encrypted file.
        files: how many files are in it.
        left_out: links, sockets and devices in the folder, which are not in it.
    """

    sha256: str
    files: int
    left_out: int


def read_identity(text: str) -> x25519.Identity:
    """The identity in *text*, the content of an age identity file: one key, and comments.  Raises `SealError`."""
    pyrage = _pyrage()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    try:
        (line,) = lines
        return pyrage.x25519.Identity.from_str(line)
    except (ValueError, pyrage.IdentityError):
        raise SealError("the identity is not one line AGE-SECRET-KEY-1…") from None


def read_recipients(texts: Iterable[str]) -> list[x25519.Recipient]:
    """The recipients with the public keys *texts* (`age1…`).  Raises `SealError`."""
    pyrage = _pyrage()
    try:
        return [pyrage.x25519.Recipient.from_str(text.strip()) for text in texts]
    except pyrage.RecipientError:
        raise SealError("a recipient is no public key age1…") from None


def seal_folder(
    folder: Path, out: Path, recipients: Sequence[x25519.Recipient], identity: x25519.Identity | None = None
) -> SealedFile:
    """Write the files below *folder* to *out*, encrypted to *recipients*; with *identity* it has that one's proof.

    *out* is replaced when the whole file is written.

    Raises:
        SealError: there is no recipient, or the folder or the disk cannot be read or written.
    """
    if not recipients:
        raise SealError("there is no recipient")
    pyrage = _pyrage()
    try:
        with _scratch(out.parent) as scratch:
            plain, sealed = scratch / "plain", scratch / "sealed"
            files, left_out = _pack(folder, plain)
            with plain.open("ab") as file:
                file.write(_proof(plain, identity) if identity is not None else secrets.token_bytes(PROOF_SIZE))
            with plain.open("rb") as source, sealed.open("wb") as target:
                pyrage.encrypt_io(source, target, list(recipients))
            with sealed.open("rb") as file:
                digest = file_digest(file, "sha256").hexdigest()
            sealed.replace(out)
    except OSError as error:
        raise SealError(f"the campaign cannot be sealed: {_reason(error)}") from None
    return SealedFile(digest, files, left_out)


def open_sealed(sealed: Path, folder: Path, identity: x25519.Identity, *, own: bool = False) -> int:
    """Unpack *sealed* as the new *folder*, and return the number of files.

    Args:
        sealed: a file that `seal_folder` wrote.
        folder: it must not exist, or be empty.
        identity: of one of the recipients.
        own: refuse what was sealed without this identity.

    Raises:
        SealError: the file is not for this identity, or was altered or cut off; without this identity's proof and
            *own*; an archive with more than plain files and folders below it; or the disk gave an error.
    """
    pyrage = _pyrage()
    try:
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise SealError("the folder to unpack into is there and not empty")
        with _scratch(folder.parent) as scratch:
            plain, unpacked = scratch / "plain", scratch / "unpacked"
            with sealed.open("rb") as source, plain.open("wb") as target:
                _decrypt(pyrage, source, target, identity)
            _check_proof(plain, identity, own=own)
            count = _unpack(plain, unpacked)
            unpacked.replace(folder)  # an empty folder gives way
            return count
    except OSError as error:
        raise SealError(f"the campaign cannot be opened: {_reason(error)}") from None


def _pyrage() -> Any:
    try:
        import pyrage
    except ImportError:
        raise SealError("pyrage is not installed: pip install 'kafkaproof[seal]'") from None
    return pyrage


def _reason(error: OSError) -> str:
    # Without the path: it names targets.
    return os.strerror(error.errno) if error.errno else "input or output failed"


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder beside the result, on the same file system, that only this user can read."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".sealed-") as name:
        yield Path(name)


def _decrypt(pyrage: Any, source: IO[bytes], target: IO[bytes], identity: x25519.Identity) -> None:
    """Decrypt all of *source*.  Chunks go to *target* before the last one is authenticated."""
    try:
        pyrage.decrypt_io(source, target, [identity])
    except (pyrage.DecryptError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise SealError("refused: it is not for this identity, or it was altered or cut off") from None


def _proof_of(file: IO[bytes], size: int, identity: x25519.Identity) -> bytes:
    key = sha256(_PROOF_CONTEXT + str(identity).encode()).digest()
    made = hmac.new(key, digestmod=sha256)
    while size and (chunk := file.read(min(size, _CHUNK))):
        made.update(chunk)
        size -= len(chunk)
    return made.digest()


def _proof(plain: Path, identity: x25519.Identity) -> bytes:
    with plain.open("rb") as file:
        return _proof_of(file, plain.stat().st_size, identity)


def _check_proof(plain: Path, identity: x25519.Identity, *, own: bool) -> None:
    """Cut the proof off *plain*; `SealError` if it is missing, or another's and *own*."""
    size = plain.stat().st_size - PROOF_SIZE
    if size < 0:
        raise SealError("refused: it has no proof")
    with plain.open("r+b") as file:
        expected = _proof_of(file, size, identity)
        if own and not hmac.compare_digest(expected, file.read(PROOF_SIZE)):
            raise SealError("refused: it was not sealed by the holder of this identity")
        file.truncate(size)


def _pack(folder: Path, plain: Path) -> tuple[int, int]:
    """Write *folder* as a tar archive; return the number of its files, and of what was left out."""
    if folder.is_symlink() or not folder.is_dir():
        raise SealError("there is no such campaign")
    files = left_out = 0
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                left_out += 1
                continue
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            if path.is_dir():
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
                continue
            with path.open("rb") as file:
                entry.size = os.fstat(file.fileno()).st_size
                archive.addfile(entry, file)
            files += 1
    return files, left_out


def _unpack(plain: Path, folder: Path) -> int:
    """Unpack the archive *plain* as *folder* after all its names were checked; return the number of files."""
    try:
        with tarfile.open(plain, "r:") as archive:
            members = archive.getmembers()
            _check_members(members)
            folder.mkdir()
            files = 0
            for member in members:
                path = folder / member.name
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                source = archive.extractfile(member)
                assert source is not None  # a plain file
                with source, path.open("xb") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
                files += 1
            return files
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise SealError("refused: its archive is malformed") from error


def _check_members(members: Sequence[tarfile.TarInfo]) -> None:
    """Refuse an archive unless it holds plain files and folders, each once, below the folder it is unpacked into."""
    seen: dict[str, bool] = {}
    for member in members:
        name = member.name
        parts = PurePosixPath(name).parts
        if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE} or member.issparse():
            raise SealError("refused: its archive holds a link, a device or a sparse file")
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise SealError("refused: its archive holds a name outside of the folder")
        if len(name) > _NAME_LENGTH or name in seen:
            raise SealError("refused: its archive holds a name twice, or one that is too long")
        seen[name] = member.isdir()
    for name in seen:
        if any(seen.get(str(parent)) is False for parent in PurePosixPath(name).parents):
            raise SealError("refused: its archive holds a file as a folder")
