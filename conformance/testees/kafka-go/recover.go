// A Reader in an application that goes on after errors, with the library's default options.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

type reading struct{ reader *kafka.Reader }

func init() { recovery = func(line []byte) { serveRecovery(line, startReading) } }

func startReading(bootstrap, topic string, offset int64) (application, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic})
	return &reading{reader}, reader.SetOffset(offset)
}

func (r *reading) poll(wait time.Duration) ([]record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	message, err := r.reader.ReadMessage(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []record{shown(message)}, nil
}

func (r *reading) seek(offset int64) error { return r.reader.SetOffset(offset) }

func (r *reading) position() int64 { return r.reader.Offset() }
