import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.record.InvalidRecordException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Reads with the KafkaConsumer of release 0.10.2, the last one before record batches: one JSON line in, one JSON line out. The
 * requests are those of kafka_conformance/process/client_testee.py.
 */
public final class Client {
    // Of a flood of records the first are shown; the consumer reads on to its end.
    private static final int SHOWN = 16 << 20;

    public static void main(String[] args) throws IOException {
        OutputStream replies = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // a library that prints must not spoil a reply
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 16);
        Output output = new Output();
        for (String line; (line = requests.readLine()) != null; ) {
            JsonObject request = Json.parse(line).asObject();
            switch (request.getString("op", "")) {
                case "hello":
                    output.write(hello());
                    break;
                case "consume":
                    consume(request, output);
                    break;
                default:
                    output.write(new JsonObject().add("skipped", "no such operation"));
            }
            output.sendLine(replies);
        }
    }

    private static JsonObject hello() {
        JsonArray compressions = Json.array("none", "gzip", "snappy", "lz4");
        return new JsonObject()
            .add("protocol", 1)
            .add("name", "java-0.10")
            .add("version", AppInfoParser.getVersion())
            .add("language", "java")
            .add("runtime", "java " + System.getProperty("java.version"))
            .add("decode", new JsonObject().add("magics", Json.array(0, 1)).add("compressions", compressions))
            .add("encode", new JsonObject().add("magics", new JsonArray()).add("compressions", new JsonArray()));
    }

    /** Each request has a consumer of its own, so that no error reaches the next one. */
    private static void consume(JsonObject request, Output out) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", request.getString("bootstrap", ""));
        TopicPartition partition = new TopicPartition(request.getString("topic", ""), request.getInt("partition", 0));
        byte[] end = request.getString("end", "").getBytes(UTF_8);
        out.writeText("{\"records\":[");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, request.getLong("offset", 0));
            for (boolean more = true; more; ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(1000)) {
                    if (Arrays.equals(record.key(), end)) {
                        more = false;
                        break;
                    }
                    if (out.length() < SHOWN)
                        write(record, out);
                }
            }
            out.writeText("]}");
        } catch (Throwable error) { // an application sees Errors too
            String message = error.getClass().getName() + ": " + error.getMessage();
            out.writeText("],\"error\":");
            out.write(new JsonObject().add("kind", kind(error)).add("message", message));
            out.writeText("}");
        }
    }

    private static void write(ConsumerRecord<byte[], byte[]> record, Output out) {
        out.next();
        out.writeText("{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp() + ",\"key\":");
        out.writeBase64(record.key() == null ? null : ByteBuffer.wrap(record.key()));
        out.writeText(",\"value\":");
        out.writeBase64(record.value() == null ? null : ByteBuffer.wrap(record.value()));
        out.writeText("}");
    }

    /** The kind of a declared exception; a consumer wraps those of the codec in a KafkaException. */
    private static String kind(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause())
            if (each instanceof CorruptRecordException || each instanceof InvalidRecordException)
                return "corrupt";
        return error instanceof KafkaException ? "malformed" : "other";
    }
}
