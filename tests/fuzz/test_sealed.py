"""Sealed campaigns: authenticated before anything is unpacked, and only plain files below their folder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pyrage
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_fuzz.campaign.sealed import PROOF_SIZE, SealError, open_sealed, read_identity, read_recipients, seal_folder
from kafkaproof.commands.fuzz import fuzz
from kafkaproof.commands.fuzz.seal import IDENTITY_VARIABLE, RECIPIENT_VARIABLE

IDENTITY = pyrage.x25519.Identity.generate()
OTHER = pyrage.x25519.Identity.generate()
FILES = {"log.ndjson": b'{"target":"secret-codec"}\n', "finds/0123/input.bin": bytes(range(256)) * 700, "empty": b""}


def campaign(root: Path) -> Path:
    """A folder with `FILES`."""
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def content(root: Path) -> dict[str, bytes]:
    """All files below *root*."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed campaign with the proof of `IDENTITY`."""
    folder = tmp_path_factory.mktemp("sealed")
    seal_folder(campaign(folder / "campaign"), folder / "file", [IDENTITY.to_public()], IDENTITY)
    return folder / "file"


def refused(data: bytes, folder: Path, *, own: bool = True) -> str:
    """Why *data* is refused; nothing of it is left below *folder*."""
    folder.mkdir(exist_ok=True)
    (folder / "file").write_bytes(data)
    with pytest.raises(SealError) as caught:
        open_sealed(folder / "file", folder / "out", IDENTITY, own=own)
    assert [path.name for path in folder.iterdir()] == ["file"]
    return str(caught.value)


def sealed_archive(*members: tarfile.TarInfo, data: bytes = b"x", raw: bytes | None = None) -> bytes:
    """An archive of *members*, sealed by someone who has only the public key."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data) if member.isreg() else None)
    plain = (out.getvalue() if raw is None else raw) + bytes(PROOF_SIZE)
    return bytes(pyrage.encrypt(plain, [IDENTITY.to_public()]))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """An entry of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_a_campaign_comes_back(sealed: Path, tmp_path: Path) -> None:
    """The folder is equal after it was opened, and nothing of it is readable in the file."""
    assert open_sealed(sealed, tmp_path / "back", IDENTITY, own=True) == len(FILES)
    assert content(tmp_path / "back") == FILES
    assert b"secret-codec" not in sealed.read_bytes()
    assert b"log.ndjson" not in sealed.read_bytes()


def test_another_identity_opens_nothing(sealed: Path, tmp_path: Path) -> None:
    """A file is for its recipients only."""
    with pytest.raises(SealError, match="not for this identity"):
        open_sealed(sealed, tmp_path / "back", OTHER)
    assert not (tmp_path / "back").exists()


def test_every_region_is_authenticated(sealed: Path, tmp_path: Path) -> None:
    """One flipped bit anywhere in header, key, MAC, nonce, chunks or tags is refused, and nothing is unpacked."""
    data = sealed.read_bytes()
    header = data.index(b"\n", data.index(b"\n---")) + 1
    # Every byte of the header, of the nonce and the start of the first chunk; then regions up to the last tag.
    places = [*range(header + 64), *range(header + 64, len(data), 4999), *range(len(data) - 40, len(data))]
    assert len(places) > 250
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        assert refused(bytes(changed), tmp_path / "one").startswith("refused")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_other_bytes_are_opened(sealed: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A file that was cut off, extended, or changed in any way is refused."""
    given_ = sealed.read_bytes()
    start = data.draw(st.integers(0, len(given_)))
    removed = data.draw(st.integers(0, len(given_) - start))
    changed = given_[:start] + data.draw(st.binary(max_size=100)) + given_[start + removed :]
    if changed != given_:
        assert refused(changed, tmp_path_factory.mktemp("changed")).startswith("refused")


def test_a_stranger_with_the_public_key(tmp_path: Path) -> None:
    """A file sealed without the identity opens for a reader, and not with `own`, which the nightly uses."""
    public = read_recipients([str(IDENTITY.to_public())])
    seal_folder(campaign(tmp_path / "campaign"), tmp_path / "file", public)
    assert open_sealed(tmp_path / "file", tmp_path / "back", IDENTITY) == len(FILES)
    data = (tmp_path / "file").read_bytes()
    assert "not sealed by the holder" in refused(data, tmp_path / "own")
    seal_folder(tmp_path / "campaign", tmp_path / "file", public, OTHER)
    assert "not sealed by the holder" in refused((tmp_path / "file").read_bytes(), tmp_path / "own")


@pytest.mark.parametrize(
    "members",
    [
        [member("/etc/planted")],
        [member("../planted")],
        [member("a/../../planted")],
        [member("a\\..\\planted")],
        [member("link", tarfile.SYMTYPE, "/etc"), member("link/planted")],
        [member("hard", tarfile.LNKTYPE, "/etc/hostname")],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("device", tarfile.CHRTYPE)],
        [member("twice"), member("twice")],
        [member("a"), member("a/b")],
        [member("x" * 2000)],
    ],
    ids=lambda members: members[0].name[:20],
)
def test_archives_that_leave_their_folder(members: list[tarfile.TarInfo], tmp_path: Path) -> None:
    """A correctly sealed archive with a link, a device or a name outside of the folder is refused as a whole."""
    assert refused(sealed_archive(member("first"), *members), tmp_path / "in", own=False).startswith("refused")
    assert not (tmp_path / "planted").exists()
    assert not (tmp_path / "in" / "planted").exists()


def test_what_is_no_archive(tmp_path: Path) -> None:
    """Sealed garbage, and less than a proof, are refused."""
    assert "malformed" in refused(sealed_archive(raw=b"garbage" * 999), tmp_path / "one", own=False)
    short = bytes(pyrage.encrypt(b"x", [IDENTITY.to_public()]))
    assert "no proof" in refused(short, tmp_path / "two", own=False)


def test_links_are_left_out(tmp_path: Path) -> None:
    """A link in a campaign is not followed; a campaign that is one is refused."""
    folder = campaign(tmp_path / "campaign")
    (tmp_path / "outside").write_bytes(b"private")
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    made = seal_folder(folder, tmp_path / "file", [IDENTITY.to_public()], IDENTITY)
    assert (made.files, made.left_out) == (len(FILES), 2)
    open_sealed(tmp_path / "file", tmp_path / "back", IDENTITY, own=True)
    assert content(tmp_path / "back") == FILES
    (tmp_path / "itself").symlink_to(folder)
    with pytest.raises(SealError, match="no such campaign"):
        seal_folder(tmp_path / "itself", tmp_path / "file", [IDENTITY.to_public()])


def test_a_campaign_is_not_replaced(sealed: Path, tmp_path: Path) -> None:
    """A folder that holds anything stays as it is."""
    campaign(tmp_path / "there")
    with pytest.raises(SealError, match="not empty"):
        open_sealed(sealed, tmp_path / "there", IDENTITY)
    assert content(tmp_path / "there") == FILES


def run(*arguments: object, **variables: str) -> Result:
    """`kafkaproof fuzz` with these."""
    environment = {IDENTITY_VARIABLE: None, RECIPIENT_VARIABLE: None} | variables
    return CliRunner().invoke(fuzz, [str(each) for each in arguments], env=environment)


def test_commands(tmp_path: Path) -> None:
    """`seal` and `open` take keys from files, options and variables, as age writes them."""
    folder, key = campaign(tmp_path / "campaign"), tmp_path / "key"
    key.write_text(f"# created: today\n# public key: {IDENTITY.to_public()}\n{IDENTITY}\n")
    options = ("seal", "--dir", folder, "--out", tmp_path / "file")
    assert run(*options).exit_code == 2
    for given_, variables in (
        (("--identity", key), {}),
        (("--recipient", IDENTITY.to_public()), {}),
        ((), {IDENTITY_VARIABLE: str(IDENTITY)}),
        ((), {RECIPIENT_VARIABLE: f"{IDENTITY.to_public()} {OTHER.to_public()}"}),
    ):
        done = run(*options, *given_, **variables)
        assert done.exit_code == 0, done.output
        back = tmp_path / "back" / str(len(list(tmp_path.glob("back/*"))))
        back.parent.mkdir(exist_ok=True)
        done = run("open", tmp_path / "file", "--dir", back, "--identity", key)
        assert done.output == "3 files opened\n", done.output
        assert content(back) == FILES
    done = run("open", tmp_path / "file", "--dir", tmp_path / "new", "--own", **{IDENTITY_VARIABLE: str(OTHER)})
    assert done.exit_code == 3
    assert "not sealed by the holder" in done.output
    assert run("seal", "--dir", folder, "--counts", "--out", tmp_path / "file").exit_code == 2


@pytest.mark.parametrize("text", ["", "AGE-SECRET-KEY-1NONSENSE", f"{IDENTITY}\n{OTHER}", "age1nonsense"])
def test_bad_keys(text: str, tmp_path: Path) -> None:
    """A key that is none is refused without being printed."""
    with pytest.raises(SealError) as caught:
        read_identity(text)
    with pytest.raises(SealError):
        read_recipients([text])
    assert str(OTHER) not in str(caught.value)


def test_a_malformed_finding_is_not_quoted(tmp_path: Path) -> None:
    """A finding that cannot be read ends `seal` with the kind of the error, and none of its bytes."""
    folder = campaign(tmp_path / "campaign")
    (folder / "triage").mkdir()
    (folder / "triage" / "finds.ndjson").write_bytes(b'{"secret-function": \xff}')
    done = run("seal", "--dir", folder, "--counts")
    assert done.exit_code == 3, done.output
    assert "secret" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
