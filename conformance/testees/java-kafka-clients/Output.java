import static java.nio.charset.StandardCharsets.UTF_8;

import com.eclipsesource.json.Json;
import com.eclipsesource.json.JsonArray;
import com.eclipsesource.json.JsonObject;
import com.eclipsesource.json.JsonValue;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;

/** JSON as UTF-8, in one buffer that is used again: replies of hundreds of kilobytes are built all the time. */
final class Output {
    private static final int SMALL = 1 << 16;
    private static final int LARGE = 1 << 26;
    private byte[] bytes = new byte[SMALL];
    private int count;

    void write(JsonValue value) {
        if (value.isObject())
            writeObject(value.asObject());
        else if (value.isArray())
            writeArray(value.asArray());
        else if (value.isString())
            writeString(value.asString());
        else
            writeText(value.toString()); // a number or a literal
    }

    private void writeObject(JsonObject object) {
        writeByte('{');
        writeMembers(object);
        writeByte('}');
    }

    void writeMembers(JsonObject object) {
        for (JsonObject.Member member : object) {
            next();
            writeString(member.getName());
            writeByte(':');
            write(member.getValue());
        }
    }

    /** Before the next element of an array, and the next member of an object. */
    void next() {
        if (bytes[count - 1] != '[' && bytes[count - 1] != '{')
            writeByte(',');
    }

    int length() {
        return count;
    }

    /** Of what was written no more than the first so many bytes. */
    void keep(int length) {
        count = length;
        if (bytes.length > LARGE)
            bytes = Arrays.copyOf(bytes, Math.max(length, SMALL));
    }

    private void writeArray(JsonArray array) {
        writeByte('[');
        for (JsonValue value : array) {
            next();
            write(value);
        }
        writeByte(']');
    }

    private void writeString(String text) {
        byte[] more = text.getBytes(UTF_8);
        for (byte next : more) {
            if (next < ' ' || next == '"' || next == '\\' || next == 0x7f) {
                writeText(Json.value(text).toString()); // what has to be escaped, or is not ASCII, is rare
                return;
            }
        }
        writeByte('"');
        writeBytes(more);
        writeByte('"');
    }

    void writeText(String text) {
        writeBytes(text.getBytes(UTF_8));
    }

    void writeBase64(ByteBuffer data) {
        if (data == null) {
            writeText("null");
            return;
        }
        writeByte('"');
        writeBytes(Base64.getEncoder().encode(data.duplicate()).array());
        writeByte('"');
    }

    private void writeBytes(byte[] more) {
        room(more.length);
        System.arraycopy(more, 0, bytes, count, more.length);
        count += more.length;
    }

    private void writeByte(char ascii) {
        room(1);
        bytes[count++] = (byte) ascii;
    }

    private void room(int length) {
        if (count + length > bytes.length)
            bytes = Arrays.copyOf(bytes, Math.max(count + length, 2 * bytes.length));
    }

    void sendLine(OutputStream out) throws IOException {
        writeByte('\n');
        out.write(bytes, 0, count);
        keep(0);
    }
}
