import io.kroxylicious.kafka.transform.RecordStream;
import io.kroxylicious.kafka.transform.RecordTransform;
import io.kroxylicious.proxy.filter.FetchResponseFilter;
import io.kroxylicious.proxy.filter.Filter;
import io.kroxylicious.proxy.filter.FilterContext;
import io.kroxylicious.proxy.filter.FilterFactory;
import io.kroxylicious.proxy.filter.FilterFactoryContext;
import io.kroxylicious.proxy.filter.ProduceRequestFilter;
import io.kroxylicious.proxy.filter.RequestFilterResult;
import io.kroxylicious.proxy.filter.ResponseFilterResult;
import io.kroxylicious.proxy.plugin.Plugin;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;

/** A filter of Kafkaproof's that turns `v` in values into `V`, by the library that filters of Kroxylicious use for records. */
@Plugin(configType = Void.class)
public final class Values implements FilterFactory<Void, Void> {
    @Override
    public Void initialize(FilterFactoryContext context, Void configuration) {
        return null;
    }

    @Override
    public Filter createFilter(FilterFactoryContext context, Void configuration) {
        return new Both();
    }

    private static final class Both implements ProduceRequestFilter, FetchResponseFilter {
        @Override
        public CompletionStage<RequestFilterResult> onProduceRequest(
                short version, RequestHeaderData header, ProduceRequestData request, FilterContext context) {
            request.topicData().forEach(topic -> topic.partitionData().forEach(
                    each -> each.setRecords(changed(each.records(), context))));
            return context.forwardRequest(header, request);
        }

        @Override
        public CompletionStage<ResponseFilterResult> onFetchResponse(
                short version, ResponseHeaderData header, FetchResponseData response, FilterContext context) {
            response.responses().forEach(topic -> topic.partitions().forEach(
                    each -> each.setRecords(changed(each.records(), context))));
            return context.forwardResponse(header, response);
        }
    }

    private static BaseRecords changed(BaseRecords records, FilterContext context) {
        if (!(records instanceof MemoryRecords memory) || memory.sizeInBytes() == 0) {
            return records;
        }
        return RecordStream.ofRecords(memory).toMemoryRecords(
                context.createByteBufferOutputStream(memory.sizeInBytes()), new CapitalV());
    }

    private static final class CapitalV implements RecordTransform<Void> {
        @Override
        public void initBatch(RecordBatch batch) {
        }

        @Override
        public void init(Void state, Record record) {
        }

        @Override
        public void resetAfterTransform(Void state, Record record) {
        }

        @Override
        public long transformOffset(Record record) {
            return record.offset();
        }

        @Override
        public long transformTimestamp(Record record) {
            return record.timestamp();
        }

        @Override
        public ByteBuffer transformKey(Record record) {
            return record.key();
        }

        @Override
        public ByteBuffer transformValue(Record record) {
            if (!record.hasValue()) {
                return null;
            }
            ByteBuffer before = record.value();
            byte[] value = new byte[before.remaining()];
            before.get(value);
            for (int i = 0; i < value.length; i++) {
                value[i] = value[i] == 'v' ? (byte) 'V' : value[i];
            }
            return ByteBuffer.wrap(value);
        }

        @Override
        public Header[] transformHeaders(Record record) {
            return record.headers();
        }
    }
}
