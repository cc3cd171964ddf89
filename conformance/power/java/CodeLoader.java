import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;

/** Loads Kafka's classes and the testee by itself, some of them changed; everything else comes from its parent. */
final class CodeLoader extends ClassLoader {
    private static final Map<String, byte[]> CODE = new ConcurrentHashMap<>();
    private static final ClassLoader PARENT = CodeLoader.class.getClassLoader();
    private final BiFunction<String, byte[], byte[]> change;

    /** The second argument of CHANGE is the code of the class that the first one names. */
    CodeLoader(BiFunction<String, byte[], byte[]> change) {
        super(PARENT);
        this.change = change;
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!isOwn(name))
            return super.loadClass(name, resolve);
        synchronized (getClassLoadingLock(name)) {
            Class<?> known = findLoadedClass(name);
            if (known != null)
                return known;
            byte[] code = change.apply(name, code(name));
            return defineClass(name, code, 0, code.length);
        }
    }

    private static boolean isOwn(String name) {
        return name.startsWith("org.apache.kafka.") || name.matches("(Testee|Output|Errors|Skipped)(\\$.*)?");
    }

    /** The code of a class of the class path. */
    static byte[] code(String name) throws ClassNotFoundException {
        byte[] known = CODE.get(name);
        if (known != null)
            return known;
        try (InputStream in = PARENT.getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (in == null)
                throw new ClassNotFoundException(name);
            byte[] code = in.readAllBytes();
            CODE.put(name, code);
            return code;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
