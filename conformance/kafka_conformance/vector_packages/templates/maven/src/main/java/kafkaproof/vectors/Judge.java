package kafkaproof.vectors;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** Runs decode cases against a decoder and compares what it gives with the right answer. */
public final class Judge {
    private Judge() {}

    /** Gives all records in data, or throws what refuses it. */
    @FunctionalInterface
    public interface Decoder {
        List<VectorRecord> decode(byte[] data) throws Exception;
    }

    /** The result of one case; all but AGREE are findings. CRASH is an Error, as StackOverflowError. */
    public enum Outcome {
        AGREE,
        WRONG_DATA,
        REJECTS_VALID,
        ACCEPTS_INVALID,
        CRASH
    }

    /** A case on which a decoder disagrees; error is null if it threw nothing. */
    public record Finding(Case vector, Outcome outcome, Throwable error) {}

    /** How often each outcome occurred, and all findings. */
    public record Report(Map<Outcome, Integer> counts, List<Finding> findings) {
        @Override
        public String toString() {
            return counts.entrySet().stream()
                    .map(each -> each.getValue() + " " + each.getKey().name().toLowerCase(Locale.ROOT))
                    .collect(Collectors.joining(", "));
        }
    }

    /** Call the decoder for each decode case and judge what it gives. */
    public static Report run(List<Case> cases, Decoder decoder) {
        Map<Outcome, Integer> counts = new EnumMap<>(Outcome.class);
        for (Outcome each : Outcome.values()) counts.put(each, 0);
        List<Finding> findings = new ArrayList<>();
        for (Case each : cases) {
            if (!each.op().equals("decode")) continue;
            List<VectorRecord> records = null;
            Throwable error = null;
            try {
                records = decoder.decode(each.input().data().clone());
            } catch (Exception | StackOverflowError | OutOfMemoryError | LinkageError | AssertionError thrown) {
                error = thrown;
            }
            Outcome outcome = error instanceof Error ? Outcome.CRASH : judge(each, records);
            counts.merge(outcome, 1, Integer::sum);
            if (outcome != Outcome.AGREE) findings.add(new Finding(each, outcome, error));
        }
        return new Report(counts, findings);
    }

    /** Compare records with the right answer; null means that the decoder refused. Control records may be left out. */
    public static Outcome judge(Case each, List<VectorRecord> records) {
        Case.Expect expect = each.expect();
        if (expect.verdict().equals("invalid")) return records == null ? Outcome.AGREE : Outcome.ACCEPTS_INVALID;
        if (records == null) return expect.verdict().equals("valid") ? Outcome.REJECTS_VALID : Outcome.AGREE;
        boolean right = records.equals(expect.records(true)) || records.equals(expect.records(false));
        return right ? Outcome.AGREE : Outcome.WRONG_DATA;
    }
}
