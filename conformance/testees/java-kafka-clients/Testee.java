import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.zip.CRC32;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Serves Kafka's own Java codec by the testee protocol, version 1: one JSON line in, one JSON line out.
 *
 * <p>Decoding is what a consumer with check.crcs does, encoding is {@link MemoryRecordsBuilder}. Nothing is
 * corrected on the way: what Java loses or refuses, the reply shows.
 */
public final class Testee {
    private static final JsonArray MAGICS = (JsonArray) Json.array(0, 1, 2);
    private static final JsonArray COMPRESSIONS = (JsonArray) Json.array("none", "gzip", "snappy", "lz4", "zstd");
    // A consumer keeps its decompression buffers from one batch to the next; so do we.
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    // Set where it is measured what a testee costs that ends over one question in ten.
    private static final boolean FALLS = System.getenv("KAFKAPROOF_FALLS") != null;

    public static void main(String[] args) throws IOException {
        OutputStream replies = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // a library that prints must not spoil a reply
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 16);
        Output output = new Output();
        for (String line; (line = requests.readLine()) != null; ) {
            reply(line, output);
            output.sendLine(replies);
        }
    }

    private static void reply(String line, Output out) {
        JsonValue id = Json.value("");
        try {
            JsonObject request = Json.parse(line).asObject();
            id = request.get("id") == null ? id : request.get("id");
            if (request.getString("op", "").equals("hello"))
                out.write(hello());
            else
                answer(request, id, out);
        } catch (Skipped skipped) {
            out.keep(0);
            out.write(new JsonObject().add("id", id).add("skipped", skipped.getMessage()));
        } catch (Throwable error) { // Errors too: SnappyError and OutOfMemoryError are answers
            out.keep(0);
            out.write(new JsonObject().add("id", id).add("error", Errors.describe(error)));
        }
    }

    private static void answer(JsonObject request, JsonValue id, Output out) {
        String op = request.getString("op", "");
        switch (op) {
            case "decode":
                out.writeText("{\"id\":");
                out.write(id);
                out.writeText(",");
                if (request.get("many") == null)
                    decode(bytes(request.get("data")), out);
                else
                    decodeMany(request.get("many").asArray(), out);
                out.writeText("}");
                return;
            case "encode":
                byte[] data = encode(request.get("batch").asObject());
                if (FALLS)
                    fallOver(data);
                String made = Base64.getEncoder().encodeToString(data);
                out.write(new JsonObject().add("id", id).add("data", made));
                return;
            case "append":
                throw new Skipped("kafka-clients has no broker");
            default:
                throw new Skipped("no operation '" + op + "'");
        }
    }

    private static JsonObject hello() throws IOException {
        JsonObject able = new JsonObject().add("magics", MAGICS).add("compressions", COMPRESSIONS);
        return new JsonObject()
            .add("protocol", 1)
            .add("name", "java-kafka-clients")
            .add("version", version())
            .add("language", "java")
            .add("runtime", "java " + System.getProperty("java.version"))
            .add("decode", able)
            .add("encode", able)
            .add("append", false)
            .add("many", true);
    }

    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = Record.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }

    // --- decode ---------------------------------------------------------------------------------------------

    private static void decodeMany(JsonArray many, Output out) {
        out.writeText("\"many\":[");
        for (JsonValue data : many) {
            out.next();
            out.writeText("{");
            decode(bytes(data), out);
            out.writeText("}");
        }
        out.writeText("]");
    }

    private static void fallOver(byte[] question) {
        CRC32 sum = new CRC32();
        sum.update(question);
        if (sum.getValue() % 10 == 0)
            Runtime.getRuntime().halt(1);
    }

    /** Members of an answer. They are written as they are read: a flood of records is held as text, and once. */
    private static void decode(byte[] data, Output out) {
        if (FALLS)
            fallOver(data);
        out.writeText("\"batches\":[");
        int whole = out.length();
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                out.next();
                decode(batch, out);
                whole = out.length();
            }
            out.writeText("]");
        } catch (Throwable error) {
            out.keep(whole);
            out.writeText("],\"error\":");
            out.write(Errors.describe(error));
        }
    }

    private static void decode(RecordBatch batch, Output out) {
        batch.ensureValid();
        out.writeText("{\"records\":[");
        try (CloseableIterator<Record> iterator = batch.streamingIterator(BUFFERS)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                record.ensureValid(); // the CRC of an inner message; nothing in v2
                out.next();
                decode(record, out);
            }
        }
        out.writeText("]");
        out.writeMembers(header(batch));
        out.writeText("}");
    }

    private static JsonObject header(RecordBatch batch) {
        return new JsonObject()
            .add("magic", batch.magic())
            .add("base_offset", batch.baseOffset())
            .add("last_offset", batch.lastOffset())
            .add("compression", batch.compressionType().name)
            .add("timestamp_type", timestampTypeName(batch.timestampType()))
            .add("max_timestamp", batch.maxTimestamp())
            .add("producer_id", batch.producerId())
            .add("producer_epoch", batch.producerEpoch())
            .add("base_sequence", batch.baseSequence())
            .add("transactional", batch.isTransactional())
            .add("control", batch.isControlBatch())
            .add("partition_leader_epoch", batch.partitionLeaderEpoch())
            .add("delete_horizon", deleteHorizon(batch));
    }

    private static JsonValue deleteHorizon(RecordBatch batch) {
        return batch.deleteHorizonMs().isPresent() ? Json.value(batch.deleteHorizonMs().getAsLong()) : Json.NULL;
    }

    private static void decode(Record record, Output out) {
        out.writeText("{\"offset\":");
        out.writeText(Long.toString(record.offset()));
        out.writeText(",\"timestamp\":");
        out.writeText(Long.toString(record.timestamp()));
        out.writeText(",\"key\":");
        out.writeBase64(record.key());
        out.writeText(",\"value\":");
        out.writeBase64(record.value());
        out.writeText(",\"headers\":[");
        for (Header header : record.headers()) {
            out.next();
            out.writeText("[");
            out.writeBase64(ByteBuffer.wrap(header.key().getBytes(UTF_8)));
            out.writeText(",");
            out.writeBase64(header.value() == null ? null : ByteBuffer.wrap(header.value()));
            out.writeText("]");
        }
        out.writeText("]}");
    }

    private static String timestampTypeName(TimestampType type) {
        switch (type) {
            case CREATE_TIME:
                return "create";
            case LOG_APPEND_TIME:
                return "append";
            default:
                return "none";
        }
    }

    // --- encode ---------------------------------------------------------------------------------------------

    /** What BATCH says, in Java's types. */
    private static final class Plan {
        final byte magic;
        final List<JsonObject> records = new ArrayList<>();
        final Compression compression;
        final TimestampType timestampType;
        final long baseOffset;
        final Long lastOffset;
        final Long maxTimestamp;
        final long producerId;
        final short producerEpoch;
        final int baseSequence;
        final boolean transactional;
        final boolean control;
        final int partitionLeaderEpoch;
        final long deleteHorizon;

        Plan(JsonObject batch) {
            JsonValue given = batch.get("records");
            if (given != null)
                given.asArray().forEach(record -> records.add(record.asObject()));
            magic = (byte) integer(batch, "magic", RecordBatch.CURRENT_MAGIC_VALUE, Byte.SIZE);
            if (magic < RecordBatch.MAGIC_VALUE_V0 || magic > RecordBatch.CURRENT_MAGIC_VALUE)
                throw new IllegalArgumentException("Unknown magic " + magic);
            compression = Compression.of(batch.getString("compression", "none")).build();
            timestampType = timestampType(batch.getString("timestamp_type", magic == 0 ? "none" : "create"));
            long first = records.isEmpty() ? 0 : integer(records.get(0), "offset", 0, Long.SIZE);
            baseOffset = integer(batch, "base_offset", first, Long.SIZE);
            lastOffset = isGiven(batch, "last_offset") ? integer(batch, "last_offset", 0, Long.SIZE) : null;
            maxTimestamp = isGiven(batch, "max_timestamp") ? integer(batch, "max_timestamp", 0, Long.SIZE) : null;
            producerId = integer(batch, "producer_id", RecordBatch.NO_PRODUCER_ID, Long.SIZE);
            producerEpoch = (short) integer(batch, "producer_epoch", RecordBatch.NO_PRODUCER_EPOCH, Short.SIZE);
            baseSequence = (int) integer(batch, "base_sequence", RecordBatch.NO_SEQUENCE, Integer.SIZE);
            transactional = batch.getBoolean("transactional", false);
            control = batch.getBoolean("control", false);
            partitionLeaderEpoch =
                (int) integer(batch, "partition_leader_epoch", RecordBatch.NO_PARTITION_LEADER_EPOCH, Integer.SIZE);
            deleteHorizon = integer(batch, "delete_horizon", RecordBatch.NO_TIMESTAMP, Long.SIZE);
            if (isGiven(batch, "delete_horizon") && deleteHorizon < 0)
                throw new Skipped("to Java a delete horizon below 0 is none");
        }

        /** Whether the max timestamp is that of the records, which a builder takes with create time. */
        boolean isMaxTimestampOfRecords() {
            return records.stream()
                .mapToLong(record -> integer(record, "timestamp", RecordBatch.NO_TIMESTAMP, Long.SIZE))
                .max()
                .orElse(RecordBatch.NO_TIMESTAMP) == maxTimestamp;
        }

        /** With LogAppendTime the batch has one timestamp, and no record has its own. */
        long maxTimestampOr(long other) {
            return maxTimestamp == null ? other : maxTimestamp;
        }
    }

    private static byte[] encode(JsonObject batch) {
        Plan plan = new Plan(batch);
        if (plan.records.isEmpty())
            return encodeEmpty(plan);
        if (plan.maxTimestamp != null && plan.timestampType == TimestampType.CREATE_TIME && !plan.isMaxTimestampOfRecords())
            throw new Skipped("a builder writes the largest timestamp of its records as the max timestamp");
        MemoryRecordsBuilder builder = builder(plan);
        for (JsonObject record : plan.records)
            append(builder, plan, record);
        if (plan.lastOffset != null)
            builder.overrideLastOffset(plan.lastOffset);
        return toArray(builder.build().buffer());
    }

    private static MemoryRecordsBuilder builder(Plan plan) {
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(512),
            plan.magic,
            plan.compression,
            plan.timestampType,
            plan.baseOffset,
            logAppendTime(plan),
            plan.producerId,
            plan.producerEpoch,
            plan.baseSequence,
            plan.transactional,
            plan.control,
            plan.partitionLeaderEpoch,
            Integer.MAX_VALUE,
            plan.deleteHorizon);
    }

    /** With create time a builder finds the max timestamp itself, and is not given it. */
    private static long logAppendTime(Plan plan) {
        boolean append = plan.timestampType == TimestampType.LOG_APPEND_TIME;
        return append ? plan.maxTimestampOr(RecordBatch.NO_TIMESTAMP) : RecordBatch.NO_TIMESTAMP;
    }

    private static void append(MemoryRecordsBuilder builder, Plan plan, JsonObject record) {
        long offset = integer(record, "offset", plan.baseOffset + builder.numRecords(), Long.SIZE);
        long timestamp = integer(record, "timestamp", RecordBatch.NO_TIMESTAMP, Long.SIZE);
        byte[] key = bytes(record.get("key"));
        byte[] value = bytes(record.get("value"));
        Header[] headers = headers(record.get("headers"));
        if (plan.control)
            builder.appendControlRecordWithOffset(offset, new SimpleRecord(timestamp, key, value, headers));
        else
            builder.appendWithOffset(offset, timestamp, key, value, headers);
    }

    /** The header that the log cleaner leaves when it has dropped every record. */
    private static byte[] encodeEmpty(Plan plan) {
        if (plan.magic < RecordBatch.MAGIC_VALUE_V2)
            throw new Skipped("Java writes no v0 or v1 message set without records");
        if (plan.compression.type() != CompressionType.NONE || plan.deleteHorizon >= 0)
            throw new Skipped("Java writes an empty batch without codec and without delete horizon");
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
            buffer,
            plan.magic,
            plan.producerId,
            plan.producerEpoch,
            plan.baseSequence,
            plan.baseOffset,
            plan.lastOffset == null ? plan.baseOffset : plan.lastOffset,
            plan.partitionLeaderEpoch,
            plan.timestampType,
            plan.maxTimestampOr(RecordBatch.NO_TIMESTAMP),
            plan.transactional,
            plan.control);
        return buffer.array();
    }

    private static Header[] headers(JsonValue given) {
        if (given == null)
            return Record.EMPTY_HEADERS;
        List<Header> headers = new ArrayList<>();
        for (JsonValue header : given.asArray())
            headers.add(new RecordHeader(headerKey(bytes(header.asArray().get(0))), bytes(header.asArray().get(1))));
        return headers.toArray(new Header[0]);
    }

    /** Java's header key is a String, so bytes that are not UTF-8 would be written as others. */
    private static String headerKey(byte[] key) {
        if (key == null)
            return null;
        String text = new String(key, UTF_8);
        if (!Arrays.equals(text.getBytes(UTF_8), key))
            throw new Skipped("to Java a header key is text, and this one is not UTF-8");
        return text;
    }

    private static TimestampType timestampType(String name) {
        switch (name) {
            case "create":
                return TimestampType.CREATE_TIME;
            case "append":
                return TimestampType.LOG_APPEND_TIME;
            case "none":
                return TimestampType.NO_TIMESTAMP_TYPE;
            default:
                throw new IllegalArgumentException("Unknown timestamp type " + name);
        }
    }

    // --- JSON values ----------------------------------------------------------------------------------------

    private static boolean isGiven(JsonObject object, String name) {
        return object.get(name) != null && !object.get(name).isNull();
    }

    private static long integer(JsonObject object, String name, long otherwise, int bits) {
        if (!isGiven(object, name))
            return otherwise;
        try {
            long value = Long.parseLong(object.get(name).toString());
            if (bits == Long.SIZE || value >> (bits - 1) == 0 || value >> (bits - 1) == -1)
                return value;
        } catch (NumberFormatException tooLarge) {
            // falls through to the same answer
        }
        throw new Skipped(name + " " + object.get(name) + " is not an int" + bits);
    }

    private static byte[] bytes(JsonValue value) {
        return value == null || value.isNull() ? null : Base64.getDecoder().decode(value.asString());
    }

    private static byte[] toArray(ByteBuffer buffer) {
        byte[] array = new byte[buffer.remaining()];
        buffer.duplicate().get(array);
        return array;
    }
}
