// Decoding: a PartitionConsumer over a pipe.

package main

import (
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// decode is what a PartitionConsumer from offset 0 gives of one fetch.
func decode(data []byte) answer { return consumed(data, nil, sarama.ReadUncommitted) }

// committed is the same with IsolationLevel ReadCommitted.
func committed(data []byte, aborted [][2]int64) answer {
	return consumed(data, aborted, sarama.ReadCommitted)
}

func consumed(data []byte, aborted [][2]int64, isolation sarama.IsolationLevel) answer {
	broker := &broker{data: data, aborted: aborted, through: make(chan struct{})}
	config := wire.config()
	config.Version, config.Net.Proxy.Dialer = sarama.V0_11_0_0, broker
	config.Consumer.IsolationLevel, config.Consumer.Return.Errors = isolation, true
	config.ChannelBufferSize = 1 << 16 // all messages of a fetch are there when the next one is requested
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
	through := false
	for !through {
		select {
		case each := <-read.Messages():
			records = append(records, tell(each))
		case <-broker.through:
			through = true
		case failed := <-read.Errors():
			select {
			case <-broker.through: // it is about the connection, which ends with the second fetch
				through = true
			default:
				given.Error = &refusal{kind(failed.Err), failed.Err.Error()}
				return given
			}
		}
	}
	for len(read.Messages()) > 0 {
		records = append(records, tell(<-read.Messages()))
	}
	return given
}

func tell(each *sarama.ConsumerMessage) record {
	timestamp := millis(each.Timestamp)
	told := record{Offset: each.Offset, Timestamp: &timestamp, Key: each.Key, Value: each.Value, Headers: [][2][]byte{}}
	for _, header := range each.Headers {
		told.Headers = append(told.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
	}
	return told
}

// millis takes the zero time for none, as sarama writes it.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

// kind says what an error is by sarama's types; what is none of sarama's comes from a library below it.
func kind(err error) string {
	var decoding sarama.PacketDecodingError
	switch {
	case errors.Is(err, sarama.ErrInsufficientData):
		return "truncated"
	case !errors.As(err, &decoding):
		return "other"
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
