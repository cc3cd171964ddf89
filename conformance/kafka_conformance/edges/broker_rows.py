"""The rows of the table of brokers, made of the corpus' scenarios, and the table on its page.

A row is a group of rules under one setting of the topic, either the scenarios that Kafka accepts (`kept`) or those of
which it refuses a part (`refused`).  `python -m kafka_conformance.edges.broker_rows [--check]` writes both files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from kafka_conformance.edges import EdgeCell, EdgeResult, EdgeRow, edge_results
from kafka_conformance.runner.broker import OPS, judged_by
from kafka_corpus.case import Case
from kafka_corpus.evidence import load_evidence
from kafka_corpus.scenario import Fetch, Produce, Scenario, Step
from kafka_corpus.vectors import load_vectors, package_root

# The releases of which one has to be matched, the first of them if an answer is shown.
JUDGES: Final = ("4.4.0", "3.9.2")
APACHE: Final = "apache-kafka-"
PAGE: Final = Path(__file__).parents[3] / "docs" / "compatible-brokers.md"
RESULTS: Final = Path(__file__).parents[3] / "results"
TABLE: Final = ("<!-- table -->\n", "<!-- end of table -->\n")
KIND: Final = Path(__file__).parent / "kinds" / "brokers.toml"
FIRST_PRODUCE_OF_V2, FIRST_FETCH_OF_V2 = 3, 4


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Areas of the corpus that are about one thing; *source* is the class of Apache Kafka that decides.

    *strict*: to accept what Kafka refuses loses data or order, or delivers damage.
    """

    id: str
    title: str
    areas: tuple[str, ...]
    source: str
    strict: bool = False


_VALIDATOR: Final = "LogValidator.java, validateMessagesAndAssignOffsets"
_PRODUCERS: Final = "ProducerAppendInfo.java, checkProducerEpoch, checkSequence; ProducerStateManager.java"
GROUPS: Final = (
    RuleGroup("checksum", "Checksums", ("produce_crc",), "DefaultRecordBatch.java, ensureValid", strict=True),
    RuleGroup(
        "header", "Header of a batch",
        ("produce_header", "produce_attributes", "produce_framing", "errata_batches", "log_segments"),
        "UnifiedLog.analyzeAndValidateRecords; LogValidator.java, validateBatch",
    ),
    RuleGroup(
        "records", "Records and their headers", ("produce_record", "produce_record_headers", "produce_varint"),
        "DefaultRecord.java, readFrom; LogValidator.java, validateRecord",
    ),
    RuleGroup(
        "compressed", "Compressed batches",
        ("produce_codecs", "produce_gzip", "produce_lz4", "produce_snappy", "produce_zstd"),
        f"{_VALIDATOR}; the classes of org.apache.kafka.common.compress",
    ),
    RuleGroup("offsets", "Offsets and rewritten batches", ("produce_offsets", "produce_rewriting"), _VALIDATOR),
    RuleGroup(
        "times", "Timestamps", ("produce_timestamps", "produce_append_time"),
        "LogValidator.java, validateTimestamp; KIP-32, KIP-937",
    ),
    RuleGroup("sizes", "Sizes", ("produce_sizes",), "UnifiedLog.analyzeAndValidateRecords (max.message.bytes)"),
    RuleGroup("requests", "Produce requests", ("produce_requests",), "ProduceRequest.java, validateRecords"),
    RuleGroup("producers", "Producer ids and epochs", ("produce_producers",), _PRODUCERS, strict=True),
    RuleGroup("sequences", "Sequences and duplicates", ("produce_sequences",), _PRODUCERS, strict=True),
    RuleGroup(
        "transactions", "Transactions", ("produce_transactions", "fetch_transactions"),
        "KIP-98, KIP-890; UnifiedLog.collectAbortedTransactions", strict=True,
    ),
    RuleGroup("fetching", "Offsets that are fetched", ("fetch_offsets",), "UnifiedLog.read; KIP-98", strict=True),
    RuleGroup(
        "old", "Formats v0 and v1",
        ("errata_messages", "fetch_conversion", "fetch_down_conversion", "produce_message", "produce_wrapper"),
        "LegacyRecord.java; KIP-896 (4.0 has neither Produce below 3 nor Fetch below 4)",
    ),
)  # fmt: skip
# Settings of the topic, by id: the name and the value.
MODES: Final = {
    "default": ("", ""),
    "append-time": ("message.timestamp.type", "LogAppendTime"),
    "uncompressed": ("compression.type", "uncompressed"),
    "gzip": ("compression.type", "gzip"),
    "lz4": ("compression.type", "lz4"),
    "snappy": ("compression.type", "snappy"),
    "zstd": ("compression.type", "zstd"),
    "compact": ("cleanup.policy", "compact"),
}
HALVES: Final = {"kept": "what Kafka accepts", "refused": "what Kafka refuses"}
RIGHT: Final = {
    "kept": "Each record is stored and served as Apache Kafka 4.4.0 or 3.9.2 does: the recorded answers.",
    "refused": "Nothing is stored, and the error is that of Apache Kafka 4.4.0 or 3.9.2: the recorded answers.",
}
# Rows beside the corpus: what differs in every stored batch, or hides everything else, is measured on its own.
LEADER_EPOCH, ZERO_WAIT, IDEMPOTENCE = "leader-epoch", "fetch-without-wait", "idempotent-producer"
ANSWERED_TIME: Final = "time-in-the-answer"
OWN_ROWS: Final = (
    EdgeRow(
        id=ANSWERED_TIME,
        title="Log append time in the answer to a produce request, message.timestamp.type=CreateTime",
        right="It is -1, and producers give the application the record's own time.",
        source="LogValidator.java, validateMessagesAndAssignOffsets; RecordMetadata.java, timestamp",
        rules=["TIM-12"],
    ),
    EdgeRow(
        id=IDEMPOTENCE,
        title="A producer with an id of the broker's: a batch sent again, and one too early",
        right="A batch that is sent again is stored once, with the first offset as answer; a gap is refused.",
        source="ProducerStateManager.java; ProducerAppendInfo.java, checkSequence; KIP-98",
        rules=["PID-09"],
    ),
    EdgeRow(
        id=LEADER_EPOCH,
        title="Partition leader epoch of a stored batch",
        right="It is the epoch that Metadata names for the partition's leader, not the -1 of the producer.",
        source="LogValidator.java, validateMessagesAndAssignOffsets (partitionLeaderEpoch); KIP-101",
        rules=["HDR-12"],
    ),
    EdgeRow(
        id=ZERO_WAIT,
        title="A fetch that must not wait (fetch.max.wait.ms=0)",
        right="The records that are there are served at once.",
        source="ReplicaManager.scala, fetchMessages answers if fetchMaxWaitMs <= 0; ConsumerConfig.java allows 0",
    ),
)


# ---- rows ----


def group_of(case: Case) -> RuleGroup:
    """The group of rules that *case* belongs to."""
    old = has_old_step(case)
    return next(group for group in GROUPS if (group.id == "old" if old else case.area in group.areas))


def _is_old(step: Step) -> bool:
    first = {Produce: FIRST_PRODUCE_OF_V2, Fetch: FIRST_FETCH_OF_V2}.get(type(step))
    return first is not None and isinstance(step, Produce | Fetch) and step.api_version < first


def mode_of(case: Case) -> str:
    """The setting of the topic that *case* is about: of several, the first of compact, a compression, append time."""
    assert isinstance(case.input, Scenario)
    config = case.input.config
    for mode in ("compact", "uncompressed", "gzip", "lz4", "snappy", "zstd", "append-time"):
        name, value = MODES[mode]
        if value in config.get(name, "").split(","):
            return mode
    return "default"


@cache
def scenario_cases() -> Mapping[str, Mapping[str, Case]]:
    """The cases by id, each as the releases of `JUDGES` answer it.

    A case that the first of them has no more is left out, unless it is about formats that it has no more.
    """
    recorded, vectors = load_evidence(package_root()), load_vectors(ops=OPS)
    found: dict[str, dict[str, Case]] = {}
    for release in JUDGES:
        for case in judged_by(vectors, recorded, release):
            if release == JUDGES[0] or case.id in found or has_old_step(case):
                found.setdefault(case.id, {})[release] = case
    return found


def has_old_step(case: Case) -> bool:
    """Whether *case* takes a version of Produce or Fetch that carries v0 or v1."""
    return isinstance(case.input, Scenario) and any(map(_is_old, case.input.steps))


@cache
def cases_by_row() -> Mapping[str, Sequence[Mapping[str, Case]]]:
    """The cases of each row, rows in order."""
    rows: dict[str, list[Mapping[str, Case]]] = {
        _row_id(group, mode, half): [] for group in GROUPS for mode in MODES for half in HALVES
    }
    for judged in scenario_cases().values():
        case = next(iter(judged.values()))
        half = "kept" if case.expect.verdict == "valid" else "refused"
        rows[_row_id(group_of(case), mode_of(case), half)].append(judged)
    return {id_: cases for id_, cases in rows.items() if cases}


def _row_id(group: RuleGroup, mode: str, half: str) -> str:
    return "-".join((group.id, half) if mode == "default" else (group.id, mode, half))


def corpus_rows() -> Iterator[EdgeRow]:
    """The rows that the corpus fills."""
    for id_, cases in cases_by_row().items():
        group = next(group for group in GROUPS if id_.startswith(f"{group.id}-"))
        half = id_.rpartition("-")[2]
        name, value = MODES[id_.removeprefix(f"{group.id}-").removesuffix(half).strip("-") or "default"]
        setting = f", {name}={value}" if name else ""
        rules = Counter(rule for judged in cases for case in list(judged.values())[:1] for rule in case.rules)
        yield EdgeRow(
            id=id_,
            title=f"{group.title}{setting}: {HALVES[half]}",
            right=RIGHT[half],
            source=group.source,
            rules=sorted(rule for rule, _ in rules.most_common(5)),
        )


def kind_text() -> str:
    """The text of `kinds/brokers.toml`."""
    lines = [
        "# Written by `python -m kafka_conformance.edges.broker_rows` from the scenarios of the corpus.",
        'id = "brokers"',
        'title = "Kafka-compatible brokers"',
        'question = "Can I replace Kafka with X without my records changing?"',
        'columns = "broker"',
        'page = "docs/compatible-brokers.md"',
    ]
    for row in (*corpus_rows(), *OWN_ROWS):
        lines += ["", "[[row]]", *(f"{name} = {json.dumps(getattr(row, name))}" for name in row.__struct_fields__)]
    return "\n".join(lines) + "\n"


def page_table(results: Sequence[EdgeResult]) -> str:
    """The table of the page: the grade, with the number of scenarios that have it and that were run."""
    lines = [
        "| row | " + " | ".join(result.label for result in results) + " |",
        "|---|" + "---|" * len(results),
    ]
    lines += [
        f"| {row} | " + " | ".join(_table_cell(result.cells.get(row)) for result in results) + " |"
        for row in (*cases_by_row(), *(row.id for row in OWN_ROWS))
    ]
    return "\n".join(lines) + "\n"


def _table_cell(cell: EdgeCell | None) -> str:
    if cell is None or cell.grade == "not run":
        return "–"
    if cell.grade == "PASS":
        return "✓"
    differ = (cell.observed.get(cell.grade) or {}).get("scenarios")
    return f"{cell.grade} {differ}/{cell.observed['scenarios']}" if differ else str(cell.grade)


def page_text(page: str) -> str:
    """*page* with the table of the results that the checkout keeps."""
    results = sorted(
        edge_results(RESULTS).get("brokers", []),
        key=lambda result: (not result.header.column.startswith(APACHE), result.label),
    )
    before, begin, rest = page.partition(TABLE[0])
    _, end, after = rest.partition(TABLE[1])
    return before + begin + page_table(results) + end + after


def main(arguments: Sequence[str]) -> int:
    """Write the rows and the table of the page, or with `--check` see that they are those of corpus and results."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write("python -m kafka_conformance.edges.brokers [--check]\n")
        return 2
    wanted = {KIND: kind_text()}
    if PAGE.exists():
        wanted[PAGE] = page_text(PAGE.read_text(encoding="utf-8"))
    for path, text in wanted.items():
        if not arguments:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path.name} is not what corpus and results give; run it without --check\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
