// Decoding by Conn, which a Reader uses.

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
)

// decodeConn feeds each batch alone, since a Conn gives messages and does not say where a batch ends, and then all of them
// at once, as a broker does: these messages count, and are told as batches as large as the ones that came alone.
func decodeConn(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	entries, tail := split(data)
	inOrder, next := true, int64(math.MinInt64)
	var err error
	if len(data) == 0 { // at the high watermark, where a Conn reads nothing
		return given
	}
	for _, entry := range entries {
		var told batch
		if told, err = fetched(entry); err != nil && (err != errStays || len(entries) == 1) {
			break
		}
		if len(told.Records) > 0 {
			inOrder, next = inOrder && told.Records[0].Offset >= next, told.Records[len(told.Records)-1].Offset+1
		}
		batches = append(batches, told)
	}
	if !inOrder { // a Conn that has read an offset drops old messages below it
		given.Error = refused(err)
		return given
	}
	if len(entries) != 1 || len(tail) > 0 {
		var all batch
		if all, err = fetched(data); len(entries) == 0 && err == errStays {
			err = nil // a response cut short, and no more
		}
		batches = shared(batches, all.Records, len(tail) > 0)
		for err != nil && len(batches) > 0 && len(batches[len(batches)-1].Records) == 0 {
			batches = batches[:len(batches)-1] // it did not get there
		}
	}
	given.Error = refused(err)
	return given
}

// shared gives each batch as many of the records as it had alone.  What could be read of a partial batch is left out, as a
// batch that is not whole is none.
func shared(batches []batch, records []record, partial bool) []batch {
	for at := range batches {
		count := len(batches[at].Records)
		if at == len(batches)-1 && !partial || count > len(records) {
			count = len(records)
		}
		batches[at].Records, records = records[:count], records[count:]
	}
	return batches
}

// split is the entries, and what stands behind the last whole one; what does not add up goes to kafka-go as it is.
func split(data []byte) (entries [][]byte, tail []byte) {
	for len(data) >= 12 {
		end := 12 + int64(int32(binary.BigEndian.Uint32(data[8:])))
		if end <= 12 || end > int64(len(data)) {
			break
		}
		entries, data = append(entries, data[:end]), data[end:]
	}
	return entries, data
}

// errStays is what a Reader meets for ever when a batch cannot be read: kafka-go takes that for a response cut short.
var errStays = errors.New("io.EOF before the first message, and the offset stays")

// committed is what a Reader with IsolationLevel ReadCommitted gives to its user.
func committed(data []byte, aborted [][2]int64) answer {
	told, err := fetchedAs(kafka.ReadCommitted, 0, data, aborted)
	if err == errStays {
		return answer{Records: &told.Records, Stalled: true}
	}
	return answer{Records: &told.Records, Error: refused(err)}
}

// fetched is what one response gives, without an error or before it, and how far it took the Conn.
func fetched(data []byte) (batch, error) {
	return fetchedAs(kafka.ReadUncommitted, math.MinInt64, data, nil)
}

func fetchedAs(isolation kafka.IsolationLevel, from int64, data []byte, aborted [][2]int64) (batch, error) {
	connect()
	conn := connected.conn
	connected.network.records, connected.network.aborted = data, aborted
	hurry(conn)
	conn.Seek(from, kafka.SeekAbsolute|kafka.SeekDontCheck)
	read := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: math.MaxInt32 / 2, IsolationLevel: isolation})
	records, err := drain(conn, read)
	told := batch{Records: records}
	// Behind the largest offset a Conn stands where it began: the next is the least.
	if last := read.Offset() - 1; err == nil && read.Offset() == from && len(records) == 0 {
		err = errStays
	} else if err == nil {
		told.LastOffset = &last
	}
	if closed := read.Close(); err == nil {
		err = closed
	}
	if err != nil && err != errStays {
		connected.conn = nil
	}
	return told, err
}

// hurry sets the deadline of ten seconds that Reader has by default; without one a Conn has none.
func hurry(conn *kafka.Conn) {
	if hurries {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	}
}

func drain(conn *kafka.Conn, read *kafka.Batch) ([]record, error) {
	records := []record{}
	for {
		hurry(conn)
		message, err := read.ReadMessage()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		timestamp := int64(-1) // the zero time is none
		if !message.Time.IsZero() {
			timestamp = message.Time.UnixMilli()
		}
		made := record{Offset: message.Offset, Timestamp: &timestamp, Key: message.Key, Value: message.Value}
		made.Headers = [][2][]byte{}
		for _, header := range message.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		records = append(records, made)
	}
}
