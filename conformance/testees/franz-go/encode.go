// Encoding: a Client that produces.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// encode tries again: records wait until the topic is known, and are then handed on while they are sent already.  When a
// machine is busy, the first may leave alone.  That is no fault of the writer, and does not happen again and again.
func encode(wanted *batch) ([]byte, error) {
	data, err := produce(wanted)
	for again := 0; errors.Is(err, errSeveral) && again < 5; again++ {
		data, err = produce(wanted)
	}
	return data, err
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var errSeveral = errors.New("the producer made several batches")

// produce has a producer send the records, and gives the bytes in its request.
func produce(wanted *batch) ([]byte, error) {
	if err := expressible(wanted); err != nil {
		return nil, err
	}
	if falls {
		question, _ := json.Marshal(wanted)
		fallOver(question)
	}
	codec, ok := codecs[wanted.Compression]
	if !ok && wanted.Compression != "" {
		return nil, skipped("no codec " + wanted.Compression)
	}
	broker := &broker{magic: *wanted.Magic, produced: make(chan []byte, 4)}
	client, err := kgo.NewClient(
		kgo.SeedBrokers("127.0.0.1:9"), kgo.Dialer(broker.dial), kgo.DisableIdempotentWrite(), kgo.ManualFlushing(),
		kgo.ProducerBatchCompression(codec),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var refused error
	for _, each := range wanted.Records {
		client.Produce(ctx, produced(each), func(_ *kgo.Record, err error) { refused = errors.Join(refused, err) })
	}
	if err := errors.Join(client.Flush(ctx), refused); err != nil {
		return nil, beyondLimits(err)
	}
	data := <-broker.produced
	if len(broker.produced) > 0 {
		return nil, errSeveral
	}
	return data, nil
}

func produced(each record) *kgo.Record {
	made := &kgo.Record{Topic: topic, Key: each.Key, Value: each.Value}
	if each.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*each.Timestamp)
	}
	for _, header := range each.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: string(header[0]), Value: header[1]})
	}
	return made
}

// expressible says what a producer cannot be asked for.
func expressible(wanted *batch) error {
	others := []struct {
		unusual bool
		what    string
	}{
		{*wanted.Magic < 0 || *wanted.Magic > 2, "such a magic"},
		{len(wanted.Records) == 0, "a batch without records"},
		{differs(wanted.BaseOffset, 0), "a base offset other than 0"},
		{differs(wanted.LastOffset, int64(len(wanted.Records)-1)), "an offset after the last record"},
		{differs(wanted.PartitionLeaderEpoch, -1), "a partition leader epoch"},
		{differs(wanted.ProducerID, -1) || differs(wanted.ProducerEpoch, -1), "a producer id"},
		{differs(wanted.BaseSequence, -1), "a sequence"},
		{wanted.TimestampType == "append", "LogAppendTime"},
		{wanted.TimestampType == "none" && *wanted.Magic > 0, "records without timestamps"},
		{differs(wanted.Transactional, false), "a transactional batch by itself"},
		{differs(wanted.Control, false), "a control batch"},
		{wanted.DeleteHorizon != nil, "a delete horizon"},
		{wanted.hasNullHeaderKey(), "a header key of null, as it is a string"},
		{wanted.Compression == "zstd" && *wanted.Magic < 2, "zstd in old messages"},
	}
	for _, each := range others {
		if each.unusual {
			return skipped("a producer cannot be asked for " + each.what)
		}
	}
	for at, each := range wanted.Records {
		if each.Offset != int64(at) {
			return skipped("a producer cannot be asked for gaps between offsets")
		}
	}
	highest := int64(math.MinInt64)
	for _, each := range wanted.Records {
		if each.Timestamp != nil {
			highest = max(highest, *each.Timestamp)
		}
	}
	if *wanted.Magic > 0 && wanted.MaxTimestamp != nil && *wanted.MaxTimestamp != highest {
		return skipped("a producer cannot be asked for another max timestamp")
	}
	return nil
}

func differs[T comparable](given *T, usual T) bool { return given != nil && *given != usual }
