import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/** Writes the batches of a log with MemoryRecords.builder, over and over; see peers.py for what it answers. */
public final class JavaEncodingPeer {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final ByteBuffer BUFFER = ByteBuffer.allocate(4 << 20);
    private static long records;

    private record Row(long offset, long timestamp, ByteBuffer key, ByteBuffer value, Header[] headers) {}

    private record Rows(byte magic, Compression compression, long baseOffset, List<Row> rows) {}

    public static void main(String[] args) throws Exception {
        List<Rows> log = new ArrayList<>();
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data).batches())
            log.add(rowsOf(batch));
        long warm = THREADS.getCurrentThreadCpuTime() + Long.parseLong(args[1]) * 1_000_000_000L;
        long checksum = write(log);
        while (THREADS.getCurrentThreadCpuTime() < warm)
            write(log);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            long start = THREADS.getCurrentThreadCpuTime();
            long spent;
            int passes = 0;
            do {
                if (write(log) != checksum)
                    throw new AssertionError();
                passes++;
                spent = THREADS.getCurrentThreadCpuTime() - start;
            } while (spent < 50_000_000L);
            System.out.println(records + " " + checksum + " " + spent / passes);
        }
    }

    private static Rows rowsOf(MutableRecordBatch batch) {
        List<Row> rows = new ArrayList<>();
        for (Record record : batch)
            rows.add(new Row(record.offset(), record.timestamp(), record.key(), record.value(), record.headers()));
        Compression compression = Compression.of(batch.compressionType()).build();
        return new Rows(batch.magic(), compression, batch.baseOffset(), rows);
    }

    /** The CRCs of all batches, and their sizes, added up: so all bytes of all batches that a CRC covers. */
    private static long write(List<Rows> log) {
        long checksum = 0;
        records = 0;
        for (Rows batch : log) {
            BUFFER.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(
                BUFFER, batch.magic, batch.compression, TimestampType.CREATE_TIME, batch.baseOffset);
            for (Row row : batch.rows)
                builder.appendWithOffset(row.offset, row.timestamp, row.key, row.value, row.headers);
            ByteBuffer built = builder.build().buffer();
            records += batch.rows.size();
            checksum += (built.getInt(17) & 0xFFFFFFFFL) + built.remaining();
        }
        return checksum;
    }
}
