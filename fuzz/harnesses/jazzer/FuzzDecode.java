import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashSet;
import java.util.Set;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Harness of an external engine: Jazzer runs kafka-clients on a campaign's corpus.
 *
 * <p>Jazzer takes no mutator, so the harness corrects sizes and checksums; {@code kafkaproof fuzz engine jazzer} corrects
 * the inputs that Jazzer keeps in the same way. An unexpected exception is written to a file, and fuzzing continues.
 */
public final class FuzzDecode {
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    private static final Path FOLDER = Paths.get(System.getenv("KAFKAPROOF_CRASHES"));
    private static final Set<String> SEEN = new HashSet<>();

    public static void fuzzerTestOneInput(byte[] data) throws IOException {
        byte[] log = fixedUp(data);
        try {
            read(log);
        } catch (KafkaException | IllegalArgumentException expected) {
            // Kafka's own errors, among them an unknown compression type
        } catch (Throwable leak) {
            keep(leak, log);
        }
    }

    private static void read(byte[] log) {
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(log)).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> records = batch.streamingIterator(BUFFERS)) {
                while (records.hasNext()) {
                    Record record = records.next();
                    record.ensureValid();
                    for (Header header : record.headers())
                        header.key();
                }
            }
        }
    }

    /** The log with the true size and checksum in each entry; bytes after the last whole entry become part of one. */
    static byte[] fixedUp(byte[] data) {
        byte[] log = data.clone();
        ByteBuffer buffer = ByteBuffer.wrap(log);
        for (int at = 0; log.length - at >= 12; ) {
            int size = buffer.getInt(at + 8);
            int end = at + 12 + size;
            if (size < 0 || end < 0 || end > log.length) {
                end = log.length;
                buffer.putInt(at + 8, end - at - 12);
            }
            if (end - at >= 21) {
                boolean v2 = log[at + 16] == 2;
                int start = at + (v2 ? 21 : 16);
                Checksum checksum = v2 ? new CRC32C() : new CRC32();
                checksum.update(log, start, end - start);
                buffer.putInt(at + (v2 ? 17 : 12), (int) checksum.getValue());
            }
            at = end;
        }
        return log;
    }

    private static void keep(Throwable leak, byte[] log) throws IOException {
        StackTraceElement[] stack = leak.getStackTrace();
        String where = leak.getClass().getName() + (stack.length == 0 ? "" : " " + stack[0]);
        if (!SEEN.add(where))
            return;
        StringWriter text = new StringWriter();
        leak.printStackTrace(new PrintWriter(text));
        String name = "leak-" + ProcessHandle.current().pid() + "-" + SEEN.size();
        Files.write(FOLDER.resolve(name + ".bin"), log);
        Files.writeString(FOLDER.resolve(name + ".txt"), text.toString());
    }
}
