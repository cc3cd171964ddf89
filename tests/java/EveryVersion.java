import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consumes and produces with the Kafka client on the class path, by what all releases from 0.10.2 to 4.4 have.
 *
 * <p>Lines of standard input are answered by one line each: `versions API` by the oldest and the newest version that
 * the client speaks; `fetch BOOTSTRAP COUNT` by the records of the topic, as offset:timestamp:key:value; `produce
 * BOOTSTRAP TIMESTAMP KEY=VALUE…` by `done`.  Keys and values of records that are read are base64.
 */
public final class EveryVersion {
    private static final String TOPIC = "versions";
    private static final long TIME_LIMIT_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            String answer;
            try {
                answer = answer(words);
            } catch (Exception error) {
                answer = "error " + String.valueOf(error).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "versions":
                return versions(ApiKeys.valueOf(words[1]));
            case "fetch":
                return fetch(words[1], Integer.parseInt(words[2]));
            default:
                return produce(words);
        }
    }

    /** By the methods of ApiKeys, or in 0.10 by those of ProtoUtils. */
    private static String versions(ApiKeys api) throws Exception {
        try {
            Object oldest = ApiKeys.class.getMethod("oldestVersion").invoke(api);
            return oldest + " " + ApiKeys.class.getMethod("latestVersion").invoke(api);
        } catch (NoSuchMethodException before) {
            Class<?> utils = Class.forName("org.apache.kafka.common.protocol.ProtoUtils");
            int id = ApiKeys.class.getField("id").getShort(api);
            Object oldest = utils.getMethod("oldestVersion", int.class).invoke(null, id);
            return oldest + " " + utils.getMethod("latestVersion", int.class).invoke(null, id);
        }
    }

    private static String fetch(String bootstrap, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "50");
        StringBuilder found = new StringBuilder();
        long end = System.currentTimeMillis() + TIME_LIMIT_MS;
        int read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            TopicPartition partition = new TopicPartition(TOPIC, 0);
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            while (read < count) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("no more than " + read + " records came");
                }
                for (Object each : poll(consumer)) {
                    @SuppressWarnings("unchecked")
                    ConsumerRecord<byte[], byte[]> record = (ConsumerRecord<byte[], byte[]>) each;
                    found.append(read++ == 0 ? "" : " ").append(record.offset()).append(':').append(record.timestamp());
                    found.append(':').append(text(record.key())).append(':').append(text(record.value()));
                }
            }
        }
        return found.toString();
    }

    private static Iterable<?> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            Method current = KafkaConsumer.class.getMethod("poll", Duration.class);
            return (Iterable<?>) current.invoke(consumer, Duration.ofMillis(100));
        } catch (NoSuchMethodException before) {
            return (Iterable<?>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 100L);
        }
    }

    private static String produce(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[1]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("enable.idempotence", "false");
        settings.put("acks", "1");
        settings.put("linger.ms", "200");
        settings.put("max.block.ms", "10000");
        long timestamp = Long.parseLong(words[2]);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            java.util.List<java.util.concurrent.Future<?>> sent = new java.util.ArrayList<>();
            for (int at = 3; at < words.length; at++) {
                String[] pair = words[at].split("=", 2);
                byte[] key = pair[0].getBytes("UTF-8");
                byte[] value = pair[1].isEmpty() ? null : pair[1].getBytes("UTF-8");
                sent.add(producer.send(new ProducerRecord<>(TOPIC, 0, timestamp + at - 3, key, value)));
            }
            producer.flush();
            for (java.util.concurrent.Future<?> each : sent) {
                each.get();
            }
        }
        return "done";
    }

    private static String text(byte[] data) {
        return data == null ? "null" : Base64.getEncoder().encodeToString(data);
    }

    private EveryVersion() {
    }
}
