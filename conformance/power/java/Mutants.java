import com.eclipsesource.json.JsonObject;
import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.pitest.classinfo.ClassByteArraySource;
import org.pitest.classinfo.ClassName;
import org.pitest.mutationtest.engine.MutationDetails;
import org.pitest.mutationtest.engine.gregor.GregorMutater;
import org.pitest.mutationtest.engine.gregor.MethodInfo;
import org.pitest.mutationtest.engine.gregor.config.Mutator;

/** PIT's mutants of Kafka's record, compression and header classes, in a fixed order. */
final class Mutants {
    private static final List<String> PLACES = List.of(
        "org/apache/kafka/common/record/", "org/apache/kafka/common/compress/", "org/apache/kafka/common/header/",
        "org/apache/kafka/common/utils/internals/ByteUtils", "org/apache/kafka/common/utils/ByteUtils");
    private static final List<String> MUTATORS = List.of("DEFAULTS", "REMOVE_CONDITIONALS", "INLINE_CONSTS");
    private final GregorMutater engine;

    Mutants() {
        ClassByteArraySource source = name -> {
            try {
                return Optional.of(CodeLoader.code(name.replace('/', '.')));
            } catch (ClassNotFoundException | RuntimeException missing) {
                return jdk(name);
            }
        };
        engine = new GregorMutater(source, (MethodInfo method) -> true, Mutator.fromStrings(MUTATORS));
    }

    private static Optional<byte[]> jdk(String name) {
        try (java.io.InputStream in = ClassLoader.getSystemResourceAsStream(name.replace('.', '/') + ".class")) {
            return in == null ? Optional.empty() : Optional.of(in.readAllBytes());
        } catch (IOException error) {
            return Optional.empty();
        }
    }

    /** The names of the classes that are mutated. */
    static List<String> classes() throws IOException {
        Path jar = Path.of(System.getProperty("kafkaproof.jar"));
        try (FileSystem inside = FileSystems.newFileSystem(jar); Stream<Path> files = Files.walk(inside.getPath("/"))) {
            return files.map(file -> file.toString().substring(1))
                .filter(name -> name.endsWith(".class") && PLACES.stream().anyMatch(name::startsWith))
                .map(name -> name.substring(0, name.length() - ".class".length()).replace('/', '.'))
                .sorted()
                .collect(Collectors.toList());
        }
    }

    List<Change> all() throws IOException {
        List<Change> found = new ArrayList<>();
        for (String name : classes()) {
            List<MutationDetails> ofClass = new ArrayList<>(engine.findMutations(ClassName.fromString(name)));
            ofClass.sort(Comparator.comparing((MutationDetails each) -> each.getLineNumber())
                .thenComparing(each -> each.getId().getLocation().describe())
                .thenComparing(each -> each.getId().getMutator())
                .thenComparing(MutationDetails::getFirstIndex));
            ofClass.forEach(each -> found.add(new Change(each)));
        }
        return found;
    }

    /** One mutant. */
    final class Change {
        private final MutationDetails details;

        Change(MutationDetails details) {
            this.details = details;
        }

        String className() {
            return details.getClassName().asJavaName();
        }

        int line() {
            return details.getLineNumber();
        }

        /** The code of the class NAME: the mutant's for its own class. */
        byte[] applied(String name, byte[] code) {
            return name.equals(className()) ? engine.getMutation(details.getId()).getBytes() : code;
        }

        JsonObject document() {
            String mutator = details.getId().getMutator();
            return new JsonObject()
                .add("class_name", className())
                .add("method", details.getMethod() + details.getId().getLocation().getMethodDesc())
                .add("line", line())
                .add("mutator", mutator.substring(mutator.lastIndexOf('.') + 1))
                .add("index", details.getFirstIndex())
                .add("description", details.getDescription());
        }
    }
}
