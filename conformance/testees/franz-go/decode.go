// Decoding: kgo.ProcessFetchPartition.

package main

import (
	"hash/crc32"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// falls is set where it is measured what a testee costs that ends over one question in ten.
var falls = os.Getenv("KAFKAPROOF_FALLS") != ""

func fallOver(question []byte) {
	if falls && crc32.ChecksumIEEE(question)%10 == 0 {
		panic("one question in ten")
	}
}

// decode processes the data as one partition of a fetch response from offset 0.
func decode(data []byte) answer {
	fallOver(data)
	return processed(data, nil, kgo.ProcessFetchPartitionOpts{Topic: topic})
}

// committed is what a client with FetchIsolationLevel ReadCommitted gives of a fetch from offset 0.
func committed(data []byte, aborted [][2]int64) answer {
	return processed(data, aborted, kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted(), Topic: topic})
}

func processed(data []byte, aborted [][2]int64, options kgo.ProcessFetchPartitionOpts) answer {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = data
	for _, each := range aborted {
		listed := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		listed.ProducerID, listed.FirstOffset = each[0], each[1]
		partition.AbortedTransactions = append(partition.AbortedTransactions, listed)
	}
	fetched, next := kgo.ProcessFetchPartition(options, &partition, kgo.DefaultDecompressor(), nil)
	records := []record{}
	for _, each := range fetched.Records {
		records = append(records, tell(each))
	}
	given := answer{Records: &records}
	if fetched.Err != nil {
		given.Error = &refusal{kind(fetched.Err), fetched.Err.Error()}
	} else {
		given.Next = &next
	}
	return given
}

func tell(each *kgo.Record) record {
	told := record{Offset: each.Offset, Key: each.Key, Value: each.Value, Headers: [][2][]byte{}}
	timestamp := int64(-1) // by its documentation, a record without a timestamp has the type -1
	if each.Attrs.TimestampType() >= 0 {
		timestamp = each.Timestamp.UnixMilli()
	}
	told.Timestamp = &timestamp
	for _, header := range each.Headers {
		told.Headers = append(told.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
	}
	return told
}

// kind says what an error of kgo's is by its text, as its types are not exported in all releases; any other is none of kgo's.
func kind(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "MaxDecompressBatchBytes"):
		return "limit"
	case strings.Contains(text, "unknown compression codec"):
		return "unsupported_compression"
	case strings.Contains(text, "unable to decompress batch"):
		return "decompression"
	case strings.Contains(text, "encoded crc"):
		return "corrupt"
	case strings.Contains(text, "magic"):
		return "unsupported_magic"
	case strings.Contains(text, "not enough data"), strings.Contains(text, "length"), strings.Contains(text, "attributes"),
		strings.Contains(text, "invalid record batch"), strings.Contains(text, "invalid compressed message set"):
		return "malformed"
	default:
		return "other"
	}
}
