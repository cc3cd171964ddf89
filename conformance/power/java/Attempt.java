import java.lang.management.ManagementFactory;
import java.lang.management.OperatingSystemMXBean;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;

/** One mutant answers its cases in a thread of its own, one case at a time. */
final class Attempt {
    /** Nanoseconds of CPU time that a case may take, beside ten times what it took without a change. */
    private static final long MOST = 3_000_000_000L;
    /** Seconds that a case may take in all; a case that waits for something takes no CPU time. */
    private static final long MOST_SECONDS = 120;
    private static final OperatingSystemMXBean SYSTEM = ManagementFactory.getOperatingSystemMXBean();

    /** A reply, and the number of its case. */
    static final class Reply {
        final int number;
        final byte[] text;

        Reply(int number, byte[] text) {
            this.number = number;
            this.text = text;
        }
    }

    private final List<Integer> cases;
    private final List<String> requests;
    private final long[] nanos;
    private final SynchronousQueue<Integer> todo = new SynchronousQueue<>();
    private final SynchronousQueue<Reply> done = new SynchronousQueue<>();
    private final Thread thread;
    private int at;
    private boolean hangs;

    Attempt(Mutants.Change change, List<Integer> cases, List<String> requests, long[] nanos) {
        this.cases = cases;
        this.requests = requests;
        this.nanos = nanos;
        thread = new Thread(() -> work(change), "mutant");
        thread.setDaemon(true);
        thread.start();
    }

    private void work(Mutants.Change change) {
        Answers answers = null;
        try {
            while (true) {
                int number = todo.take();
                byte[] text;
                try {
                    if (answers == null)
                        answers = new Answers(new CodeLoader(change::applied));
                    text = answers.answer(requests.get(number));
                } catch (Throwable error) { // a class that cannot be loaded is an answer
                    text = failure(error);
                }
                done.put(new Reply(number, text));
            }
        } catch (InterruptedException ended) {
            // no more cases
        }
    }

    private static byte[] failure(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        String message = cause.getClass().getName().replaceAll("[^A-Za-z0-9.$]", "");
        return ("{\"id\":\"\",\"error\":{\"kind\":\"other\",\"message\":\"" + message + "\"}}\n")
            .getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    /** The next reply; null after the last one, and if a case does not end. */
    Reply next() throws InterruptedException {
        if (hangs || at >= cases.size())
            return null;
        int number = cases.get(at);
        long before = cpuTime();
        todo.put(number);
        for (long waited = 0; waited < MOST_SECONDS * 10; waited++) {
            Reply reply = done.poll(100, TimeUnit.MILLISECONDS);
            if (reply != null) {
                at++;
                return reply;
            }
            if (cpuTime() - before > MOST + 10 * nanos[number])
                break;
        }
        hangs = true;
        stop();
        return null;
    }

    /** CPU time of this process in nanoseconds: a case that exhausts memory works in the garbage collector. */
    static long cpuTime() {
        return ((com.sun.management.OperatingSystemMXBean) SYSTEM).getProcessCpuTime();
    }

    /** The number of the last case that was sent. */
    int current() {
        return cases.get(Math.min(at, cases.size() - 1));
    }

    boolean hangs() {
        return hangs;
    }

    /** Whether the thread of a case that hangs could not be ended. */
    boolean goesOn() {
        return hangs && thread.isAlive();
    }

    void end() {
        thread.interrupt();
    }

    /** End a thread in an endless loop; where Java cannot do that any more, this process ends and is started again. */
    @SuppressWarnings({"deprecation", "removal"})
    private void stop() throws InterruptedException {
        for (int times = 0; times < 10 && thread.isAlive(); times++) {
            thread.interrupt();
            try {
                thread.stop();
            } catch (UnsupportedOperationException newer) {
                return;
            }
            thread.join(200);
        }
    }
}
