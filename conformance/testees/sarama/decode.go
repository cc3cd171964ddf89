// Decoding: Broker.Fetch, and a PartitionConsumer for who is told of aborted transactions.

package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// decode has a broker answer a fetch with the data as they are.
func decode(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	wire.records <- data
	asked := &sarama.FetchRequest{Version: 4, MaxBytes: math.MaxInt32}
	asked.AddBlock(topic, 0, 0, math.MaxInt32, -1)
	fetched, err := wire.connected().Fetch(asked)
	if err != nil {
		given.Error = &refusal{kind(err), err.Error()}
		return given
	}
	for _, records := range fetched.GetBlock(topic, 0).RecordsSet {
		if records.RecordBatch != nil {
			batches = append(batches, tellBatch(records.RecordBatch)...)
		} else {
			for _, block := range records.MsgSet.Messages {
				batches = append(batches, tellMessage(block))
			}
		}
	}
	return given
}

// tellBatch gives nothing for what sarama takes for the partial end of a fetch.
func tellBatch(found *sarama.RecordBatch) []batch {
	if found.PartialTrailingRecord {
		return nil
	}
	last, highest := found.LastOffset(), millis(found.MaxTimestamp)
	told := batch{
		Magic: &found.Version, BaseOffset: &found.FirstOffset, LastOffset: &last, Compression: name(found.Codec),
		TimestampType: timestampType(found.LogAppendTime), MaxTimestamp: &highest,
		ProducerID: &found.ProducerID, ProducerEpoch: &found.ProducerEpoch, BaseSequence: &found.FirstSequence,
		Transactional: &found.IsTransactional, Control: &found.Control,
		PartitionLeaderEpoch: &found.PartitionLeaderEpoch, Records: []record{},
	}
	for _, each := range found.Records {
		// As partitionConsumer.parseRecords puts them together.
		timestamp := millis(found.FirstTimestamp.Add(each.TimestampDelta))
		if found.LogAppendTime {
			timestamp = highest
		}
		made := record{Offset: found.FirstOffset + each.OffsetDelta, Timestamp: &timestamp, Key: each.Key, Value: each.Value}
		made.Headers = [][2][]byte{}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		told.Records = append(told.Records, made)
	}
	return []batch{told}
}

func tellMessage(block *sarama.MessageBlock) batch {
	told := batch{Magic: &block.Msg.Version, LastOffset: &block.Offset, Compression: name(block.Msg.Codec)}
	told.TimestampType, told.Records = "none", []record{}
	if block.Msg.Version > 0 {
		highest := millis(block.Msg.Timestamp)
		told.TimestampType, told.MaxTimestamp = timestampType(block.Msg.LogAppendTime), &highest
	}
	inner := block.Messages()
	for _, each := range inner {
		// As partitionConsumer.parseMessages puts them together.
		offset, timestamp := each.Offset, millis(each.Msg.Timestamp)
		if each.Msg.Version >= 1 {
			offset += block.Offset - inner[len(inner)-1].Offset
			if each.Msg.LogAppendTime {
				timestamp = millis(block.Msg.Timestamp)
			}
		}
		made := record{Offset: offset, Key: each.Msg.Key, Value: each.Msg.Value, Headers: [][2][]byte{}}
		if each.Msg.Version >= 1 {
			made.Timestamp = &timestamp
		}
		told.Records = append(told.Records, made)
	}
	return told
}

// committed is what a PartitionConsumer from offset 0 gives of one fetch, with IsolationLevel ReadCommitted.
func committed(data []byte, aborted [][2]int64) answer {
	broker := &broker{data: data, aborted: aborted, through: make(chan struct{})}
	config := wire.config()
	config.Version, config.Net.Proxy.Dialer = sarama.V0_11_0_0, broker
	config.Consumer.IsolationLevel, config.Consumer.Return.Errors = sarama.ReadCommitted, true
	config.ChannelBufferSize = 1 << 16
	records := []record{}
	given := answer{Records: &records}
	consumer, err := sarama.NewConsumer([]string{address}, config)
	if err != nil {
		return answer{Skipped: err.Error()}
	}
	read, err := consumer.ConsumePartition(topic, 0, 0)
	if err != nil {
		return answer{Skipped: err.Error()}
	}
	defer func() { go consumer.Close() }()
	defer read.AsyncClose()
	select {
	case <-broker.through:
	case failed := <-read.Errors():
		given.Error = &refusal{kind(failed.Err), failed.Err.Error()}
	}
	for len(read.Messages()) > 0 {
		each := <-read.Messages()
		timestamp := millis(each.Timestamp)
		made := record{Offset: each.Offset, Timestamp: &timestamp, Key: each.Key, Value: each.Value, Headers: [][2][]byte{}}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		records = append(records, made)
	}
	return given
}

// millis takes the zero time for none, as sarama writes it.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

func timestampType(appended bool) string {
	if appended {
		return "append"
	}
	return "create"
}

func name(codec sarama.CompressionCodec) string {
	if codec >= 0 && int(codec) < len(compressions) {
		return compressions[codec]
	}
	return fmt.Sprint(int8(codec))
}

// kind tells an error by its type; what is none of sarama's comes from a decompressor.
func kind(err error) string {
	var decoding sarama.PacketDecodingError
	switch {
	case errors.Is(err, sarama.ErrInsufficientData):
		return "truncated"
	case !errors.As(err, &decoding):
		if strings.Contains(err.Error(), "larger than the configured limit") {
			return "limit"
		}
		return "decompression"
	case strings.HasPrefix(decoding.Info, "CRC"):
		return "corrupt"
	case strings.HasPrefix(decoding.Info, "unknown magic"):
		return "unsupported_magic"
	case strings.HasPrefix(decoding.Info, "invalid compression"):
		return "unsupported_compression"
	default:
		return "malformed"
	}
}
