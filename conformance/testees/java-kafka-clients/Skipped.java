/** A request that cannot be put to this codec. */
final class Skipped extends RuntimeException {
    Skipped(String reason) {
        super(reason, null, false, false);
    }
}
