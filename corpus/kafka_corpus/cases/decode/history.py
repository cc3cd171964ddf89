"""Bugs that brokers and clients have had with record data, one case for each.

The docstring says what went wrong; `refs` where it was reported.  Rules are
tested one by one elsewhere; here stands the input that hurt somebody.
"""

from __future__ import annotations

from kafka_corpus.authoring.batches import PLAIN, REFUSED, batch_of, bytes_of, compressed, payload_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, raw_batch, raw_header, raw_record
from kafka_corpus.authoring.frames import (
    LZ4_END_MARK,
    gzip_member,
    lz4_block,
    lz4_data,
    lz4_frame,
    lz4_header,
    lz4_sequence,
    snappy_block,
    xerial,
    zstd_blocks,
    zstd_frame,
)
from kafka_corpus.authoring.messages import (
    APPEND_BIT,
    message_bytes,
    numbered,
    record_of,
    seal,
    set_of,
    single_batch,
    wrap,
    wrapped,
    wrapper_batch,
)
from kafka_corpus.cases.decode.control import key_of
from kafka_corpus.registry import Draft, acceptable, case, invalid, valid
from kafka_records import Batch, Header, Record
from kafka_records.varint import encode_varint

GITHUB = "https://github.com"
PRODUCER = {"transactional": True, "producer_id": 4000, "producer_epoch": 0, "base_sequence": -1}


@case(
    "LZ4-06", refs=("KAFKA-3160", "KIP-57", f"{GITHUB}/IBM/sarama/issues/1205", f"{GITHUB}/dpkp/kafka-python/pull/522")
)
def lz4_checksum_of_the_first_framing() -> Draft:
    """A v0 lz4 frame carries 1a where the format wants 82 for its header checksum.

    Kafka 0.8.2 computed it over the magic too; Go and Python clients refused
    topics of that format for years ("got 1a; expected 82").
    """
    data, batch = wrapped(numbered(0, 8_000, 8_001), 0, "lz4")
    return valid(data, batch)


@case("LZ4-05", "FRM-02", refs=("KAFKA-9203", f"{GITHUB}/apache/kafka/pull/7769"))
def lz4_batch_in_the_middle_of_a_buffer() -> Draft:
    """An lz4 batch is read the same wherever in a buffer it starts.

    Kafka 2.4 computed the header checksum over the wrong bytes when the buffer
    did not start at the frame ("Stream frame descriptor corrupted").
    """
    first = batch_of(*some_records(3), compression="lz4")
    second = batch_of(*some_records(2, base=3), compression="lz4")
    return valid(bytes_of(first) + bytes_of(second), first, second)


@case("LZ4-03", refs=("KIP-57", f"{GITHUB}/dpkp/kafka-python/pull/1476", f"{GITHUB}/Parsely/pykafka/issues/914"))
def lz4_linked_blocks_of_large_messages() -> Draft:
    """A frame of two linked blocks is refused, the second copying from the first.

    Clients whose lz4 links blocks by default were refused by brokers
    as soon as a message exceeded one block.
    """
    records = some_records(1)[0]._replace(value=b"linked " * 10_000)
    plain = payload_of([records])
    # The second block is one long copy out of the first, and the last literals.
    match = len(plain) - 65_536 - 12
    second = (
        b"\x0f\x07\x00" + b"\xff" * ((match - 19) // 255) + bytes(((match - 19) % 255,)) + lz4_sequence(plain[-12:])
    )
    frame = lz4_header(flg=0x40) + lz4_data(plain[:65_536], stored=True) + lz4_data(second) + LZ4_END_MARK
    return invalid(compressed("lz4", frame, records)[0], *REFUSED)


@case("LZ4-09", refs=("KAFKA-20528", f"{GITHUB}/apache/kafka/pull/22162"))
def lz4_content_checksum_never_compared() -> Draft:
    """A content checksum that does not match the content was never compared by Kafka."""
    frame = lz4_header(flg=0x64) + lz4_data(PLAIN, stored=True) + LZ4_END_MARK + b"\xde\xad\xbe\xef"
    why = "KAFKA-20528 is about to verify it; the releases so far skip it"
    return acceptable(*compressed("lz4", frame), kinds=REFUSED, why=why)


@case("NST-09", refs=("KAFKA-5365", f"{GITHUB}/apache/kafka/pull/3203", f"{GITHUB}/SOHU-Co/kafka-node/pull/1388"))
def wrapper_of_a_client_that_left_offset_0() -> Draft:
    """A wrapper that a client sent with offset 0 keeps its inner offsets.

    Older clients always put 0 there; Kafka 0.11 first computed negative offsets from it.
    """
    records = numbered(1, 0, 1, 2, 3)
    data = wrap(set_of(records, 1), 1, "snappy", timestamp=TIMESTAMP + 3)
    return valid(data, wrapper_batch(records, 1, "snappy", offset=0, timestamp=TIMESTAMP + 3), compare="records")


@case("NST-12", refs=(f"{GITHUB}/confluentinc/librdkafka/pull/2349", f"{GITHUB}/zendesk/ruby-kafka/pull/495"))
def compacted_wrapper_counted_by_its_messages() -> Draft:
    """The base of a compacted wrapper comes from its last inner offset, not from its number of messages.

    librdkafka and ruby-kafka counted the messages, and lost those before the gap.
    """
    records = numbered(1, 5_000, 5_006, 5_009)
    data, batch = wrapped(records, 1, "gzip")
    return valid(data, batch)


@case("NST-14", refs=(f"{GITHUB}/confluentinc/librdkafka/issues/1192", f"{GITHUB}/zendesk/ruby-kafka/issues/505"))
def v0_wrapper_taken_for_relative() -> Draft:
    """A v0 wrapper in a fetch that could hold v1 still has absolute inner offsets.

    librdkafka went by the version of the request, ruby-kafka by none at all.
    """
    data, batch = wrapped(numbered(0, *range(772_034, 772_044)), 0, "snappy")
    return valid(data, batch)


@case("NST-15", refs=("KAFKA-4298", f"{GITHUB}/apache/kafka/pull/2019"))
def wrapper_converted_by_the_cleaner() -> Draft:
    """A wrapper that the cleaner made v1 around messages that it left v0.

    Kafka 0.10.0 did so when the topic's format was newer than the messages, and such logs exist.
    """
    records = numbered(0, 61, 62, 65)
    data = wrap(set_of(records, 0), 1, "gzip", offset=65, timestamp=-1)
    return valid(data, wrapper_batch(records, 1, "gzip", timestamp=-1))


@case("NST-15", refs=(f"{GITHUB}/IBM/sarama/issues/757", f"{GITHUB}/IBM/sarama/issues/750"))
def wrapper_left_at_v0_by_a_producer() -> Draft:
    """A v0 wrapper around v1 messages, as a producer wrote it that set the magic of the inner ones only."""
    records = numbered(1, 0, 1, 2)
    data = wrap(set_of(records, 1), 0, "snappy", offset=2)
    why = "brokers refuse it ('inner message has magic value 1'), Java readers take it"
    return acceptable(data, wrapper_batch(records, 0, "snappy"), kinds=("malformed", "unsupported_magic"), why=why)


@case("NST-20", refs=(f"{GITHUB}/IBM/sarama/issues/885", "KIP-32"))
def append_time_of_a_wrapper_not_handed_on() -> Draft:
    """Records of a LogAppendTime wrapper have the wrapper's time, not their own.

    sarama gave the producer's times, unlike every other client.
    """
    inner = numbered(1, 900, 901)
    data = wrap(set_of(inner, 1, base=900), 1, "snappy", offset=901, timestamp=TIMESTAMP + 777, attributes=APPEND_BIT)
    records = [record._replace(timestamp=TIMESTAMP + 777) for record in inner]
    return valid(data, wrapper_batch(records, 1, "snappy", append=True, timestamp=TIMESTAMP + 777))


@case("TIM-02", refs=(f"{GITHUB}/IBM/sarama/pull/1257", f"{GITHUB}/IBM/sarama/pull/1167"))
def append_time_of_a_batch_not_handed_on() -> Draft:
    """Records of a LogAppendTime batch have the batch's newest timestamp, not base plus delta."""
    own = some_records(3)
    records = [record._replace(timestamp=TIMESTAMP + 777) for record in own]
    batch = batch_of(*records, compression="snappy", timestamp_type="append")
    return valid(bytes_of(batch, packed=xerial(payload_of(own)), base_timestamp=TIMESTAMP), batch)


@case(
    "VAR-01",
    "TIM-01",
    refs=(f"{GITHUB}/twmb/franz-go/issues/324", f"{GITHUB}/kafka-protocol-rs/kafka-protocol-rs/issues/158"),
)
def timestamp_delta_beyond_int32() -> Draft:
    """A timestamp delta of 53 years is beyond int32, and its varlong takes six bytes.

    Codecs that followed the older documentation read a varint, and lost records.
    """
    return valid(*both(Record(0, 0, b"epoch", b"1970"), Record(1, TIMESTAMP, b"now", b"2023")))


def both(*records: Record) -> tuple[bytes, Batch]:
    """A batch of *records* as bytes and as it has to be read."""
    batch = batch_of(*records)
    return bytes_of(batch), batch


@case("TIM-18", refs=("KAFKA-8522", "KIP-534", f"{GITHUB}/redpanda-data/redpanda/pull/4010"))
def records_before_their_base() -> Draft:
    """Records may be older than the base timestamp, by weeks if that is a delete horizon.

    Unsigned differences put such records weeks into the future.
    """
    records = (Record(0, TIMESTAMP, b"gone", None), Record(1, TIMESTAMP - 5_000_000_000, b"older", b"kept"))
    batch = batch_of(*records, delete_horizon=TIMESTAMP + 2_592_000_000)
    return valid(bytes_of(batch), batch)


@case("OFF-11", "CLN-15", refs=(f"{GITHUB}/segmentio/kafka-go/pull/813", f"{GITHUB}/IBM/sarama/pull/3150"))
def nothing_but_an_empty_batch() -> Draft:
    """A fetch may hold one batch without records; its last offset says where to go on.

    Clients fetched it for ever.
    """
    batch = batch_of(
        base_offset=7_000, last_offset=9_999, max_timestamp=TIMESTAMP, producer_id=3, producer_epoch=0, base_sequence=8
    )
    return valid(bytes_of(batch), batch)


@case(
    "CLN-03",
    refs=(f"{GITHUB}/IBM/sarama/pull/1006", f"{GITHUB}/IBM/sarama/pull/1037", f"{GITHUB}/tulios/kafkajs/issues/562"),
)
def last_records_compacted_away() -> Draft:
    """The last offset of a batch is higher than its last record's when that was compacted away.

    Clients went on at the last record, or moved the offsets of all of them.
    """
    batch = batch_of(*some_records(2, base=400), last_offset=410, compression="snappy")
    return valid(bytes_of(batch), batch)


@case("TXN-24", refs=(f"{GITHUB}/tulios/kafkajs/issues/403", f"{GITHUB}/kafkaex/kafka_ex/pull/557"))
def nothing_but_a_control_batch() -> Draft:
    """A fetch may hold one control batch, of which an application sees nothing.

    Clients handed its record to the application, or fetched it for ever.
    """
    record = Record(55, TIMESTAMP, key_of(0), bytes(6))
    batch = batch_of(record, control=True, **PRODUCER)
    return valid(bytes_of(batch), batch)


@case("TXN-11", refs=(f"{GITHUB}/IBM/sarama/pull/1898", f"{GITHUB}/redpanda-data/redpanda/pull/606"))
def control_record_with_another_value() -> Draft:
    """The value of a control record of an unknown type need not look like a marker's.

    sarama read every value as a marker's, and failed on Redpanda's.
    """
    record = Record(56, TIMESTAMP, key_of(5000), b"")
    batch = batch_of(record, control=True)
    return valid(bytes_of(batch), batch)


@case("TXN-09", refs=(f"{GITHUB}/influxdata/rskafka/pull/297",))
def control_key_inside_a_record() -> Draft:
    """A control record has the layout of any record, and its type is in the key.

    rskafka read it from the first bytes after the header, and found version 8192.
    """
    record = Record(57, TIMESTAMP, key_of(1), bytes.fromhex("00000000002a"))
    batch = batch_of(record, control=True, **PRODUCER)
    assert bytes_of(batch)[61:63] == b"\x20\x00"
    return valid(bytes_of(batch), batch)


@case(
    "HDR-18",
    refs=(
        f"{GITHUB}/kafka-protocol-rs/kafka-protocol-rs/pull/156",
        f"{GITHUB}/kafka-protocol-rs/kafka-protocol-rs/pull/161",
    ),
)
def record_count_reserved_unseen() -> Draft:
    """A record count of two billion over no records at all must not reserve room for them.

    kafka-protocol reserved it and aborted the process.
    """
    return invalid(raw_batch(b"", record_count=2**31 - 1), "truncated", "malformed", "limit")


@case("REC-15", refs=(f"{GITHUB}/apache/iggy/pull/4229",))
def header_count_reserved_unseen() -> Draft:
    """A header count of two billion in a record of ten bytes must not reserve room for them."""
    record = raw_record(value=None, header_count=encode_varint(2**31 - 1))
    return invalid(raw_batch(record), "malformed", "truncated", "limit")


@case("REC-08", "CMP-10", refs=(f"{GITHUB}/apache/kafka/pull/22905", f"{GITHUB}/apache/kafka/pull/23449"))
def record_length_allocated_unseen() -> Draft:
    """A record length of 2 GiB in a compressed batch must not be allocated.

    Kafka allocated what the length said.
    """
    packed = zstd_frame(*zstd_blocks(encode_varint(2**31 - 1) + bytes(20)))
    return invalid(raw_batch(packed, attributes=4), "truncated", "malformed", "limit")


@case(
    "REC-12",
    "REC-20",
    refs=(f"{GITHUB}/osodevops/kafka-backup/issues/155", f"{GITHUB}/vert-x3/vertx-kafka-client/issues/313"),
)
def null_header_value() -> Draft:
    """A header value may be null, which is not the same as empty, and not a reason to crash."""
    record = Record(
        0, TIMESTAMP, b"k", b"v", (Header(b"trace-id", None), Header(b"empty", b""), Header(b"trace-id", b"1"))
    )
    assert raw_header(b"trace-id", None) in bytes_of(batch_of(record))
    return valid(*both(record))


@case("SNP-03", refs=(f"{GITHUB}/dpkp/kafka-python/issues/2414",))
def xerial_header_of_redpanda() -> Draft:
    """A xerial header with its version numbers in little-endian order, as Redpanda wrote it.

    kafka-python compared them, and took the payload for a raw block.
    """
    header = bytes.fromhex("82534e4150505900 01000000 01000000")
    records = some_records(3)
    return valid(*compressed("snappy", xerial(payload_of(records), header=header), *records))


@case(
    "SNP-01", refs=(f"{GITHUB}/kafka-protocol-rs/kafka-protocol-rs/issues/79", f"{GITHUB}/TrackingSoft/Kafka/issues/18")
)
def xerial_blocks_taken_for_a_raw_block() -> Draft:
    """Every large snappy batch of the Java client has several xerial blocks.

    Codecs that knew only raw blocks, or only one, failed on it.
    """
    records = some_records(4)
    plain = payload_of(records)
    return valid(*compressed("snappy", xerial(plain[:60], plain[60:]), *records))


@case("SNP-02", refs=(f"{GITHUB}/osodevops/kafka-backup/issues/152", f"{GITHUB}/eapache/go-xerial-snappy/issues/2"))
def raw_block_taken_for_xerial_blocks() -> Draft:
    """franz-go, librdkafka and older sarama write one raw block."""
    records = some_records(4)
    return valid(*compressed("snappy", snappy_block(payload_of(records)), *records))


@case("ZST-06", refs=(f"{GITHUB}/kafka4beam/brod/issues/628", f"{GITHUB}/kafka-python-ng/kafka-python-ng/issues/202"))
def zstd_frame_of_unknown_size() -> Draft:
    """The Java client's zstd frames never say how much they hold.

    Erlang and Python clients read the frame's size, found none, and gave up.
    """
    record = some_records(1)[0]._replace(value=b"=" * 5_000)
    batch = batch_of(record, compression="zstd")
    return valid(bytes_of(batch), batch)


@case("ZST-02", refs=(f"{GITHUB}/kafka-python-ng/kafka-python-ng/issues/202",))
def zstd_frames_beyond_the_first() -> Draft:
    """Data in a second zstd frame was dropped by clients that read one frame only."""
    records = some_records(4)
    packed = b"".join(zstd_frame(*zstd_blocks(payload_of([record]))) for record in records[:1])
    tail = payload_of(records)[len(payload_of(records[:1])) :]
    return valid(*compressed("zstd", packed + zstd_frame(*zstd_blocks(tail)), *records))


@case("FRM-07", "NST-01", refs=(f"{GITHUB}/twmb/franz-go/pull/883", f"{GITHUB}/kafka-rust/kafka-rust/issues/154"))
def partial_compressed_batch_not_opened() -> Draft:
    """A compressed batch that the fetch cut short is no decompression error."""
    records = some_records(6)
    data, batch = compressed("gzip", gzip_member(payload_of(records)), *records)
    return valid(data + data[:-20], batch)


@case("FRM-07", refs=(f"{GITHUB}/jdamick/kafka/pull/9", f"{GITHUB}/okapies/finagle-kafka/issues/3"))
def three_bytes_of_another_message() -> Draft:
    """Three bytes of another message at the end of a fetch are no message."""
    record = record_of(0, 12, b"key")
    return valid(message_bytes(record, 0) + bytes(3), single_batch(record, 0))


@case("NST-06", refs=(f"{GITHUB}/dpkp/kafka-python/issues/672", f"{GITHUB}/dpkp/kafka-python/issues/710"))
def partial_message_inside_a_wrapper() -> Draft:
    """A message that is cut short inside a wrapper crashed clients that expect none there."""
    records = numbered(0, 70, 71)
    inner = set_of(records, 0) + message_bytes(record_of(0, 72), 0)[:15]
    why = "DataLogInputStream takes the end of the data for the end of the set, a stricter reader need not"
    packed = xerial(inner)
    batch = wrapper_batch(records, 0, "snappy")
    return acceptable(seal(packed, 0, "snappy", offset=71), batch, kinds=("truncated", "malformed"), why=why)


@case("LZ4-12", refs=("KIP-57",))
def lz4_frame_without_end() -> Draft:
    """An lz4 frame that was flushed but never closed has no EndMark, and is an error."""
    records = some_records(5)
    return invalid(compressed("lz4", lz4_frame(lz4_block(payload_of(records)), end=b""), *records)[0], *REFUSED)
