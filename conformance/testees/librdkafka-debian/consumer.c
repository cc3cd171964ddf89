/* A consumer of librdkafka in C, with the library's default options.  The requests are those of
 * kafka_conformance/process/client_testee.py. */

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a flood of records the first are shown; the consumer reads on to its end. */
#define SHOWN (16 << 20)
#define TEXT 256

static const char *const able = "{\"magics\":[0,1,2],\"compressions\":[\"none\",\"gzip\",\"snappy\",\"lz4\",\"zstd\"]}";

/* The text of a member of the request, whose values have no escapes. */
static void member(const char *line, const char *name, char *value) {
	char quoted[TEXT];
	snprintf(quoted, sizeof quoted, "\"%s\":\"", name);
	const char *start = strstr(line, quoted);
	value[0] = '\0';
	if (start)
		sscanf(start + strlen(quoted), "%255[^\"]", value);
}

static void write_base64(const unsigned char *bytes, size_t size) {
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	if (!bytes) {
		fputs("null", stdout);
		return;
	}
	putchar('"');
	for (size_t at = 0; at < size; at += 3) {
		unsigned three = bytes[at] << 16 | (at + 1 < size ? bytes[at + 1] << 8 : 0) | (at + 2 < size ? bytes[at + 2] : 0);
		putchar(digits[three >> 18]);
		putchar(digits[three >> 12 & 63]);
		putchar(at + 1 < size ? digits[three >> 6 & 63] : '=');
		putchar(at + 2 < size ? digits[three & 63] : '=');
	}
	putchar('"');
}

static void write_text(const char *text) {
	putchar('"');
	for (; *text; text++)
		*text < ' ' || *text == '"' || *text == '\\' ? printf("\\u%04x", (unsigned char)*text) : putchar(*text);
	putchar('"');
}

static void write_record(const rd_kafka_message_t *message, const rd_kafka_headers_t *headers, bool first) {
	rd_kafka_timestamp_type_t type;
	int64_t timestamp = rd_kafka_message_timestamp(message, &type);
	printf("%s{\"offset\":%lld,\"timestamp\":%lld,\"key\":", first ? "" : ",", (long long)message->offset,
	       type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1LL : (long long)timestamp);
	write_base64(message->key, message->key_len);
	fputs(",\"value\":", stdout);
	write_base64(message->payload, message->len);
	fputs(",\"headers\":[", stdout);
	const char *name;
	const void *value;
	size_t size;
	for (size_t at = 0; headers && !rd_kafka_header_get_all(headers, at, &name, &value, &size); at++) {
		fputs(at ? ",[" : "[", stdout);
		write_base64((const unsigned char *)name, strlen(name));
		putchar(',');
		write_base64(value, size);
		putchar(']');
	}
	fputs("]}", stdout);
}

/* The kinds of its error codes for bytes; any other is "other". */
static const char *kind(const rd_kafka_message_t *message) {
	const char *text = rd_kafka_message_errstr(message);
	switch (message->err) {
	case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
		return "decompression";
	case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
		return strstr(text, "MagicByte") ? "unsupported_magic" : "unsupported_compression";
	case RD_KAFKA_RESP_ERR__BAD_MSG:
		return strstr(text, "CRC") ? "corrupt" : "malformed";
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
		return "truncated";
	default:
		return "other";
	}
}

static void write_error(const char *kind, const char *text) {
	printf("],\"error\":{\"kind\":\"%s\",\"message\":", kind);
	write_text(text);
	fputs("}}\n", stdout);
}

static rd_kafka_t *started(const char *bootstrap) {
	char error[TEXT];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error);
	rd_kafka_conf_set(conf, "group.id", "kafkaproof", error, sizeof error);
	rd_kafka_conf_set(conf, "enable.auto.commit", "false", error, sizeof error);
	rd_kafka_conf_set(conf, "log_level", "0", error, sizeof error);
	/* After a batch that it cannot read it waits half a second, and fetches the same again. */
	rd_kafka_conf_set(conf, "fetch.error.backoff.ms", "1", error, sizeof error);
	rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
	if (!consumer) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	rd_kafka_poll_set_consumer(consumer);
	return consumer;
}

/* Each request has a consumer of its own; it reads committed records, as by default. */
static void consume(const char *line) {
	char bootstrap[TEXT], topic[TEXT], end[TEXT];
	member(line, "bootstrap", bootstrap);
	member(line, "topic", topic);
	member(line, "end", end);
	rd_kafka_t *consumer = started(bootstrap);
	rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(partitions, topic, 0)->offset = 0;
	rd_kafka_assign(consumer, partitions);
	rd_kafka_topic_partition_list_destroy(partitions);
	size_t size = 0;
	fputs("{\"records\":[", stdout);
	for (bool more = true; more;) {
		rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 1000);
		if (!message)
			continue;
		/* Headers are parsed in this call, which says so if it cannot; a message without any has __NOENT. */
		rd_kafka_headers_t *headers = NULL;
		rd_kafka_resp_err_t unread = message->err ? 0 : rd_kafka_message_headers(message, &headers);
		if (message->err) {
			write_error(kind(message), rd_kafka_message_errstr(message));
			more = false;
		} else if (unread && unread != RD_KAFKA_RESP_ERR__NOENT) {
			write_error("malformed", rd_kafka_err2str(unread));
			more = false;
		} else if (message->key && message->key_len == strlen(end) && !memcmp(message->key, end, message->key_len)) {
			fputs("]}\n", stdout);
			more = false;
		} else {
			if (size < SHOWN)
				write_record(message, headers, size == 0);
			size += 100 + message->key_len + message->len;
		}
		rd_kafka_message_destroy(message);
	}
	fflush(stdout);
	rd_kafka_destroy_flags(consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

int main(void) {
	char *line = NULL;
	size_t room = 0;
	while (getline(&line, &room, stdin) > 0) {
		if (strstr(line, "\"op\":\"consume\""))
			consume(line);
		else if (strstr(line, "\"op\":\"hello\""))
			printf("{\"protocol\":1,\"name\":\"librdkafka-debian\",\"version\":\"%s\",\"language\":\"c\",\"runtime\":\"gcc %s\","
			       "\"decode\":%s,\"encode\":{\"magics\":[],\"compressions\":[]}}\n",
			       rd_kafka_version_str(), __VERSION__, able);
		else
			fputs("{\"skipped\":\"no such operation\"}\n", stdout);
		fflush(stdout);
	}
	return 0;
}
