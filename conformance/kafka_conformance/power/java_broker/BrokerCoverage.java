import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jacoco.core.analysis.Analyzer;
import org.jacoco.core.analysis.CoverageBuilder;
import org.jacoco.core.analysis.IClassCoverage;
import org.jacoco.core.analysis.ICounter;
import org.jacoco.core.analysis.IMethodCoverage;
import org.jacoco.core.tools.ExecFileLoader;

/**
 * Reads JaCoCo's execution data: the lines of some classes that each file reached, and the branches of all by method.
 *
 * Arguments: a folder with files `NAME.exec`, and class names. Standard output gets lines of JSON, first
 * `{"name", "class_name", "lines"}` and then `{"class_name", "method", "line", "branches", "covered", "missed"}` of each
 * method that was entered, where `missed` has the number of missed branches by line.
 */
public final class BrokerCoverage {
    private static final String SUFFIX = ".exec";

    private BrokerCoverage() {
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, byte[]> classes = new TreeMap<>();
        for (String name : List.of(arguments).subList(1, arguments.length)) {
            try (InputStream in = ClassLoader.getSystemResourceAsStream(name.replace('.', '/') + ".class")) {
                classes.put(name, in.readAllBytes());
            }
        }
        File[] files = new File(arguments[0]).listFiles((folder, name) -> name.endsWith(SUFFIX));
        Arrays.sort(files);
        ExecFileLoader all = new ExecFileLoader();
        StringBuilder out = new StringBuilder();
        for (File file : files) {
            ExecFileLoader one = new ExecFileLoader();
            one.load(file);
            all.load(file);
            for (IClassCoverage each : analyzed(one, classes)) {
                List<Integer> lines = covered(each);
                if (!lines.isEmpty()) {
                    String name = file.getName().substring(0, file.getName().length() - SUFFIX.length());
                    out.append("{\"name\":\"").append(name).append("\",\"class_name\":\"").append(named(each))
                            .append("\",\"lines\":").append(lines).append("}\n");
                }
            }
        }
        for (IClassCoverage each : analyzed(all, classes)) {
            for (IMethodCoverage method : each.getMethods()) {
                if (method.getLineCounter().getCoveredCount() > 0) {
                    out.append(line(each, method)).append('\n');
                }
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static Iterable<IClassCoverage> analyzed(ExecFileLoader loaded, Map<String, byte[]> classes) throws IOException {
        CoverageBuilder builder = new CoverageBuilder();
        Analyzer analyzer = new Analyzer(loaded.getExecutionDataStore(), builder);
        for (Map.Entry<String, byte[]> each : classes.entrySet()) {
            analyzer.analyzeClass(each.getValue(), each.getKey());
        }
        return builder.getClasses();
    }

    private static List<Integer> covered(IClassCoverage each) {
        List<Integer> lines = new ArrayList<>();
        for (int line = each.getFirstLine(); line >= 0 && line <= each.getLastLine(); line++) {
            if ((each.getLine(line).getStatus() & ICounter.FULLY_COVERED) != 0) {
                lines.add(line);
            }
        }
        return lines;
    }

    private static String line(IClassCoverage each, IMethodCoverage method) {
        List<String> missed = new ArrayList<>();
        for (int line = method.getFirstLine(); line >= 0 && line <= method.getLastLine(); line++) {
            int count = method.getLine(line).getBranchCounter().getMissedCount();
            if (count > 0) {
                missed.add("\"" + line + "\":" + count);
            }
        }
        ICounter branches = method.getBranchCounter();
        return "{\"class_name\":\"" + named(each) + "\",\"method\":\"" + method.getName() + method.getDesc() + "\",\"line\":"
                + method.getFirstLine() + ",\"branches\":" + branches.getTotalCount() + ",\"covered\":" + branches.getCoveredCount()
                + ",\"missed\":{" + String.join(",", missed) + "}}";
    }

    private static String named(IClassCoverage each) {
        return each.getName().replace('/', '.');
    }
}
