// Decoding: kgo.ProcessFetchPartition.

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watched keeps the decompressor's error, whose type kgo hides.
type watched struct {
	kgo.Decompressor
	err error
}

func (w *watched) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	var out []byte
	out, w.err = w.Decompressor.Decompress(src, codec)
	return out, w.err
}

var decompressor = &watched{Decompressor: kgo.DefaultDecompressor()}

// falls is set where it is measured what a testee costs that ends over one question in ten.
var falls = os.Getenv("KAFKAPROOF_FALLS") != ""

func fallOver(question []byte) {
	if falls && crc32.ChecksumIEEE(question)%10 == 0 {
		panic("one question in ten")
	}
}

// decode feeds one batch at a time, as a broker may, since a client that has read an offset drops what lies below it.
func decode(data []byte) answer {
	fallOver(data)
	batches := []batch{}
	given := answer{Batches: &batches}
	for len(data) > 0 {
		entry := data[:entryLength(data)]
		data = data[len(entry):]
		fetched, processed := process(entry)
		if fetched.Err != nil {
			given.Error = &refusal{kind(fetched.Err), fetched.Err.Error()}
			return given
		}
		if !processed {
			return given // to kgo the rest is a partial batch
		}
		batches = append(batches, describe(entry, fetched.Records))
	}
	return given
}

// committed is what a client with FetchIsolationLevel ReadCommitted gives of a fetch from offset 0.
func committed(data []byte, aborted [][2]int64) answer {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = data
	for _, each := range aborted {
		listed := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		listed.ProducerID, listed.FirstOffset = each[0], each[1]
		partition.AbortedTransactions = append(partition.AbortedTransactions, listed)
	}
	options := kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted(), Topic: topic}
	decompressor.err = nil
	fetched, _ := kgo.ProcessFetchPartition(options, &partition, decompressor, nil)
	records := []record{}
	for _, each := range fetched.Records {
		records = append(records, tell(each))
	}
	given := answer{Records: &records}
	if fetched.Err != nil {
		given.Error = &refusal{kind(fetched.Err), fetched.Err.Error()}
	}
	return given
}

// entryLength is where the next entry starts; what does not add up goes to franz-go as it is.
func entryLength(data []byte) int {
	if len(data) >= 12 {
		end := 12 + int64(int32(binary.BigEndian.Uint32(data[8:])))
		if end > 12 && end < int64(len(data)) {
			return int(end)
		}
	}
	return len(data)
}

func process(entry []byte) (kgo.FetchPartition, bool) {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = entry
	options := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: math.MinInt64, Topic: topic}
	processed := false
	decompressor.err = nil
	fetched, _ := kgo.ProcessFetchPartition(options, &partition, decompressor, func(kgo.FetchBatchMetrics) { processed = true })
	return fetched, processed
}

// describe tells a batch by kmsg's header and kgo's records.
func describe(entry []byte, records []*kgo.Record) batch {
	magic := int8(entry[16])
	described := batch{Magic: &magic, Records: []record{}}
	if magic == 2 {
		header := kmsg.NewRecordBatch()
		header.ReadFrom(entry) // kgo has read it too
		last := header.FirstOffset + int64(header.LastOffsetDelta)
		described.BaseOffset, described.LastOffset = &header.FirstOffset, &last
		described.MaxTimestamp, described.BaseSequence = &header.MaxTimestamp, &header.FirstSequence
		described.ProducerID, described.ProducerEpoch = &header.ProducerID, &header.ProducerEpoch
		described.PartitionLeaderEpoch = &header.PartitionLeaderEpoch
	}
	for _, each := range records {
		described.Records = append(described.Records, tell(each))
	}
	if len(records) > 0 {
		attributes := records[0].Attrs
		described.TimestampType = map[int8]string{-1: "none", 0: "create", 1: "append"}[attributes.TimestampType()]
		described.Compression = compressionName(attributes.CompressionType())
		if magic == 2 {
			transactional, control := attributes.IsTransactional(), attributes.IsControl()
			described.Transactional, described.Control = &transactional, &control
		}
	}
	return described
}

func compressionName(codec uint8) string {
	if int(codec) < len(compressions) {
		return compressions[codec]
	}
	return fmt.Sprint(codec)
}

func tell(each *kgo.Record) record {
	told := record{Offset: each.Offset, Key: each.Key, Value: each.Value, Headers: [][2][]byte{}}
	if each.Attrs.TimestampType() >= 0 { // a v0 record has the zero time
		timestamp := each.Timestamp.UnixMilli()
		told.Timestamp = &timestamp
	}
	for _, header := range each.Headers {
		told.Headers = append(told.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
	}
	return told
}

// kind tells an error of kgo's by its type where it has one, else by its text.
func kind(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "MaxDecompressBatchBytes"): // its error has a type in the newest releases only
		return "limit"
	case decompressor.err != nil && decompressor.err.Error() == "unknown compression codec":
		return "unsupported_compression"
	case decompressor.err != nil:
		return "decompression"
	case strings.Contains(text, "crc"):
		return "corrupt"
	case strings.Contains(text, "magic"):
		return "unsupported_magic"
	default:
		return "malformed"
	}
}
