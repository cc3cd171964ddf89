// Encoding by both, and what neither can express.

package main

import (
	"bytes"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
)

// expressed has encode asked only for what a writer can be asked for.
func expressed(encode func(*batch) ([]byte, error)) func(*batch) ([]byte, error) {
	return func(wanted *batch) ([]byte, error) {
		if err := expressible(wanted); err != nil {
			return nil, err
		}
		return encode(wanted)
	}
}

// encodeRecords has a RecordSet written.
func encodeRecords(wanted *batch) ([]byte, error) {
	code, err := wanted.codec()
	if err != nil {
		return nil, err
	}
	attributes := protocol.Attributes(code)
	if differs(wanted.Transactional, false) {
		attributes |= protocol.Transactional
	}
	if differs(wanted.Control, false) {
		attributes |= protocol.Control
	}
	var records []protocol.Record
	for _, each := range wanted.Records {
		made := protocol.Record{Offset: each.Offset, Key: protocol.NewBytes(each.Key), Value: protocol.NewBytes(each.Value)}
		made.Time, made.Headers = each.moment(), each.headers()
		records = append(records, made)
	}
	set := protocol.RecordSet{Version: *wanted.Magic, Attributes: attributes, Records: protocol.NewRecordReader(records...)}
	var out bytes.Buffer
	if _, err := set.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes()[4:], nil // the size is in front
}

// encodeConn has a Conn write the messages to a broker of the release that takes this format.
func encodeConn(wanted *batch) ([]byte, error) {
	if differs(wanted.Transactional, false) || differs(wanted.Control, false) {
		return nil, skipped("a Conn cannot be asked for a transaction or a control batch")
	}
	code, err := wanted.codec()
	if err != nil {
		return nil, err
	}
	var messages []kafka.Message
	for _, each := range wanted.Records {
		messages = append(messages, kafka.Message{Key: each.Key, Value: each.Value, Time: each.moment(), Headers: each.headers()})
	}
	network := &network{produces: map[int8]byte{1: 2, 2: 7}[*wanted.Magic]}
	conn := kafka.NewConnWith(network, kafka.ConnConfig{Topic: topic})
	_, err = conn.WriteCompressedMessages(compress.Compression(code).Codec(), messages...)
	return network.produced, err
}

func (b *batch) codec() (int, error) {
	for code, name := range compressions {
		if name == b.Compression || code == 0 && b.Compression == "" {
			return code, nil
		}
	}
	return 0, skipped("no codec " + b.Compression)
}

// moment is the zero time where none is told, which is how kafka-go is asked for the present.
func (r *record) moment() time.Time {
	if r.Timestamp == nil {
		return time.Time{}
	}
	return time.UnixMilli(*r.Timestamp)
}

func (r *record) headers() (made []protocol.Header) {
	for _, header := range r.Headers {
		made = append(made, protocol.Header{Key: string(header[0]), Value: header[1]})
	}
	return made
}

// expressible says what no writer here can be asked for.
func expressible(wanted *batch) error {
	old := *wanted.Magic < 2
	last, highest := int64(len(wanted.Records)-1), int64(math.MinInt64)
	gaps := false
	for at, each := range wanted.Records {
		gaps = gaps || each.Offset != int64(at)
		if each.Timestamp != nil {
			highest = max(highest, *each.Timestamp)
		}
	}
	others := []struct {
		unusual bool
		what    string
	}{
		{*wanted.Magic < 1 || *wanted.Magic > 2, "such a magic"},
		{len(wanted.Records) == 0, "a batch without records"},
		{differs(wanted.BaseOffset, 0), "a base offset other than 0"},
		{differs(wanted.LastOffset, last), "an offset after the last record"},
		{gaps, "gaps between offsets"},
		{wanted.hasNullHeaderKey(), "a header key of null, as it is a string"},
		{differs(wanted.PartitionLeaderEpoch, -1), "a partition leader epoch"},
		{differs(wanted.ProducerID, -1) || differs(wanted.ProducerEpoch, -1) || differs(wanted.BaseSequence, -1), "a producer id"},
		{wanted.TimestampType == "append", "LogAppendTime"},
		{wanted.TimestampType == "none", "records without timestamps"},
		{differs(wanted.MaxTimestamp, highest), "another max timestamp"},
		{wanted.DeleteHorizon != nil, "a delete horizon"},
		{wanted.Compression == "zstd" && old, "zstd in old messages"},
	}
	for _, each := range others {
		if each.unusual {
			return skipped("kafka-go cannot be asked for " + each.what)
		}
	}
	return nil
}

func differs[T comparable](given *T, usual T) bool { return given != nil && *given != usual }
