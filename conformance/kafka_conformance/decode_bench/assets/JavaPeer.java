import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/** Reads a log as a consumer with check.crcs does, over and over; see peers.py for what it answers. */
public final class JavaPeer {
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static long records;

    public static void main(String[] args) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        long warm = THREADS.getCurrentThreadCpuTime() + Long.parseLong(args[1]) * 1_000_000_000L;
        long checksum = read(data);
        while (THREADS.getCurrentThreadCpuTime() < warm) {
            read(data);
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            long start = THREADS.getCurrentThreadCpuTime();
            long spent;
            int passes = 0;
            do {
                if (read(data) != checksum) {
                    throw new AssertionError();
                }
                passes++;
                spent = THREADS.getCurrentThreadCpuTime() - start;
            } while (spent < 50_000_000L);
            System.out.println(records + " " + (checksum & Long.MAX_VALUE) + " " + spent / passes);
        }
    }

    private static long read(ByteBuffer data) {
        long checksum = 0;
        records = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(BUFFERS)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    records++;
                    checksum += record.offset() + record.timestamp();
                    checksum += size(record.key()) + size(record.value());
                    for (Header header : record.headers()) {
                        checksum += header.key().length() + (header.value() == null ? 0 : header.value().length);
                    }
                }
            }
        }
        return checksum;
    }

    private static int size(ByteBuffer bytes) {
        return bytes == null ? 0 : bytes.remaining();
    }
}
