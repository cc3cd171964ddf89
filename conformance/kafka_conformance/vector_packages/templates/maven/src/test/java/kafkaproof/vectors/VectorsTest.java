package kafkaproof.vectors;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.stream.Collectors.counting;
import static java.util.stream.Collectors.groupingBy;
import static java.util.stream.Collectors.toMap;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import example.KafkaClientsExample;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import kafkaproof.vectors.Judge.Decoder;
import kafkaproof.vectors.Judge.Outcome;
import org.junit.jupiter.api.Test;

class VectorsTest {
    private static final List<Case> DECODES = Vectors.cases(Filter.all().ops("decode"));
    private static final Map<String, Case> ANSWERS = DECODES.stream().collect(toMap(each -> key(each.input().data()), each -> each));

    private static String key(byte[] data) {
        return HexFormat.of().formatHex(data);
    }

    private static Case.Expect answer(byte[] data) {
        return ANSWERS.get(key(data)).expect();
    }

    private static Map<String, Integer> counted(Function<Case, String> name) {
        Map<String, Integer> counts = new HashMap<>();
        Vectors.cases(Filter.all()).stream()
                .collect(groupingBy(name, counting()))
                .forEach((each, count) -> counts.put(each, count.intValue()));
        return counts;
    }

    @Test
    void countsAreThoseOfTheManifest() {
        Vectors.Manifest manifest = Vectors.manifest();
        assertTrue(manifest.cases() > 0);
        assertEquals(manifest.cases(), Vectors.cases(Filter.all()).size());
        assertEquals(manifest.ops(), counted(Case::op));
        assertEquals(manifest.areas(), counted(Case::area));
        assertEquals(manifest.verdicts(), counted(each -> each.expect().verdict()));
    }

    @Test
    void hashesAreThoseOfTheManifest() throws Exception {
        for (String name : List.of("cases.ndjson", "rules.json")) {
            byte[] sum = MessageDigest.getInstance("SHA-256").digest(Vectors.read(name).getBytes(UTF_8));
            assertEquals(Vectors.manifest().sha256().get(name), HexFormat.of().formatHex(sum));
        }
    }

    @Test
    void eachCaseIsComplete() {
        Map<String, Vectors.Rule> rules = Vectors.rules();
        for (Case each : Vectors.cases(Filter.all())) {
            Case.Input input = each.input();
            assertEquals(1, Stream.of(input.data(), input.batch(), input.scenario()).filter(Objects::nonNull).count(), each.id());
            if (input.scenario() != null) assertEquals(input.scenario().steps().size(), each.expect().answers().size(), each.id());
            if (input.scenario() != null) assertTrue(input.scenario().steps().stream().allMatch(step -> step.action() != null));
            assertTrue(each.rules().stream().noneMatch(rule -> rules.get(rule).sources().isEmpty()), each.id());
        }
    }

    /** The names of fields that have a value, with the way to them. */
    private static Set<String> fields(JsonElement element, String path) {
        Set<String> found = new HashSet<>();
        if (element.isJsonArray()) element.getAsJsonArray().forEach(each -> found.addAll(fields(each, path)));
        if (element.isJsonObject())
            element.getAsJsonObject().asMap().forEach((name, value) -> {
                if (!value.isJsonNull()) found.add(path + "." + name);
                found.addAll(fields(value, path + "." + name));
            });
        return found;
    }

    @Test
    void typesHoldEverything() {
        List<String> lines = Vectors.read("cases.ndjson").lines().filter(line -> line.length() < 20_000).toList();
        assertTrue(lines.size() > 1000);
        for (String line : lines) {
            Set<String> lost = fields(JsonParser.parseString(line), "");
            lost.removeAll(fields(Vectors.GSON.toJsonTree(Vectors.GSON.fromJson(line, Case.class)), ""));
            assertEquals(Set.of(), lost, line);
        }
    }

    @Test
    void filterChooses() {
        Filter filter = Filter.all().ops("decode").magics(2).compressions("none", "zstd").areas("v2_batch", "zstd");
        List<Case> chosen = Vectors.cases(filter);
        assertTrue(!chosen.isEmpty() && chosen.size() < DECODES.size());
        assertTrue(chosen.stream().noneMatch(each -> each.facts().magics().contains(1)));
        assertTrue(chosen.stream().noneMatch(each -> each.facts().compressions().contains("gzip")));
    }

    @Test
    void rightDecoderHasNoFinding() {
        Judge.Report report = Judge.run(DECODES, data -> {
            if (answer(data).verdict().equals("invalid")) throw new IllegalArgumentException("invalid");
            return answer(data).records(true);
        });
        assertEquals(List.of(), report.findings());
        assertEquals(Vectors.manifest().ops().get("decode"), report.counts().get(Outcome.AGREE));
    }

    private static VectorRecord withKey(VectorRecord each) {
        byte[] key = each.key() == null ? new byte[0] : each.key();
        return new VectorRecord(each.offset(), each.timestamp(), key, each.value(), each.headers());
    }

    private static Set<Outcome> findings(Decoder decoder) {
        Set<Outcome> found = EnumSet.noneOf(Outcome.class);
        Judge.run(DECODES, decoder).findings().forEach(each -> found.add(each.outcome()));
        return found;
    }

    @Test
    void wrongDecodersAreFound() {
        assertEquals(Set.of(Outcome.ACCEPTS_INVALID), findings(data -> answer(data).records(true)));
        assertEquals(Set.of(Outcome.WRONG_DATA, Outcome.ACCEPTS_INVALID), findings(data -> List.of()));
        assertEquals(Set.of(Outcome.WRONG_DATA, Outcome.ACCEPTS_INVALID),
            findings(data -> answer(data).records(true).stream().map(VectorsTest::withKey).toList()));
        assertEquals(Set.of(Outcome.REJECTS_VALID), findings(data -> {
            throw new IllegalArgumentException("no");
        }));
        assertEquals(Set.of(Outcome.CRASH), findings(data -> {
            throw new StackOverflowError("planted");
        }));
    }

    /** The example prints counts that add up to its cases; Kafka's own decoder agrees with nearly all. */
    @Test
    void exampleRuns() {
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, UTF_8));
        try {
            KafkaClientsExample.main(new String[0]);
        } finally {
            System.setOut(before);
        }
        String text = printed.toString(UTF_8).trim();
        System.out.println(text);
        int[] counts = Arrays.stream(text.split(", ")).mapToInt(part -> Integer.parseInt(part.split(" ")[0])).toArray();
        int total = Vectors.cases(Filter.all().profiles("consumer", "consumer-legacy", "integrity")).size();
        assertEquals(total, Arrays.stream(counts).sum());
        assertTrue(counts[0] * 100 >= total * 95, text);
    }
}
