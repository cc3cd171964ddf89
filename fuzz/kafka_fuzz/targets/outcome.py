"""The outcome of one input: class, severity, key, and the cost that an input may have.

The best compression explains a kilobyte of memory for each byte; a decode takes a
ten-thousandth of the time limit.

Keys have no line number, because lines move and one defect has several.  An
exception is identified by its type and by the innermost function of the target's
own package; an outcome without a function, such as accepted invalid input, by the
fault in the input.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import Final, Literal, NamedTuple, cast, get_args

import msgspec

from kafka_conformance.judge.compare import Difference
from kafka_conformance.judge.observation import Crashed, Exceeded, Garbled, Hung
from kafka_conformance.judge.verdict import Severity

MOST: Final = 100
# Parts of messages that depend on the input: quoted text, hexadecimal, numbers.
_VARIES: Final = re.compile(
    r"(?:/[\w.@+-]+){2,}|'[^']*'|\"[^\"]*\"|\b0x[0-9a-fA-F]+"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]+\b|(?<=got )[0-9a-f]+\b|(?<=expected )[0-9a-f]+\b"
    r"|(?<![A-Za-z_])-?\d[\d.,]*"
)
# Several numbers in a row count as one: timestamps have a varying number of parts.
_ROW: Final = re.compile(r"#(?:[ ,.:/-]*#)+")
# The messages with which runtimes end, up to the stack frames.
_SAID: Final = re.compile(
    r"(?:panic|fatal error): (?P<go>[^|]+)"
    r"|thread '[^']*'[^|]* panicked at (?P<where>[^|:]+)[^|]*\| (?P<rust>[^|]+)"
    r"|(?:Exception in thread \S+ )?(?P<class>[A-Za-z_][\w.$]*(?:Error|Exception))\b:? ?(?P<text>[^|]*)"
)
# An assertion of C's library names the function.
_ASSERTED: Final = re.compile(r"(?P<function>[A-Za-z_]\w*): Assertion [`'\"]")
# Frames, innermost first, as Go and Java and Node print them.
_GO_FRAME: Final = re.compile(r"\| (?P<function>[\w./\-]+(?:\.\(\*?\w+\))?\.[\w.\-]+)\(")
_AT_FRAME: Final = re.compile(r"\| +at (?:async )?(?:new )?(?P<function>[\w.$/<>]+) ?\(")
# The first word of the detail of a crash that AddressSanitizer reported.
SANITIZER: Final = "AddressSanitizer"
# What it reports, and a frame of its stacks: the function with its source, or a library without symbols.
_SANITIZER: Final = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
_ACCESS: Final = re.compile(r"\b(?P<access>READ|WRITE) (?:of size|memory access)")
_SANITIZER_FRAME: Final = re.compile(
    r"#\d+ (?P<pc>0x[0-9a-f]+) in (?P<named>(?P<function>[^\s(]+)(?: (?P<place>[^\s|]+))?)"
)
# Its own functions, which stand for those of C's library.
_OF_SANITIZER: Final = re.compile(r"__interceptor_|__(?:asan|sanitizer|lsan|ubsan)_|.*\b(?:libsanitizer|libasan)\b")
# A function as Cython names it: each part after the number of its characters, the last one after a number, or none.
_CYTHON: Final = re.compile(r"__pyx_[a-z]+_(?=\d)")
_CYTHON_PART: Final = re.compile(r"(\d+)(?=\D)")
# Functions of runtimes, which only pass a failure on.
_RUNTIME: Final = ("runtime", "panic", "goroutine", "java.", "jdk.", "sun.", "node:", "internal")


def normalized_message(text: str) -> str:
    """*text* without the parts that depend on the input.

    >>> normalized_message("index out of range [5] with length 3 in 'abc'")
    "index out of range [#] with length # in '…'"
    """
    return _ROW.sub("#", _VARIES.sub(_named, text.strip()))[:MOST]


def _named(match: re.Match[str]) -> str:
    return "'…'" if match.group()[0] in "'\"" else "#"


def ending_cause(ending: Crashed | Exceeded | Hung | Garbled) -> tuple[str, str]:
    """The cause of a process's end, and its innermost function if the runtime printed one."""
    if isinstance(ending, Hung):
        return ("deadlock" if ending.stderr else ""), ""
    if isinstance(ending, Garbled):
        return normalized_message(ending.why), ""
    if isinstance(ending, Crashed) and (reported := sanitizer_report(ending.stderr)):
        return reported[:2]
    said = _SAID.search(ending.stderr)
    if isinstance(ending, Exceeded):
        return ("" if said is None else _what(said)), _function(ending.stderr)
    if said is not None:
        return _what(said), _function(ending.stderr)
    asserted = _ASSERTED.search(ending.stderr)
    how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit_code}"
    return how, asserted["function"] if asserted else ""


class SanitizerReport(NamedTuple):
    """A report of AddressSanitizer.

    Attributes:
        detail: its error, and whether memory was read or written.
        function: the top frame of its first stack, without those of the sanitizer itself; functions that the compiler
            put into their caller count as the caller.
        sentence: both, for people.
    """

    detail: str
    function: str
    sentence: str


def sanitizer_report(stderr: str) -> SanitizerReport | None:
    """The report of AddressSanitizer in *stderr*; None if there is none.

    >>> sanitizer_report("ERROR: AddressSanitizer: SEGV on 0x1 | by a READ memory access. | #0 0xa in f /a.c:1").detail
    'AddressSanitizer SEGV READ'
    """
    found = _SANITIZER.search(stderr)
    if found is None:
        return None
    after = stderr[found.end() :]
    access = _ACCESS.search(after)
    detail = " ".join(filter(None, (SANITIZER, found["what"], access["access"] if access else "")))
    frames = [each for each in _SANITIZER_FRAME.finditer(after) if not _OF_SANITIZER.match(each["named"])]
    if not frames:
        return SanitizerReport(detail, "", f"{detail} in a function without a name")
    # Frames of functions within a caller have its place in the code.
    *_, top = takewhile(lambda frame: frame["pc"] == frames[0]["pc"], frames)
    function, place = python_name(top["function"]), (top["place"] or "").rpartition("/")[2]
    return SanitizerReport(detail, function, f"{detail} in {function}{f' at {place}' if place else ''}")


def python_name(function: str) -> str:
    """The name in Python of a function that Cython compiled; other names stay as they are.

    >>> python_name("__pyx_f_8aiokafka_6record_5cutil_decode_varint64")
    'aiokafka.record.cutil.decode_varint64'
    >>> python_name("__pyx_pw_8aiokafka_6record_5Batch_7__next__"), python_name("crc32c")
    ('aiokafka.record.Batch.__next__', 'crc32c')
    """
    start = _CYTHON.match(function)
    if start is None:
        return function
    parts, rest = [], function[start.end() :]
    while number := _CYTHON_PART.match(rest):
        end = number.end() + int(number[1])
        if not (rest[end:].startswith("_") and rest[end + 1 :]):
            rest = rest[number.end() :]
            break
        parts.append(rest[number.end() : end])
        rest = rest[end + 1 :]
    return ".".join((*parts, rest))


def _what(said: re.Match[str]) -> str:
    if said["go"]:
        return normalized_message(said["go"])
    if said["rust"]:
        return f"{said['where'].rpartition('/')[2]}: {normalized_message(said['rust'])}"
    return normalized_message(f"{said['class']}: {said['text']}".rstrip(": "))


def _function(stderr: str) -> str:
    for pattern in (_GO_FRAME, _AT_FRAME):
        for match in pattern.finditer(stderr):
            if not match["function"].startswith(_RUNTIME):
                return match["function"]
    return ""


# The CPU-seconds and additional bytes of memory that an input of at most `SMALL` bytes may cost.
MOST_SECONDS: Final = 0.25
MOST_GROWTH: Final = 64 << 20
SMALL: Final = 64 << 10


def excess_cost(size: int, seconds: float, grown: int) -> tuple[float, int]:
    """The CPU-seconds and bytes of an input of *size* bytes that exceed their limits; zeros for those that do not.

    >>> excess_cost(20, 0.2, 100 << 20), excess_cost(1 << 20, 0.3, 100 << 20)
    ((0.0, 104857600), (0.0, 0))
    """
    times = max(1.0, size / SMALL)
    return (seconds if seconds > MOST_SECONDS * times else 0.0, grown if grown > MOST_GROWTH * times else 0)


def memory_message(size: int, grown: int) -> str:
    """A sentence about the memory that an input took.

    >>> memory_message(64, 96 << 20)
    '96 MiB for 64 bytes, 1,572,864 for each'
    """
    return f"{grown >> 20} MiB for {size:,} bytes, {grown / max(1, size):,.0f} for each"


def time_message(size: int, seconds: float) -> str:
    """A sentence about the CPU time that an input took.

    >>> time_message(100, 0.5)
    '0.50 s of processor time for 100 bytes, 5,000 us for each'
    """
    return f"{seconds:.2f} s of processor time for {size:,} bytes, {seconds * 1e6 / max(1, size):,.0f} us for each"


_NO_NUMBER: Final = -1
_WRAP: Final = 1 << 32
_LONG: Final = 1 << 63
_MILLISECONDS: Final = 1000


def value_relation(difference: Difference) -> str:
    """How a wrong value differs from the right one, in words that are part of a finding's key.

    >>> value_relation(Difference("batches[0].records[0].timestamp", 1700395339065, 1700395339000))
    'rounded'
    >>> value_relation(Difference("batches[0].records[0].key", None, b""))
    'null as empty'
    """
    right, given = difference.expected, difference.given
    if not (_is_number(right) and _is_number(given)):
        return _value_relation(right, given)
    return _count_relation(right, given) if difference.path.endswith("length") else _number_relation(right, given)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count_relation(right: int, given: int) -> str:
    if given == 0 or right == 0:
        return "none" if given == 0 else "some for none"
    return "fewer" if given < right else "more"


def _number_relation(right: int, given: int) -> str:
    if _NO_NUMBER in (right, given):
        return "a number for none" if right == _NO_NUMBER else "none for a number"
    if not -_LONG <= given < _LONG:
        return "beyond 64 bits"
    if (right - given) % _WRAP == 0:
        return "wraps"
    if right // _MILLISECONDS == given // _MILLISECONDS and given % _MILLISECONDS == 0:
        return "rounded"
    return "other"


def _value_relation(right: object, given: object) -> str:
    one, other = _value_word(right), _value_word(given)
    return "other" if one == other == "some" else f"{one} as {other}"


def _value_word(value: object) -> str:
    return "null" if value is None else "empty" if value == b"" else "some"


# Kinds of faults, each with the rules that it breaks, as objects of a sentence.
FAULT_PHRASES: Final = {
    "a message shorter than its header": ("FRM-05", "HDR-05", "LEG-03"),
    "an entry size that overflows": ("FRM-09",),
    "an unknown magic": ("FRM-08",),
    "an unknown or forbidden codec": ("ATT-02", "LEG-15", "LEG-16"),
    "a wrong checksum": ("CRC-07", "LEG-04"),
    "a record count that is not the number of records": ("HDR-13", "HDR-14", "HDR-15"),
    "a record length that is not its size": ("REC-03", "REC-04", "REC-07", "REC-08", "REC-09"),
    "a key or value that ends after its record": ("REC-13", "LEG-11", "REC-05"),
    "an impossible header count or header key": ("REC-14", "REC-15", "REC-18"),
    "a varint that is too long or cut": ("VAR-06", "VAR-08", "VAR-11"),
    "a payload that is empty or not compressed as its codec says": ("CMP-06", "CMP-08"),
    "a broken gzip stream": ("GZP-01", "GZP-02", "GZP-03", "GZP-04", "GZP-05", "GZP-06", "GZP-08"),
    "a broken snappy stream": ("SNP-02", "SNP-03", "SNP-04", "SNP-05", "SNP-06", "SNP-07", "SNP-08", "SNP-09"),
    "a broken lz4 frame": tuple(f"LZ4-{number:02}" for number in range(1, 19)),
    "a broken zstd frame": tuple(f"ZST-{number:02}" for number in range(2, 11)),
    "a compressed message without inner messages": ("NST-05",),
    "an inner message shorter than its header": ("NST-07",),
    "inner offsets above that of their wrapper": ("NST-10",),
    "a compressed message inside a compressed message": ("NST-16",),
    "a control record without a valid key": ("TXN-04", "TXN-05", "TXN-06", "TXN-07", "TXN-10"),
}  # fmt: skip
_PHRASE_OF: Final = {rule: phrase for phrase, rules in FAULT_PHRASES.items() for rule in rules}
# The same by the group of a rule, for rules without a phrase of their own.
_PHRASE_OF_GROUP: Final = {
    "FRM": "broken framing of entries", "LEG": "a broken v0 or v1 message", "NST": "a broken v0 or v1 wrapper",
    "HDR": "a broken batch header", "ATT": "impossible attributes", "VAR": "a broken varint", "REC": "a broken record",
    "CRC": "a wrong checksum", "CMP": "a broken compressed payload", "GZP": "a broken gzip stream",
    "SNP": "a broken snappy stream", "LZ4": "a broken lz4 frame", "ZST": "a broken zstd frame",
    "TIM": "an impossible timestamp", "OFF": "an impossible offset", "PID": "an impossible producer id",
    "TXN": "a broken transaction marker", "KRF": "a broken control record", "SIZ": "an impossible size",
}  # fmt: skip
VALID_BYTES: Final = "valid bytes"
# A rule as the last part of a key, and what may follow it.
_RULE: Final = re.compile(r"(?P<rule>[A-Z][A-Z0-9]{2}-\d{2})( \w+)?$")


def fault_phrase(rule: str) -> str:
    """The kind of fault that breaks *rule*, as the object of a sentence.

    >>> fault_phrase("HDR-05"), fault_phrase("VAR-99"), fault_phrase("")
    ('a message shorter than its header', 'a broken varint', 'valid bytes')
    """
    if not rule:
        return VALID_BYTES
    return _PHRASE_OF.get(rule) or _PHRASE_OF_GROUP.get(rule.partition("-")[0], "broken bytes")


def fault_class(rule: str) -> str:
    """The class of a fault as part of a key: the first rule of those with the same phrase.

    >>> fault_class("LEG-03"), fault_class("VAR-99")
    ('FRM-05', 'VAR')
    """
    phrase = _PHRASE_OF.get(rule)
    return FAULT_PHRASES[phrase][0] if phrase else rule.partition("-")[0]


@lru_cache(maxsize=8192)
def corpus_key(key: str) -> str:
    """*key* without what a finding has and a case has not, or what keys of earlier versions had.

    Accepted bytes lose the fault, since cases have none.  The rule of a hang or of too much memory becomes its class.

    >>> corpus_key("mine|accepts_invalid|error|HDR-14 record_count_too_low"), corpus_key("mine|hang||HDR-14")
    ('mine|accepts_invalid|error|HDR-14', 'mine|hang||HDR-13')
    """
    before, _, last = key.rpartition("|")
    found = _RULE.match(last)
    if found is None:
        return key
    costs = any(f"|{kind}|" in before for kind in ("hang", "memory", "amplification"))
    return f"{before}|{fault_class(found['rule']) if costs else found['rule']}"


OutcomeClass = Literal[
    "ok",  # the right answer
    "refused",  # a documented error for bytes that may be refused
    "wrong_data",
    "crash",
    "hang",
    "memory",
    "amplification",  # far more memory or time than the input's size explains
    "accepts_invalid",
    "rejects_valid",
    "leaked_exception",  # an undocumented exception
    "wrong_error",
    "difference",  # two answers disagree, and no rule decides
    "lossy",
]
CLASSES: Final[tuple[OutcomeClass, ...]] = get_args(OutcomeClass)
# Observations of a testee that ended or whose answer cannot be read.
ENDINGS: Final[dict[type, OutcomeClass]] = {Crashed: "crash", Hung: "hang", Exceeded: "memory", Garbled: "crash"}
# Outcomes that are not findings.
GOOD: Final[frozenset[OutcomeClass]] = frozenset({"ok", "refused"})
# The severities of classes that the judge does not have.
SEVERITY: Final[dict[OutcomeClass, Severity]] = {
    "amplification": "memory",
    "leaked_exception": "wrong_error",
    "difference": "wrong_data",
}
# Native stacks and texts of exceptions may be long.
MOST_DETAIL: Final = 200


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one input on one target.

    Attributes:
        target: the name of the target, as `kafka-python`.
        kind: the class.
        detail: the exception's type, the signal, or the path of the first field that differs.
        function: the innermost function of the target's package, `module.function`.
        fault: the label of the fault in the input, if there is one.
        why: the reason in one sentence; not part of the key.
        relation: how a wrong value differs, for targets in process; not part of the key.
    """

    target: str
    kind: OutcomeClass
    detail: str = ""
    function: str = ""
    fault: str = ""
    why: str = ""
    relation: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether the outcome is a finding."""
        return self.kind not in GOOD

    @property
    def key(self) -> str:
        """The identity of a finding: target, class, detail, and the function, or the fault if there is none."""
        return "|".join((self.target, self.kind, self.detail[:MOST_DETAIL], self.function or f"lie {self.fault}"))

    @property
    def bucket(self) -> str:
        """The key without the fault, which only the profile `model` knows; benchmarks count buckets."""
        return "|".join((self.target, self.kind, self.detail[:MOST_DETAIL], self.function))


def severity(kind: OutcomeClass) -> Severity:
    """The judge's severity for *kind*; KeyError for an outcome that is not a finding.

    >>> severity("leaked_exception"), severity("hang")
    ('wrong_error', 'hang')
    """
    if kind in GOOD:
        raise KeyError(kind)
    return SEVERITY.get(kind) or cast(Severity, kind)  # all other names are severities
