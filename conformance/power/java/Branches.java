import com.eclipsesource.json.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.jacoco.core.analysis.Analyzer;
import org.jacoco.core.analysis.CoverageBuilder;
import org.jacoco.core.analysis.IClassCoverage;
import org.jacoco.core.analysis.ILine;
import org.jacoco.core.analysis.IMethodCoverage;
import org.jacoco.core.data.ExecutionDataStore;
import org.jacoco.core.data.SessionInfoStore;
import org.jacoco.core.instr.Instrumenter;
import org.jacoco.core.runtime.LoggerRuntime;
import org.jacoco.core.runtime.RuntimeData;

/** Branches of Kafka's classes that requests take, by JaCoCo. */
final class Branches {
    private Branches() {
    }

    /** One document for each method that REQUESTS enter. */
    static List<JsonObject> of(List<String> requests) throws Exception {
        LoggerRuntime runtime = new LoggerRuntime();
        Instrumenter instrumenter = new Instrumenter(runtime);
        List<String> classes = Mutants.classes();
        CodeLoader loader = new CodeLoader((name, code) -> {
            try {
                return classes.contains(name) ? instrumenter.instrument(code, name) : code;
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        });
        RuntimeData data = new RuntimeData();
        runtime.startup(data);
        Answers answers = new Answers(loader);
        for (String request : requests)
            answers.answer(request);
        ExecutionDataStore taken = new ExecutionDataStore();
        data.collect(taken, new SessionInfoStore(), false);
        runtime.shutdown();
        CoverageBuilder builder = new CoverageBuilder();
        Analyzer analyzer = new Analyzer(taken, builder);
        for (String name : classes)
            analyzer.analyzeClass(CodeLoader.code(name), name);
        return methods(builder);
    }

    private static List<JsonObject> methods(CoverageBuilder builder) {
        List<JsonObject> found = new ArrayList<>();
        for (IClassCoverage type : builder.getClasses()) {
            for (IMethodCoverage method : type.getMethods()) {
                if (method.getInstructionCounter().getCoveredCount() > 0)
                    found.add(document(type, method));
            }
        }
        return found;
    }

    private static JsonObject document(IClassCoverage type, IMethodCoverage method) {
        JsonObject missed = new JsonObject();
        for (int line = method.getFirstLine(); line >= 0 && line <= method.getLastLine(); line++) {
            ILine here = method.getLine(line);
            if (here.getBranchCounter().getMissedCount() > 0)
                missed.add(Integer.toString(line), here.getBranchCounter().getMissedCount());
        }
        return new JsonObject()
            .add("class_name", type.getName().replace('/', '.'))
            .add("method", method.getName() + method.getDesc())
            .add("line", method.getFirstLine())
            .add("branches", method.getBranchCounter().getTotalCount())
            .add("covered", method.getBranchCounter().getCoveredCount())
            .add("missed", missed);
    }
}
