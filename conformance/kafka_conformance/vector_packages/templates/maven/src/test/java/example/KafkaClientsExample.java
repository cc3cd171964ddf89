package example;
import java.nio.ByteBuffer;
import java.util.*;
import kafkaproof.vectors.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Utils;
public class KafkaClientsExample {
    public static void main(String[] arguments) {
        System.out.println(Judge.run(Vectors.cases(Filter.all().profiles("consumer", "consumer-legacy", "integrity")), data -> {
            List<VectorRecord> records = new ArrayList<>();
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                for (var each : batch) records.add(new VectorRecord(each.offset(), each.timestamp(), Utils.toNullableArray(each.key()),
                    Utils.toNullableArray(each.value()), Arrays.stream(each.headers())
                        .map(header -> new VectorRecord.Header(Utils.utf8(header.key()), header.value())).toList()));
            }
            return records;
        }));
    }
}
