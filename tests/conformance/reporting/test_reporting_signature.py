"""Signatures of certificates: exact bytes, listed Ed25519 keys, one purpose, and every way around them refused."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_conformance.reports import certificate, signature
from kafka_conformance.reports.signature import NAMESPACE, BadSignature, BadSigners, SigningError
from kafka_conformance.runner import results
from kafkaproof.cli import kafkaproof

DATA = b'{"format": "kafkaproof-certificate"}\n'
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
NAME = "release@example.org"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Private keys by name; each has its public key beside it."""
    folder = tmp_path_factory.mktemp("keys")
    kinds = {"good": "ed25519", "other": "ed25519", "rsa": "rsa", "ecdsa": "ecdsa"}
    for name, kind in kinds.items():
        command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True, capture_output=True)
    return {name: folder / name for name in kinds}


def public(key: Path) -> str:
    """Type and public key, as in a list of signers."""
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def entry(key: Path, options: str = f'namespaces="{NAMESPACE}" ', name: str = NAME) -> str:
    """A line of a list of signers."""
    return f"{name} {options}{public(key)}\n"


def ssh_signature(key: Path, namespace: str = NAMESPACE, data: bytes = DATA) -> bytes:
    """The signature that OpenSSH makes."""
    command = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(key)]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def blob(armored: bytes) -> bytes:
    """The bytes in an armor."""
    return b64decode(b"".join(armored.splitlines()[1:-1]))


def armored(data: bytes) -> bytes:
    """*data* in the armor of a signature."""
    rows = "\n".join(wrap(b64encode(data).decode(), 70))
    return f"-----BEGIN SSH SIGNATURE-----\n{rows}\n-----END SSH SIGNATURE-----\n".encode()


def check(data: bytes, made: bytes, listed: str, now: datetime = NOW) -> signature.SignerEntry:
    """Check with a list of signers given as text."""
    return signature.check_signature(data, made, signature.parse_signers(listed.encode(), "signers"), now)


@pytest.mark.slow
def test_a_listed_key_signs_exact_bytes(keys: dict[str, Path]) -> None:
    """A signature of ours counts, and OpenSSH itself accepts it with the same list."""
    made = signature.sign_bytes(DATA, keys["good"])
    assert check(DATA, made, entry(keys["good"])).name == NAME

    folder = keys["good"].parent
    (folder / "made.sig").write_bytes(made)
    (folder / "listed").write_text(entry(keys["good"]))
    command = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", NAME, "-f", "listed", "-s", "made.sig"]
    assert subprocess.run(command, cwd=folder, input=DATA, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "data",
    [DATA[:-1], DATA[: len(DATA) // 2], b"", DATA + b"\n", DATA.replace(b"{", b"[", 1), DATA.replace(b"\n", b"\r\n")],
    ids=["without the last byte", "half", "empty", "longer", "changed", "other line ends"],
)
def test_other_bytes_are_refused(data: bytes, keys: dict[str, Path]) -> None:
    """A certificate that was cut, changed or swapped has no signature that counts."""
    made = ssh_signature(keys["good"])
    with pytest.raises(BadSignature, match=f"by {NAME} is not of these bytes"):
        check(data, made, entry(keys["good"]))


def test_the_key_has_to_be_listed(keys: dict[str, Path]) -> None:
    """The key decides, and no name: another key in the list under the same name does not help."""
    made = ssh_signature(keys["other"])
    with pytest.raises(BadSignature, match=r"its key SHA256:\S+ is not in the list"):
        check(DATA, made, entry(keys["good"]))
    assert check(DATA, made, entry(keys["good"]) + entry(keys["other"], name="second")).name == "second"


@pytest.mark.parametrize("namespace", ["git", "file", "kafkaproof-certificate2", "KAFKAPROOF-CERTIFICATE"])
def test_another_purpose_is_refused(namespace: str, keys: dict[str, Path]) -> None:
    """A signature of the same bytes and key for another purpose, such as a commit's, does not count."""
    with pytest.raises(BadSignature, match="it was made for the purpose"):
        check(DATA, ssh_signature(keys["good"], namespace), entry(keys["good"], ""))


def test_a_purpose_cannot_be_relabelled(keys: dict[str, Path]) -> None:
    """A namespace that is replaced in the signature is not the one that was signed."""
    other = "x" * len(NAMESPACE)
    made = armored(blob(ssh_signature(keys["good"], other)).replace(other.encode(), NAMESPACE.encode()))
    with pytest.raises(BadSignature, match="not of these bytes"):
        check(DATA, made, entry(keys["good"]))


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_algorithms_are_refused(kind: str, keys: dict[str, Path]) -> None:
    """Keys of other types neither count nor sign, even if they are listed."""
    with pytest.raises(BadSignature, match="only Ed25519 keys count"):
        check(DATA, ssh_signature(keys[kind]), entry(keys[kind]))
    with pytest.raises(SigningError, match="only Ed25519 keys count"):
        signature.sign_bytes(DATA, keys[kind])


def test_algorithms_cannot_be_confused(keys: dict[str, Path]) -> None:
    """An RSA signature below an Ed25519 key, or another hash, is refused before any key is looked up."""
    good = blob(ssh_signature(keys["good"]))
    for old, new in ((b"sha512", b"sha1\0\0"), (b"sha512", b"sha384"), (b"sha512", b"none\0\0")):
        with pytest.raises(BadSignature, match="are not those of an Ed25519 key"):
            check(DATA, armored(good.replace(old, new)), entry(keys["good"]))
    at = good.rindex(b"ssh-ed25519")
    with pytest.raises(BadSignature, match="are not those of an Ed25519 key"):
        check(DATA, armored(good[:at] + b"rsa-sha2512" + good[at + 11 :]), entry(keys["good"]))
    grafted = good[: good.index(b"\0\0\0\x33")] + blob(ssh_signature(keys["rsa"]))[10:]
    with pytest.raises(BadSignature, match="only Ed25519 keys count"):
        check(DATA, armored(grafted), entry(keys["good"]))


DATES = {
    "expired": ('valid-before="20261101" ', "expired on 2026-11-01"),
    "expired at noon": ('valid-before="20261125120000" ', "expired on 2026-11-25 12:00:00 UTC"),
    "not yet valid": ('valid-after="20261201Z" ', "not valid before 2026-12-01"),
    "for something else": ('namespaces="git,file" ', "is not for kafkaproof-certificate, but for git, file"),
    "for nothing": ('namespaces="" ', "is not for kafkaproof-certificate, but for nothing"),
}


@pytest.mark.parametrize("options", DATES)
def test_limits_of_an_entry_hold(options: str, keys: dict[str, Path]) -> None:
    """An entry counts for its purposes and between its dates; a second entry of the key may renew it."""
    given, why = DATES[options]
    made = ssh_signature(keys["good"])
    with pytest.raises(BadSignature, match=why):
        check(DATA, made, entry(keys["good"], given))
    assert check(DATA, made, entry(keys["good"], given) + entry(keys["good"], name="renewed")).name == "renewed"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("*", "is a pattern; a signer has a name"),
        ("good,!bad@example.org", "is a pattern"),
        ("good cert-authority", "the option cert-authority is not supported"),
        ('good verify-required,namespaces="x"', "the option verify-required is not supported"),
        ('good namespaces="a",namespaces="b"', "is there twice"),
        ('good valid-before="soon"', "'soon' is no date"),
        ('good valid-before="20261399"', "is no date"),
        ('good namespaces="unclosed', "it is no entry"),
    ],
)
def test_lists_with_more_than_names_are_refused(line: str, why: str, keys: dict[str, Path]) -> None:
    """Patterns, authorities and what is no entry end with the line; comments and empty lines do not."""
    with pytest.raises(BadSigners, match="signers:3: ") as error:
        signature.parse_signers(f"# ours\n\n{line} {public(keys['good'])}\n".encode(), "signers")
    assert why in str(error.value)


def test_a_list_may_hold_other_keys(keys: dict[str, Path]) -> None:
    """Entries with RSA keys, as for signed commits, are left out; a type that is not the key's is an error."""
    found = signature.parse_signers((entry(keys["rsa"]) + entry(keys["good"], "")).encode(), "signers")
    assert [(each.name, each.line, each.namespaces) for each in found] == [(NAME, 2, None)]
    kind, key = public(keys["rsa"]).split()
    with pytest.raises(BadSigners, match=r"signers:1: it has no key of type ssh-ed25519"):
        signature.parse_signers(f"x {kind.replace('rsa', 'ed25519')} {key}\n".encode(), "signers")


@given(st.binary(max_size=200))
def test_no_bytes_end_with_a_traceback(data: bytes) -> None:
    """Any bytes, in armor or not, are a signature or refused; so are lists of signers."""
    for made in (data, armored(data), armored(b"SSHSIG\0\0\0\1" + data)):
        with pytest.raises(BadSignature):
            signature.signature_fields(made)
    try:
        listed = signature.parse_signers(data, "signers")
    except BadSigners:
        return
    assert all(entry.key_type in signature.KEY_TYPES for entry in listed)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_bit_counts(data: st.DataObject, keys: dict[str, Path]) -> None:
    """A signature with one other bit is refused."""
    good = blob(ssh_signature(keys["good"]))
    at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    changed = good[:at] + bytes((good[at] ^ 1 << bit,)) + good[at + 1 :]
    with pytest.raises(BadSignature):
        check(DATA, armored(changed), entry(keys["good"]))


# ---- the command ----


def report(*arguments: object) -> Result:
    """Run `kafkaproof report`."""
    return CliRunner().invoke(kafkaproof, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def dated(whole: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of a run on 2026-11-20, and its result."""
    done = results.read_results(whole("codec", "1.2"))
    settings_of_run = {"origin": "ci", "date": "2026-11-20"}
    dated_results = replace(done, header=results.ResultHeader(**{**_fields(done.header), "settings": settings_of_run}))
    folder = tmp_path_factory.mktemp("dated")
    (folder / results.FILE).write_bytes(results.encode_results(dated_results))
    made = report(folder / results.FILE, "--out", folder / "out")
    assert made.exit_code == 0, made.output
    return folder / "out" / "codec"


def _fields(header: results.ResultHeader) -> dict[str, Any]:
    return {name: getattr(header, name) for name in header.__struct_fields__}


@pytest.fixture
def issued(dated: Path, tmp_path: Path) -> Path:
    """The certificate, with its result beside it, to be tampered with."""
    for name in (certificate.FILE, results.FILE):
        (tmp_path / name).write_bytes((dated / name).read_bytes())
    return tmp_path / certificate.FILE


@pytest.mark.slow
def test_the_statement_is_the_first_word(issued: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    """Consistent without signers; authentic with them; not more than was checked in either."""
    signers = tmp_path / "signers"
    signers.write_text(entry(keys["good"]))
    done = report("--verify", issued, "--now", "2026-11-25", "--sign", keys["good"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("consistent: codec 1.2, certified for ")
    assert "authentic   not checked" in done.stdout

    done = report("--verify", issued, "--signers", signers, "--now", "2026-11-25")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("authentic: codec 1.2, certified for ")
    assert f"yes: signed by {NAME}, SHA256:" in done.stdout
    assert "re-run      not checked" in done.stdout
    assert "origin      re-run by CI, by its own account" in done.stdout

    done = report("--verify", issued, "--signers", signers, "--now", "2026-11-25", "--json")
    document = json.loads(done.stdout)
    assert (document["statement"], document["holds"]) == ("authentic", True)
    assert document["checked"] == {"consistent": True, "authentic": True, "re-run": None}
    assert document["signer"]["name"] == NAME


@pytest.mark.slow
def test_a_wrong_signature_is_one_line(issued: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    """Without a signature, with that of another file and after a change the first line says why: exit code 1."""
    signers, beside = tmp_path / "signers", signature.signature_file(issued)
    signers.write_text(entry(keys["good"]))
    verify = ("--verify", issued, "--signers", signers, "--now", "2026-11-25")
    done = report(*verify)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"not authentic: there is no signature {beside.name} beside it\n")

    beside.write_bytes(ssh_signature(keys["good"]))
    done = report(*verify)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"not authentic: {beside.name}: the signature by {NAME} is not of these bytes")
    assert json.loads(report(*verify, "--json").stdout)["checked"] == {
        "consistent": True,
        "authentic": False,
        "re-run": None,
    }

    beside.write_bytes(b"x" * (signature.MAX_SIGNATURE + 1))
    assert "has more than 16,384 bytes" in report(*verify).stdout.splitlines()[0]
    beside.unlink()
    os.mkfifo(beside)
    assert f"not authentic: {beside.name}: it is no regular file" in report(*verify).stdout.splitlines()[0]


@pytest.mark.slow
def test_spaces_do_not_hide_a_change(issued: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    """A certificate that says the same in other bytes is consistent, and not authentic."""
    signers = tmp_path / "signers"
    signers.write_text(entry(keys["good"]))
    assert report("--verify", issued, "--now", "2026-11-25", "--sign", keys["good"]).exit_code == 0
    issued.write_bytes(issued.read_bytes() + b"\n")
    done = report("--verify", issued, "--signers", signers, "--now", "2026-11-25")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "not authentic")
    assert "consistent  yes" in done.stdout


def test_nothing_false_is_signed(issued: Path, keys: dict[str, Path]) -> None:
    """A certificate that does not hold is not signed, and no signature is replaced."""
    beside = signature.signature_file(issued)
    genuine = issued.read_bytes()
    issued.write_bytes(genuine.replace(b'"1.2"', b'"1.3"'))
    done = report("--verify", issued, "--sign", keys["good"], "--now", "2026-11-25")
    assert (done.exit_code, beside.exists()) == (1, False)

    issued.write_bytes(genuine)
    beside.write_bytes(b"of somebody else")
    done = report("--verify", issued, "--sign", keys["good"], "--now", "2026-11-25")
    assert (done.exit_code, beside.read_bytes()) == (2, b"of somebody else")
    beside.unlink()
    done = report("--verify", issued, "--sign", keys["rsa"], "--now", "2026-11-25")
    assert (done.exit_code, beside.exists()) == (2, False)
    assert "only Ed25519 keys count" in done.stderr


@pytest.mark.parametrize(
    ("now", "code", "said"),
    [
        ("2026-11-20", 0, "expires 2027-11-20"),
        ("2027-11-19", 0, "expires 2027-11-20"),
        ("2027-11-20", 1, "it expired on 2027-11-20, 365 days after its run"),
        ("2026-11-19", 1, "it is of 2026-11-20, and today is 2026-11-19"),
    ],
)
def test_a_certificate_expires(now: str, code: int, said: str, issued: Path) -> None:
    """It counts for 365 days from the day of the run, and not before it."""
    done = report("--verify", issued, "--now", now)
    assert done.exit_code == code
    assert said in done.stdout


def test_a_date_follows_from_the_result(issued: Path) -> None:
    """Another date than that of the result does not hold, though the certificate's own hash fits."""
    content = json.loads(issued.read_bytes())
    content.pop("sha256")
    content["date"] = "2026-11-24"
    content["sha256"] = certificate.statement_hash(content)
    issued.write_bytes(certificate.encode_certificate(content))
    done = report("--verify", issued, "--now", "2026-11-25")
    assert done.exit_code == 1
    assert "date: it says" in done.stdout


def test_commands_of_a_certificate_are_not_run(issued: Path) -> None:
    """`--rerun` runs known releases and what --testee names, never a command that stands in the file."""
    content = json.loads(issued.read_bytes())
    marker = issued.with_name("ran")
    content["testee"]["connect"] = f"process:touch {marker}"
    issued.write_bytes(certificate.encode_certificate(content))
    done = report("--verify", issued, "--rerun", "--now", "2026-11-25")
    assert (done.exit_code, marker.exists()) == (2, False)
    assert "--testee TESTEE says what to run" in done.stderr


def test_without_openssh(issued: Path, keys: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `ssh-keygen` is not on the path, nothing is said about a signature: exit code 3."""
    signers = tmp_path / "signers"
    signers.write_text(entry(keys["good"]))
    signature.signature_file(issued).write_bytes(ssh_signature(keys["good"], data=issued.read_bytes()))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = report("--verify", issued, "--signers", signers, "--now", "2026-11-25")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "ssh-keygen is not on the path" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--signers", "{issued}"],
        ["--rerun"],
        ["--sign", "{issued}"],
        ["--testee", "reference", "--verify", "{issued}"],
        ["--verify", "{issued}", "--now", "25.11.2026"],
        ["--verify", "{issued}", "--signers", "{issued}"],
    ],
)
def test_usage(arguments: list[str], issued: Path) -> None:
    """Options without --verify, dates that are none, and lists that are none: exit code 2."""
    done = report(*(each.format(issued=issued) for each in arguments))
    assert done.exit_code == 2
    assert "Traceback" not in done.output


@pytest.mark.slow
def test_a_rerun_confirms_or_not(whole: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same profiles pass again with the reference; with a codec that swaps keys and values they do not."""
    monkeypatch.chdir(tmp_path)
    assert report(whole("reference", "0.1.0"), "--out", "out").exit_code == 0
    issued = next(Path("out").rglob(certificate.FILE))
    done = report("--verify", issued, "--rerun", "--testee", "reference")
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, "re-run"), done.output
    assert "re-run      yes: reference, with other variants" in done.stdout

    done = report("--verify", issued, "--rerun", "--testee", "planted:swaps_key_and_value")
    assert (done.exit_code, done.stdout.split(":")[0]) == (1, "not confirmed"), done.output
    assert "consumer" in done.stdout.splitlines()[0]
