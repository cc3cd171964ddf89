package kafkaproof.vectors;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** One question to a codec or a broker, and its right answer. Arrays are shared: do not change them. */
public record Case(
        String id,
        String sha256,
        String title,
        String area,
        String op,
        List<String> rules,
        List<String> refs,
        String since,
        String supersedes,
        Facts facts,
        Input input,
        Expect expect) {

    /** What the judge of Kafkaproof knows of a case besides the right answer. */
    public record Facts(
            String profile,
            boolean required,
            String reach,
            String strength,
            List<Integer> magics,
            List<String> compressions) {}

    /**
     * One of data, batch and scenario; the others are null.
     *
     * @param aborted producer id and first offset of each aborted transaction; null if the case is not about them
     */
    public record Input(byte[] data, Batch batch, Scenario scenario, List<long[]> aborted) {}

    /**
     * The right answer.
     *
     * @param verdict valid, invalid or acceptable
     * @param committed offsets that a read_committed consumer sees, if the input has aborted transactions; else null
     */
    public record Expect(
            String verdict,
            List<Batch> batches,
            byte[] data,
            List<String> kinds,
            String compare,
            String why,
            List<StepAnswer> answers,
            List<Long> committed) {

        public Expect {
            batches = batches == null ? List.of() : batches;
            answers = answers == null ? List.of() : answers;
            why = why == null ? "" : why;
        }

        /** The records of all batches, those of control batches included or not. */
        public List<VectorRecord> records(boolean withControl) {
            Stream<Batch> chosen = batches.stream().filter(batch -> withControl || !batch.control());
            return chosen.flatMap(batch -> batch.records().stream()).toList();
        }
    }

    /**
     * One entry of a log: a v2 batch, a v0 or v1 message, or a wrapper with its inner messages as records.
     *
     * <p>Integers are wider than in the format: cases that must be refused have values beyond it.
     */
    public record Batch(
            int magic,
            long baseOffset,
            long lastOffset,
            String compression,
            String timestampType,
            long maxTimestamp,
            long producerId,
            int producerEpoch,
            long baseSequence,
            boolean transactional,
            boolean control,
            long partitionLeaderEpoch,
            Long deleteHorizon,
            List<VectorRecord> records) {}

    /** The steps to run on a broker's empty partition; config are the topic's settings. */
    public record Scenario(List<Step> steps, Map<String, String> config, String since, String until) {

        public Scenario {
            config = config == null ? Map.of() : config;
            since = since == null ? "" : since;
            until = until == null ? "" : until;
        }
    }

    /** One step of a scenario; action names it, and says which of the fields count. */
    public record Step(
            @com.google.gson.annotations.SerializedName("do") String action,
            byte[] data,
            byte[] again,
            byte[] beside,
            int apiVersion,
            int acks,
            String producer,
            int epochsBack,
            Integer epochsAhead,
            int coordinatorEpoch,
            int transactionVersion,
            boolean transactional,
            String topic,
            boolean commit,
            long offset,
            long timestamp,
            String isolation,
            Integer maxBytes,
            long at,
            boolean clean,
            boolean cut,
            boolean fatal,
            Map<String, byte[]> files) {

        /** Files of the partition change in a restart: new content by name; null removes one. */
        public Step {
            files = files == null ? Map.of() : files;
        }
    }

    /** A broker's answer to one step. */
    public record StepAnswer(
            int errorCode,
            long baseOffset,
            long logAppendTime,
            byte[] data,
            List<Integer> recordErrors,
            long highWatermark,
            long lastStableOffset,
            List<Aborted> aborted,
            String text,
            Integer beside,
            boolean closed,
            boolean silent,
            boolean ended) {}

    /** An aborted transaction in a fetch response. */
    public record Aborted(long producerId, long firstOffset) {}
}
