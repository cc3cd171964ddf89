import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.pitest.classinfo.ClassName;
import org.pitest.mutationtest.EngineArguments;
import org.pitest.mutationtest.engine.Mutater;
import org.pitest.mutationtest.engine.MutationDetails;
import org.pitest.mutationtest.engine.gregor.config.GregorEngineFactory;

/**
 * Lists PIT's mutants of some classes, and writes the class files of those that are chosen.
 *
 * Arguments: class names, or `--write`, a folder, and class names. Standard output gets a line of JSON for each mutant;
 * its number counts from 0. With `--write`, standard input has the numbers of the mutants whose class files
 * `NUMBER.class` are written, beside `CLASS.class` for each unchanged class.
 */
public final class BrokerMutants {
    private BrokerMutants() {
    }

    public static void main(String[] arguments) throws IOException {
        boolean writes = arguments[0].equals("--write");
        Path folder = writes ? Path.of(arguments[1]) : null;
        Set<String> chosen = writes ? new HashSet<>(List.of(new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\\s+"))) : Set.of();
        Mutater mutater = new GregorEngineFactory()
                .createEngine(EngineArguments.arguments().withMutators(List.of("DEFAULTS", "REMOVE_CONDITIONALS", "INLINE_CONSTS")))
                .createMutator(BrokerMutants::bytes);
        StringBuilder out = new StringBuilder();
        int number = 0;
        for (String name : List.of(arguments).subList(writes ? 2 : 0, arguments.length)) {
            if (writes) {
                Files.write(folder.resolve(name + ".class"), bytes(name).orElseThrow());
            }
            for (MutationDetails each : mutater.findMutations(ClassName.fromString(name))) {
                if (each.getMethod().equals("<clinit>")) {
                    continue; // It ran when the class was loaded, before it was replaced.
                }
                if (chosen.contains(Integer.toString(number))) {
                    Files.write(folder.resolve(number + ".class"), mutater.getMutation(each.getId()).getBytes());
                }
                out.append(line(name, each)).append('\n');
                number++;
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String line(String name, MutationDetails each) {
        List<String> fields = new ArrayList<>();
        fields.add(field("class_name", name));
        fields.add(field("method", each.getMethod() + each.getId().getLocation().getMethodDesc()));
        fields.add("\"line\":" + each.getLineNumber());
        fields.add(field("mutator", each.getMutator().replaceAll(".*\\.", "")));
        fields.add("\"index\":" + each.getFirstIndex());
        fields.add(field("description", each.getDescription()));
        return "{" + String.join(",", fields) + "}";
    }

    private static String field(String name, String text) {
        return "\"" + name + "\":\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    private static Optional<byte[]> bytes(String name) {
        try (InputStream in = ClassLoader.getSystemResourceAsStream(name.replace('.', '/') + ".class")) {
            return in == null ? Optional.empty() : Optional.of(in.readAllBytes());
        } catch (IOException error) {
            return Optional.empty();
        }
    }
}
