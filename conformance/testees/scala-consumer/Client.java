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
import kafka.api.FetchRequestBuilder;
import kafka.common.ErrorMapping;
import kafka.common.KafkaException;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.InvalidMessageException;
import kafka.message.MessageAndOffset;

/**
 * Reads with the Scala SimpleConsumer, through its Java API, as in the example of Kafka's wiki: one JSON line in, one JSON line
 * out. The requests are those of kafka_conformance/process/client_testee.py.
 */
public final class Client {
    // Of a flood of records the first are shown; the consumer reads on to its end.
    private static final int SHOWN = 16 << 20;
    // Those of the example.
    private static final int TIMEOUT = 100_000;
    private static final int BUFFER = 64 * 1024;
    private static final int FETCH_SIZE = 100_000;

    public static void main(String[] args) throws IOException {
        OutputStream replies = new FileOutputStream(FileDescriptor.out);
        System.setOut(System.err); // a library that prints must not spoil a reply
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 16);
        Output output = new Output();
        for (String line; (line = requests.readLine()) != null; ) {
            JsonObject request = Json.parse(line).asObject();
            switch (request.getString("op", "")) {
                case "hello":
                    output.write(hello(args[0]));
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

    private static JsonObject hello(String version) {
        JsonArray compressions = Json.array("none", "gzip", "snappy", "lz4");
        return new JsonObject()
            .add("protocol", 1)
            .add("name", "scala-consumer")
            .add("version", version)
            .add("language", "scala")
            .add("runtime", "java " + System.getProperty("java.version"))
            .add("decode", new JsonObject().add("magics", Json.array(0, 1)).add("compressions", compressions))
            .add("encode", new JsonObject().add("magics", new JsonArray()).add("compressions", new JsonArray()));
    }

    /** Each request has a consumer of its own, so that no error reaches the next one. */
    private static void consume(JsonObject request, Output out) {
        String[] bootstrap = request.getString("bootstrap", "").split(":");
        String topic = request.getString("topic", "");
        int partition = request.getInt("partition", 0);
        long position = request.getLong("offset", 0);
        ByteBuffer end = ByteBuffer.wrap(request.getString("end", "").getBytes(UTF_8));
        SimpleConsumer consumer =
            new SimpleConsumer(bootstrap[0], Integer.parseInt(bootstrap[1]), TIMEOUT, BUFFER, "kafkaproof");
        out.writeText("{\"records\":[");
        try {
            for (boolean more = true; more; ) {
                FetchResponse response = consumer.fetch(new FetchRequestBuilder()
                    .clientId("kafkaproof").addFetch(topic, partition, position, FETCH_SIZE).build());
                if (response.hasError())
                    throw ErrorMapping.exceptionFor(response.errorCode(topic, partition));
                for (MessageAndOffset each : response.messageSet(topic, partition)) {
                    // A compressed set also has what is in front of the position.
                    if (each.offset() < position)
                        continue;
                    position = each.nextOffset();
                    if (end.equals(each.message().key())) {
                        more = false;
                        break;
                    }
                    if (out.length() < SHOWN)
                        write(each, out);
                }
            }
            out.writeText("]}");
        } catch (Throwable error) { // an application sees Errors too
            String message = error.getClass().getName() + ": " + error.getMessage();
            out.writeText("],\"error\":");
            out.write(new JsonObject().add("kind", kind(error)).add("message", message));
            out.writeText("}");
        } finally {
            consumer.close();
        }
    }

    private static void write(MessageAndOffset each, Output out) {
        // A message is parsed when it is asked for its fields, so all of them come before anything is written.
        long timestamp = each.message().timestamp();
        ByteBuffer key = each.message().key();
        ByteBuffer value = each.message().payload();
        out.next();
        out.writeText("{\"offset\":" + each.offset() + ",\"timestamp\":" + timestamp + ",\"key\":");
        out.writeBase64(key);
        out.writeText(",\"value\":");
        out.writeBase64(value);
        out.writeText("}");
    }

    /** The kind of a declared exception. */
    private static String kind(Throwable error) {
        if (error instanceof InvalidMessageException)
            return "corrupt";
        return error instanceof KafkaException ? "malformed" : "other";
    }
}
