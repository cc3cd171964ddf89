import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads and writes with Kafka's own KafkaConsumer and KafkaProducer: one JSON line in, one JSON line out. The requests are
 * those of kafka_conformance/process/client_testee.py.
 */
public final class Client {
    // Of a flood of records the first are shown; the consumer reads on to its end.
    private static final int SHOWN = 16 << 20;
    private static final int LARGEST_BATCH = 16 << 20;
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    public static void main(String[] args) throws IOException {
        OutputStream replies = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // a library that prints must not spoil a reply
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 16);
        Output output = new Output();
        for (String line; (line = requests.readLine()) != null; ) {
            JsonObject request = Json.parse(line).asObject();
            if (request.getString("op", "").equals("recover"))
                Recovery.serve(request, replies);
            answer(request, output);
            output.sendLine(replies);
        }
    }

    private static void answer(JsonObject request, Output out) throws IOException {
        switch (request.getString("op", "")) {
            case "hello":
                out.write(hello());
                return;
            case "consume":
                consume(request, out);
                return;
            case "produce":
                out.write(produce(request));
                return;
            default:
                out.write(new JsonObject().add("skipped", "no such operation"));
        }
    }

    private static JsonObject hello() throws IOException {
        JsonArray compressions = Json.array("none", "gzip", "snappy", "lz4", "zstd");
        return new JsonObject()
            .add("protocol", 1)
            .add("name", "java-consumer")
            .add("version", version())
            .add("language", "java")
            .add("runtime", "java " + System.getProperty("java.version"))
            .add("decode", new JsonObject().add("magics", Json.array(0, 1, 2)).add("compressions", compressions))
            .add("encode", new JsonObject().add("magics", Json.array(new int[] {2})).add("compressions", compressions));
    }

    static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream in = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(in);
        }
        return properties.getProperty("version");
    }

    // --- consume --------------------------------------------------------------------------------------------

    /** Each request has a consumer of its own, so that no error reaches the next one. */
    private static void consume(JsonObject request, Output out) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", request.getString("bootstrap", ""));
        if (request.getBoolean("committed", false))
            config.put("isolation.level", "read_committed");
        TopicPartition partition = new TopicPartition(request.getString("topic", ""), request.getInt("partition", 0));
        byte[] end = request.getString("end", "").getBytes(UTF_8);
        out.writeText("{\"records\":[");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, request.getLong("offset", 0));
            for (boolean more = true; more; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (Arrays.equals(record.key(), end)) {
                        more = false;
                        break;
                    }
                    if (out.length() < SHOWN)
                        write(record, out);
                }
            }
            out.writeText("]}");
        } catch (Throwable error) { // an application sees Errors too, as SnappyError
            out.writeText("],\"error\":");
            out.write(Errors.describe(error));
            out.writeText("}");
        }
    }

    private static void write(ConsumerRecord<byte[], byte[]> record, Output out) {
        out.next();
        out.writeText("{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp() + ",\"key\":");
        out.writeBase64(record.key() == null ? null : ByteBuffer.wrap(record.key()));
        out.writeText(",\"value\":");
        out.writeBase64(record.value() == null ? null : ByteBuffer.wrap(record.value()));
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

    // --- produce --------------------------------------------------------------------------------------------

    private static JsonObject produce(JsonObject request) {
        JsonObject batch = request.get("batch").asObject();
        boolean idempotent = batch.getLong("producer_id", -1) != -1;
        String compression = batch.getString("compression", "none");
        String bootstrap = request.getString("bootstrap", "");
        String kept = bootstrap + " " + compression;
        try {
            List<ProducerRecord<byte[], byte[]>> records = records(request, batch);
            // Each idempotent producer gets its own id.
            KafkaProducer<byte[], byte[]> producer = idempotent
                ? producer(bootstrap, compression, true)
                : PRODUCERS.computeIfAbsent(kept, __ -> producer(bootstrap, compression, false));
            boolean sent = false;
            try {
                List<Future<?>> sending = new ArrayList<>();
                for (ProducerRecord<byte[], byte[]> record : records)
                    sending.add(producer.send(record));
                producer.flush();
                for (Future<?> each : sending)
                    each.get();
                sent = true;
            } finally {
                if (idempotent || !sent) {
                    // What it still holds must not go out with the next batch.
                    PRODUCERS.values().remove(producer);
                    producer.close(Duration.ZERO);
                }
            }
            return new JsonObject().add("records", Json.array());
        } catch (Skipped skipped) {
            return new JsonObject().add("skipped", skipped.getMessage());
        } catch (ExecutionException error) {
            return new JsonObject().add("error", Errors.describe(error.getCause()));
        } catch (Exception error) {
            return new JsonObject().add("error", Errors.describe(error));
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String compression, boolean idempotent) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("compression.type", compression);
        config.put("enable.idempotence", idempotent);
        // All records of a batch go out together: it waits for more until it is flushed.
        config.put("linger.ms", 60_000);
        config.put("batch.size", LARGEST_BATCH);
        config.put("max.request.size", 2 * LARGEST_BATCH);
        config.put("buffer.memory", 4L * LARGEST_BATCH);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static List<ProducerRecord<byte[], byte[]>> records(JsonObject request, JsonObject batch) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (JsonValue each : batch.get("records").asArray()) {
            JsonObject record = each.asObject();
            if (record.getLong("timestamp", 0) < 0)
                throw new Skipped("a ProducerRecord takes no timestamp below 0");
            List<Header> headers = new ArrayList<>();
            if (record.get("headers") != null)
                for (JsonValue header : record.get("headers").asArray())
                    headers.add(new RecordHeader(text(header.asArray().get(0)), bytes(header.asArray().get(1))));
            records.add(new ProducerRecord<>(
                request.getString("topic", ""), request.getInt("partition", 0), record.getLong("timestamp", -1),
                bytes(record.get("key")), bytes(record.get("value")), headers));
        }
        return records;
    }

    /** A header key is a String: bytes that are not UTF-8 would be written as others. */
    private static String text(JsonValue key) {
        if (key.isNull())
            return null;
        String text = new String(bytes(key), UTF_8);
        if (!Arrays.equals(text.getBytes(UTF_8), bytes(key)))
            throw new Skipped("to Java a header key is text, and this one is not UTF-8");
        return text;
    }

    private static byte[] bytes(JsonValue value) {
        return value == null || value.isNull() ? null : Base64.getDecoder().decode(value.asString());
    }
}
