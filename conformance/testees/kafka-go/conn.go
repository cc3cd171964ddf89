// Decoding by Conn, which a Reader uses.

package main

import (
	"io"
	"math"

	"github.com/segmentio/kafka-go"
)

// decodeConn is what Conn.ReadBatch gives of one fetch from offset 0.  After an end of file before the first message, which
// leaves the offset where it is, a caller reads the same again and again.
func decodeConn(data []byte) answer {
	connect()
	conn := connected.conn
	connected.network.records = data
	conn.Seek(0, kafka.SeekAbsolute|kafka.SeekDontCheck)
	read := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: math.MaxInt32 / 2})
	records, err := drain(read)
	next := read.Offset()
	if closed := read.Close(); err == nil {
		err = closed
	}
	given := answer{Records: &records, Error: refused(err)}
	if err != nil {
		connected.conn = nil
	} else {
		given.Next, given.Stalled = &next, len(data) > 0 && next == 0
	}
	return given
}

func drain(read *kafka.Batch) ([]record, error) {
	records := []record{}
	for {
		message, err := read.ReadMessage()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, shown(message))
	}
}

func shown(message kafka.Message) record {
	timestamp := int64(-1) // the zero time is none
	if !message.Time.IsZero() {
		timestamp = message.Time.UnixMilli()
	}
	made := record{Offset: message.Offset, Timestamp: &timestamp, Key: message.Key, Value: message.Value}
	made.Headers = [][2][]byte{}
	for _, header := range message.Headers {
		made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
	}
	return made
}
