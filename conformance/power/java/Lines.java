import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Records the lines of Kafka's classes that run. */
public final class Lines {
    private static final Map<String, Integer> NUMBERS = new HashMap<>();
    private static BitSet taken = new BitSet();

    private Lines() {
    }

    /** Called by traced code. */
    public static void hit(int number) {
        taken.set(number);
    }

    /** The lines since the last call. */
    static BitSet take() {
        BitSet lines = taken;
        taken = new BitSet();
        return lines;
    }

    /** The number of a line; -1 if its class was not loaded. */
    static int number(String className, int line) {
        return NUMBERS.getOrDefault(className + ":" + line, -1);
    }

    /** The code of a class with a call of {@link #hit} at the start of each line. */
    static byte[] traced(String name, byte[] code) {
        if (!name.startsWith("org.apache.kafka.common."))
            return code;
        ClassReader reader = new ClassReader(code);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_FRAMES);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String method, String type, String signature, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, method, type, signature, thrown);
                return new MethodVisitor(Opcodes.ASM9, next) {
                    @Override
                    public void visitLineNumber(int line, Label start) {
                        super.visitLineNumber(line, start);
                        int number = NUMBERS.computeIfAbsent(name + ":" + line, key -> NUMBERS.size());
                        visitLdcInsn(number);
                        visitMethodInsn(Opcodes.INVOKESTATIC, "Lines", "hit", "(I)V", false);
                    }
                };
            }
        }, ClassReader.SKIP_FRAMES);
        return writer.toByteArray();
    }
}
