// A testee for Kafkaproof. Call your codec in decode, and describe it in HELLO: name, version, formats.
import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.CRC32C;

public class Testee {
    static final String HELLO = "{'protocol':1,'name':'my-codec','version':'0.1','language':'java','decode':{'magics':[2],"
        + "'compressions':['none']},'encode':{'magics':[],'compressions':[]}}";

    // ======== Your codec goes here: adds the batches in data to batches, as JSON; throws for what is refused. ========
    // This small one reads uncompressed v2 batches. What your codec does not expose is left out of the JSON.
    static void decode(ByteBuffer data, List<String> batches) {
        for (int at = 0, end; data.limit() - at >= 17; at = end) {
            end = at + 12 + data.getInt(at + 8);
            if (data.get(at + 16) != 2) throw new IllegalArgumentException("unsupported_magic");
            if (end > data.limit()) return; // a partial batch at the end is dropped
            batches.add(readBatch(data.slice(at, end - at)));
        }
    }

    static String readBatch(ByteBuffer data) {
        CRC32C crc = new CRC32C();
        crc.update(data.slice(21, data.limit() - 21));
        if ((int) crc.getValue() != data.getInt(17)) throw new IllegalArgumentException("corrupt");
        long base = data.getLong(0), first = data.getLong(27);
        List<String> records = new ArrayList<>();
        data.position(61);
        for (int left = data.getInt(57); left > 0; left--) {
            long skipped = varint(data) + data.get(); // the record's length, and its attributes
            String record = "{'timestamp':%d,'offset':%d,'key':%s,'value':%s,'headers':".formatted(
                first + varint(data), base + varint(data), bytes(data), bytes(data));
            List<String> headers = new ArrayList<>();
            for (long more = varint(data); more > 0; more--) headers.add("[" + bytes(data) + "," + bytes(data) + "]");
            records.add(record + headers + "}");
        }
        return "{'magic':2,'base_offset':%d,'compression':'none','records':%s}".formatted(base, records);
    }

    static long varint(ByteBuffer data) {
        long number = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            byte next = data.get();
            number |= (next & 0x7fL) << shift;
            if (next >= 0) return number >>> 1 ^ -(number & 1); // zig-zag
        }
        throw new IllegalArgumentException("malformed");
    }

    static String bytes(ByteBuffer data) {
        int size = (int) varint(data);
        if (size > data.remaining()) throw new IllegalArgumentException("malformed"); // before memory is taken for it
        byte[] copy = new byte[Math.max(size, 0)];
        data.get(copy);
        return size < 0 ? "null" : "'" + Base64.getEncoder().encodeToString(copy) + "'";
    }

    // ======== From here on nothing has to be changed. ========
    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String op = field(line, "op"), id = field(line, "id"), error = "";
            List<String> batches = new ArrayList<>();
            try {
                if (op.equals("decode")) decode(ByteBuffer.wrap(Base64.getDecoder().decode(field(line, "data"))), batches);
            } catch (RuntimeException refused) { // those above name a kind; say here what yours mean
                String kind = refused instanceof IllegalArgumentException ? refused.getMessage() : "malformed";
                error = ",'error':{'kind':'" + kind + "'}";
            }
            String answer = op.equals("decode") ? "'batches':" + batches + error : "'skipped':'no " + op + " here'";
            System.out.println((op.equals("hello") ? HELLO : "{'id':'" + id + "'," + answer + "}").replace('\'', '"'));
        }
    }

    static String field(String line, String name) {
        String[] parts = line.split("\"" + name + "\":\"", 2);
        return parts.length < 2 ? "" : parts[1].substring(0, parts[1].indexOf('"'));
    }
}
