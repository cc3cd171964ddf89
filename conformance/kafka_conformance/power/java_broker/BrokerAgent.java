import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.ProtectionDomain;
import java.util.List;

/**
 * Java agent in a broker: replaces the code of classes while the broker runs, and writes JaCoCo's execution data.
 *
 * The argument is a folder. The file `port` there gets the port for commands. If the file `active` is there, each two
 * lines are a class and a class file that replaces it from the start, so that recovery runs the replaced code too.
 */
public final class BrokerAgent {
    private BrokerAgent() {
    }

    public static void premain(String argument, Instrumentation instrumentation) throws IOException {
        Path folder = Path.of(argument);
        Path active = folder.resolve("active");
        if (Files.exists(active)) {
            List<String> lines = Files.readAllLines(active);
            for (int at = 0; at < lines.size(); at += 2) {
                byte[] code = Files.readAllBytes(Path.of(lines.get(at + 1)));
                instrumentation.addTransformer(new FromTheStart(lines.get(at), code));
            }
        }
        ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Path written = folder.resolve("port.new");
        Files.writeString(written, Integer.toString(server.getLocalPort()));
        Files.move(written, folder.resolve("port"), StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
        Thread thread = new Thread(() -> serve(server, instrumentation), "kafkaproof-agent");
        thread.setDaemon(true);
        thread.start();
    }

    private static void serve(ServerSocket server, Instrumentation instrumentation) {
        while (true) {
            try (Socket socket = server.accept();
                    BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                    PrintStream out = new PrintStream(socket.getOutputStream(), true, StandardCharsets.UTF_8)) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    out.println(answer(line.split("\t"), instrumentation));
                }
            } catch (IOException gone) {
                // The next connection is served.
            }
        }
    }

    private static String answer(String[] words, Instrumentation instrumentation) {
        try {
            if (words[0].equals("replace")) {
                Class<?> target = Class.forName(words[1], false, ClassLoader.getSystemClassLoader());
                instrumentation.redefineClasses(new ClassDefinition(target, Files.readAllBytes(Path.of(words[2]))));
            } else {
                Files.write(Path.of(words[1]), executionData());
            }
            return "done";
        } catch (Throwable error) {
            return String.valueOf(error).lines().findFirst().orElse("");
        }
    }

    /** What JaCoCo's agent saw since the last call. */
    private static byte[] executionData() throws ReflectiveOperationException {
        Object agent = Class.forName("org.jacoco.agent.rt.RT").getMethod("getAgent").invoke(null);
        Class<?> type = Class.forName("org.jacoco.agent.rt.IAgent");
        return (byte[]) type.getMethod("getExecutionData", boolean.class).invoke(agent, true);
    }

    /** Replaces a class when it is loaded. */
    private record FromTheStart(String name, byte[] code) implements ClassFileTransformer {
        @Override
        public byte[] transform(ClassLoader loader, String loaded, Class<?> redefined, ProtectionDomain domain, byte[] old) {
            return redefined == null && name.replace('.', '/').equals(loaded) ? code : null;
        }
    }
}
