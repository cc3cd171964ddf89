import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.JsonObject;
import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A KafkaConsumer in an application that goes on after errors, with default settings, as
 * kafka_conformance/edges/recovery.py runs it.
 */
final class Recovery {
    private static final int MOST_CAUSES = 5;
    private static final long PAUSE_MS = 100;
    private final JsonObject request;
    private final OutputStream out;
    private final TopicPartition partition;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private Recovery(JsonObject request, OutputStream out) {
        this.request = request;
        this.out = out;
        this.partition = new TopicPartition(request.getString("topic", ""), 0);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", request.getString("bootstrap", ""));
        this.consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(partition));
        consumer.seek(partition, request.getLong("offset", 0));
    }

    /** Answers one request, and ends the process. */
    static void serve(JsonObject request, OutputStream out) {
        Recovery application = new Recovery(request, out);
        application.emit(new JsonObject().add("done", application.run()));
        Runtime.getRuntime().halt(0);
    }

    private String run() {
        long deadline = System.currentTimeMillis() + request.getLong("limit_ms", 0);
        long quiet = System.currentTimeMillis();
        long last = request.getLong("offset", 0) - 1;
        byte[] end = request.getString("end", "").getBytes(UTF_8);
        boolean seeks = request.getBoolean("seek", true);
        long tried = -1;
        boolean jumped = false;
        while (System.currentTimeMillis() < deadline) {
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    last = record.offset();
                    quiet = System.currentTimeMillis();
                    byte[] value = record.value() == null ? new byte[0] : record.value();
                    emit(new JsonObject().add("offset", last).add("value", Base64.getEncoder().encodeToString(value)));
                    if (Arrays.equals(record.key(), end))
                        return "end";
                }
            } catch (Throwable error) { // an application sees Errors too, as SnappyError
                quiet = System.currentTimeMillis();
                long at = report(error);
                if (seeks) {
                    tried = Math.max(at, tried + 1);
                    consumer.seek(partition, tried);
                    emit(new JsonObject().add("sought", tried).add("why", "error"));
                } else {
                    deadline = Math.min(deadline, quiet + request.getLong("after_error_ms", 0));
                    pause();
                }
            }
            if (seeks && !jumped && System.currentTimeMillis() - quiet > request.getLong("silence_ms", 0)) {
                jumped = true;
                quiet = System.currentTimeMillis();
                consumer.seek(partition, request.getLong("past", 0));
                emit(new JsonObject().add("sought", request.getLong("past", 0)).add("why", "silence"));
            }
        }
        return "time";
    }

    /** Prints an error, and says which offset it is at: what the error names, else the position. */
    private long report(Throwable error) {
        long position = consumer.position(partition);
        StringBuilder text = new StringBuilder();
        JsonObject shown = new JsonObject().add("type", error.getClass().getSimpleName());
        Throwable cause = error;
        for (int depth = 0; cause != null && depth < MOST_CAUSES; depth++, cause = cause.getCause())
            text.append(text.length() == 0 ? "" : " < ").append(cause.getClass().getSimpleName()).append(": ")
                .append(cause.getMessage());
        emit(new JsonObject().add("error", shown.add("message", text.toString())).add("position", position));
        return position;
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void emit(JsonObject event) {
        try {
            out.write((event + "\n").getBytes(UTF_8));
            out.flush();
        } catch (IOException gone) {
            Runtime.getRuntime().halt(1);
        }
    }
}
