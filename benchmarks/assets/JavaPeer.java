import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Reads a log as a consumer with check.crcs does, or writes its batches with MemoryRecords.builder, over and over;
 * see peers.py for what it answers.
 */
public final class JavaPeer {
    private static final ByteBuffer BUFFER = ByteBuffer.allocate(4 << 20);
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static long records;

    private record Row(long offset, long timestamp, ByteBuffer key, ByteBuffer value, Header[] headers) {}

    private record Rows(byte magic, Compression compression, long baseOffset, List<Row> rows) {}

    public static void main(String[] args) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        LongSupplier pass = () -> read(data);
        if (args[2].equals("encode")) {
            List<Rows> log = rowsOf(data);
            pass = () -> write(log);
        }
        long warm = THREADS.getCurrentThreadCpuTime() + Long.parseLong(args[1]) * 1_000_000_000L;
        long checksum = pass.getAsLong();
        while (THREADS.getCurrentThreadCpuTime() < warm) {
            pass.getAsLong();
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            long start = THREADS.getCurrentThreadCpuTime();
            long spent;
            int passes = 0;
            do {
                if (pass.getAsLong() != checksum) {
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

    private static List<Rows> rowsOf(ByteBuffer data) {
        List<Rows> log = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches()) {
            List<Row> rows = new ArrayList<>();
            for (Record record : batch) {
                rows.add(new Row(record.offset(), record.timestamp(), record.key(), record.value(), record.headers()));
            }
            Compression compression = Compression.of(batch.compressionType()).build();
            log.add(new Rows(batch.magic(), compression, batch.baseOffset(), rows));
        }
        return log;
    }

    /** The CRCs of all batches, and their sizes, added up. */
    private static long write(List<Rows> log) {
        long checksum = 0;
        records = 0;
        for (Rows batch : log) {
            BUFFER.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(
                    BUFFER, batch.magic, batch.compression, TimestampType.CREATE_TIME, batch.baseOffset);
            for (Row row : batch.rows) {
                builder.appendWithOffset(row.offset, row.timestamp, row.key, row.value, row.headers);
            }
            ByteBuffer built = builder.build().buffer();
            records += batch.rows.size();
            checksum += (built.getInt(17) & 0xFFFFFFFFL) + built.remaining();
        }
        return checksum;
    }
}
