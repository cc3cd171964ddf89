import com.eclipsesource.json.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.UnsupportedCompressionTypeException;

/** What Java throws, as errors of the testee protocol. */
final class Errors {
    private Errors() {
    }

    static JsonObject describe(Throwable error) {
        StringBuilder message = new StringBuilder();
        for (Throwable cause : causes(error))
            message.append(message.length() == 0 ? "" : " <- ").append(cause.getClass().getName())
                .append(cause.getMessage() == null ? "" : ": " + cause.getMessage());
        if (message.length() > 400)
            message.setLength(400);
        return new JsonObject().add("kind", kind(error)).add("message", message.toString());
    }

    /**
     * The kind of an exception of Kafka's own, by its class, and by its text where one class is for several. What else
     * comes out, as a bare java.lang exception or an error of a codec, is declared nowhere.
     */
    private static String kind(Throwable error) {
        if (!(error instanceof KafkaException))
            return "other";
        String kind = "malformed";
        for (Throwable cause : causes(error)) {
            if (cause instanceof UnsupportedCompressionTypeException)
                return "unsupported_compression";
            if (cause instanceof IOException)
                return "decompression"; // the streams over the codecs have no other class
            if (cause instanceof KafkaException && !kindOf(cause).equals("malformed"))
                kind = kindOf(cause);
        }
        return kind;
    }

    private static String kindOf(Throwable error) {
        String text = String.valueOf(error.getMessage());
        if (text.contains("stored crc"))
            return "corrupt";
        if (text.startsWith("Invalid magic"))
            return "unsupported_magic";
        if (text.startsWith("Invalid wrapper compressionType"))
            return "unsupported_compression";
        boolean overrun = text.contains("reached EOF") || text.contains("premature EOF") || text.contains("the buffer has only");
        return overrun ? "truncated" : "malformed";
    }

    private static List<Throwable> causes(Throwable error) {
        List<Throwable> causes = new ArrayList<>();
        for (Throwable cause = error; cause != null && causes.size() < 5; cause = cause.getCause())
            causes.add(cause);
        return causes;
    }
}
