import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.security.MessageDigest;

/** The testee of one class loader: a request becomes its reply, as {@code Testee.main} does it. */
final class Answers {
    private final Method reply;
    private final Method send;
    private final Object output;

    Answers(CodeLoader loader) throws ReflectiveOperationException {
        Class<?> type = loader.loadClass("Output");
        reply = loader.loadClass("Testee").getDeclaredMethod("reply", String.class, type);
        send = type.getDeclaredMethod("sendLine", OutputStream.class);
        Constructor<?> constructor = type.getDeclaredConstructor();
        for (java.lang.reflect.AccessibleObject each : new java.lang.reflect.AccessibleObject[] {reply, send, constructor})
            each.setAccessible(true);
        output = constructor.newInstance();
    }

    /** The reply to REQUEST, with the end of the line. */
    byte[] answer(String request) throws ReflectiveOperationException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        reply.invoke(null, request, output);
        send.invoke(output, line);
        return line.toByteArray();
    }

    static byte[] digest(byte[] reply) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(reply);
    }
}
