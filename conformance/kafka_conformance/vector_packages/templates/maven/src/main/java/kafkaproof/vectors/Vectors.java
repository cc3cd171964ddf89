package kafkaproof.vectors;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonDeserializer;
import com.google.gson.reflect.TypeToken;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** The test cases of Kafkaproof for Kafka's record formats. */
public final class Vectors {
    private static final JsonDeserializer<byte[]> BYTES =
            (json, type, context) -> Base64.getDecoder().decode(json.getAsString());
    private static final JsonDeserializer<VectorRecord.Header> HEADER = (json, type, context) -> {
        var pair = json.getAsJsonArray();
        byte[] value = pair.get(1).isJsonNull() ? null : context.deserialize(pair.get(1), byte[].class);
        return new VectorRecord.Header(context.deserialize(pair.get(0), byte[].class), value);
    };
    static final Gson GSON = new GsonBuilder()
            .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
            .registerTypeAdapter(byte[].class, BYTES)
            .registerTypeAdapter(VectorRecord.Header.class, HEADER)
            .create();

    private Vectors() {}

    /** One rule of the format, with its sources. */
    public record Rule(String statement, String strength, String outcome, List<String> sources) {}

    /** Counts, hashes, and the cases that are left out, with the reason. */
    public record Manifest(
            String version,
            String corpusVersion,
            @com.google.gson.annotations.SerializedName("corpus_sha256") String corpusSha256,
            boolean unreleased,
            int cases,
            Map<String, Integer> ops,
            Map<String, Integer> verdicts,
            Map<String, Integer> areas,
            Map<String, String> sha256,
            Map<String, String> leftOut) {}

    private static final class Loaded {
        static final List<Case> CASES = read("cases.ndjson").lines().map(line -> GSON.fromJson(line, Case.class)).toList();
    }

    /** The cases that the filter chooses, sorted by id. */
    public static List<Case> cases(Filter filter) {
        return Loaded.CASES.stream().filter(filter::matches).toList();
    }

    /** The rules that cases name, by id. */
    public static Map<String, Rule> rules() {
        return GSON.fromJson(read("rules.json"), new TypeToken<Map<String, Rule>>() {}.getType());
    }

    /** Counts, hashes, and the cases that are left out, with the reason. */
    public static Manifest manifest() {
        return GSON.fromJson(read("manifest.json"), Manifest.class);
    }

    /** The text of a file of the package: cases.ndjson, rules.json or manifest.json. */
    public static String read(String name) {
        try (InputStream in = Vectors.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
