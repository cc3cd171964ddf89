package kafkaproof.vectors;

import java.util.Arrays;
import java.util.List;

/** One record; a key or value of null is not the same as an empty one. Equal are records with equal bytes. */
public record VectorRecord(long offset, long timestamp, byte[] key, byte[] value, List<Header> headers) {

    /** One header; its key may be no valid UTF-8. */
    public record Header(byte[] key, byte[] value) {

        @Override
        public boolean equals(Object other) {
            return other instanceof Header that && Arrays.equals(key, that.key) && Arrays.equals(value, that.value);
        }

        @Override
        public int hashCode() {
            return 31 * Arrays.hashCode(key) + Arrays.hashCode(value);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof VectorRecord that
                && offset == that.offset
                && timestamp == that.timestamp
                && Arrays.equals(key, that.key)
                && Arrays.equals(value, that.value)
                && headers.equals(that.headers);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(new Object[] {offset, timestamp, Arrays.hashCode(key), Arrays.hashCode(value), headers});
    }
}
