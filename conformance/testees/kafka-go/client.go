// A Reader and a Writer, with the library's default options but for waiting times.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// consume reads until the end record, or the first error.  A Reader waits up to a second before it tries again, by default.
func consume(asked *clientRequest, found *delivered) error {
	config := kafka.ReaderConfig{
		Brokers: []string{asked.Bootstrap}, Topic: asked.Topic, Dialer: impatient,
		ReadBackoffMin: time.Millisecond, ReadBackoffMax: time.Millisecond,
	}
	if asked.Committed {
		config.IsolationLevel = kafka.ReadCommitted
	}
	reader := kafka.NewReader(config)
	defer func() { go reader.Close() }() // the answer does not wait for the fetch that is under way
	for {
		message, err := reader.ReadMessage(context.Background())
		if err != nil {
			return err
		}
		if found.add(shown(message)) {
			return nil
		}
	}
}

// produceAll has a Writer send the messages in one batch, which takes BatchSize; without acknowledgements, the default, it
// could not be known when they are sent.
func produceAll(asked *clientRequest) error {
	if asked.isIdempotent() {
		return skipped("a Writer is never idempotent")
	}
	if asked.Batch.hasNullHeaderKey() {
		return skipped("a header key is a string, which is never null")
	}
	code, err := asked.Batch.codec()
	if err != nil {
		return err
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(asked.Bootstrap), Topic: asked.Topic, Compression: kafka.Compression(code),
		BatchSize: len(asked.Batch.Records), RequiredAcks: kafka.RequireOne,
	}
	defer writer.Close()
	var messages []kafka.Message
	for _, each := range asked.Batch.Records {
		messages = append(messages, kafka.Message{Key: each.Key, Value: each.Value, Time: each.moment(), Headers: each.headers()})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = writer.WriteMessages(ctx, messages...)
	var tooLarge kafka.MessageTooLargeError
	if errors.As(err, &tooLarge) {
		return skipped("a Writer's limit is smaller by default: " + err.Error())
	}
	return err
}
