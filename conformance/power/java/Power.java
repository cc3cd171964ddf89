import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonObject;
import java.io.BufferedReader;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;

/**
 * Answers the requests of the corpus with mutants of Kafka's record classes, each in a class loader of its own.
 *
 * <pre>
 * Power list               prints each mutant as a line
 * Power run REQUESTS       prints the reply to each request, then {"ready": MUTANTS}; then takes commands
 * Power coverage REQUESTS  prints the branches of each method that the requests enter
 * </pre>
 *
 * A command is {@code run N}, which starts mutant N, or {@code more}. The answer is at most {@link #AT_ONCE} lines
 * {@code {"case": N, "reply": ...}} with replies that differ, and then {@code {"state": ...}}: more, done, hang, or
 * not-reached.
 */
public final class Power {
    private static final int AT_ONCE = 8;
    /** A case that takes longer, in nanoseconds, comes after the others. */
    private static final long LONG = 20_000_000;
    private static OutputStream out;

    private Power() {
    }

    public static void main(String[] args) throws Exception {
        out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
        System.setOut(System.err); // a library that prints must not spoil an answer
        switch (args[0]) {
            case "list":
                for (Mutants.Change change : new Mutants().all())
                    send(change.document());
                break;
            case "run":
                run(Files.readAllLines(Path.of(args[1]), UTF_8));
                break;
            case "coverage":
                for (JsonObject method : Branches.of(Files.readAllLines(Path.of(args[1]), UTF_8)))
                    send(method);
                break;
            default:
                throw new IllegalArgumentException("no command " + args[0]);
        }
        out.flush();
        System.exit(0); // a mutant's thread may still run
    }

    // --- the unchanged classes ------------------------------------------------------------------------------

    private static List<String> requests;
    private static byte[][] expected;
    private static BitSet[] lines;
    private static long[] nanos;
    /** Lines that run once, when classes are loaded: each case may depend on them. */
    private static BitSet atStart;
    private static List<Integer> order;

    private static void run(List<String> all) throws Exception {
        requests = all;
        int count = requests.size();
        expected = new byte[count][];
        lines = new BitSet[count];
        nanos = new long[count];
        order = new ArrayList<>();
        Answers plain = new Answers(new CodeLoader(Lines::traced));
        for (int at = 0; at < count; at++) {
            if (requests.get(at).length() < 100_000)
                plain.answer(requests.get(at));
        }
        BitSet first = Lines.take();
        BitSet later = new BitSet();
        for (int at = 0; at < count; at++) {
            long began = Attempt.cpuTime();
            byte[] reply = plain.answer(requests.get(at));
            nanos[at] = Attempt.cpuTime() - began;
            lines[at] = Lines.take();
            later.or(lines[at]);
            expected[at] = Answers.digest(reply);
            order.add(at);
            out.write(reply);
        }
        first.andNot(later);
        atStart = first;
        order.sort(Comparator.comparingLong(at -> nanos[at] < LONG ? 0 : nanos[at]));
        List<Mutants.Change> mutants = new Mutants().all();
        send(new JsonObject().add("ready", mutants.size()));
        out.flush();
        serve(mutants);
    }

    // --- the mutants ----------------------------------------------------------------------------------------

    private static void serve(List<Mutants.Change> mutants) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        Attempt attempt = null;
        for (String command; (command = commands.readLine()) != null; ) {
            if (command.startsWith("run ")) {
                if (attempt != null)
                    attempt.end();
                attempt = start(mutants.get(Integer.parseInt(command.substring(4))));
            }
            answer(attempt);
            out.flush();
        }
    }

    private static Attempt start(Mutants.Change change) {
        int line = Lines.number(change.className(), change.line());
        List<Integer> cases = new ArrayList<>();
        for (int at : order) {
            if (line >= 0 && (atStart.get(line) || lines[at].get(line)))
                cases.add(at);
        }
        return cases.isEmpty() ? null : new Attempt(change, cases, requests, nanos);
    }

    private static void answer(Attempt attempt) throws Exception {
        if (attempt == null) {
            send(new JsonObject().add("state", "not-reached"));
            return;
        }
        int sent = 0;
        while (sent < AT_ONCE) {
            Attempt.Reply reply = attempt.next();
            if (reply == null) {
                send(new JsonObject()
                    .add("state", attempt.hangs() ? "hang" : "done")
                    .add("case", attempt.current())
                    .add("ends", attempt.goesOn()));
                if (attempt.goesOn()) {
                    out.flush();
                    System.exit(0);
                }
                return;
            }
            if (Arrays.equals(Answers.digest(reply.text), expected[reply.number]))
                continue;
            out.write(("{\"case\":" + reply.number + ",\"reply\":").getBytes(UTF_8));
            out.write(reply.text, 0, reply.text.length - 1);
            out.write("}\n".getBytes(UTF_8));
            sent++;
        }
        send(new JsonObject().add("state", "more"));
    }

    private static void send(JsonObject document) throws IOException {
        out.write((document + "\n").getBytes(UTF_8));
    }
}
