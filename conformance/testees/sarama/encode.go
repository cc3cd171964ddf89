// Encoding: an AsyncProducer over a pipe.

package main

import (
	"math"
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"": sarama.CompressionNone, "none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func encode(wanted *batch) ([]byte, error) {
	magic := *wanted.Magic
	codec, known := codecs[wanted.Compression]
	if !known {
		return nil, skipped("no codec " + wanted.Compression)
	}
	switch {
	case magic < 0 || magic > 2:
		return nil, skipped("sarama has no such magic")
	case !isProducers(wanted):
		return nil, skipped("a producer cannot be asked for such a batch")
	default:
		return produceRecords(wanted, codec)
	}
}

// isProducers says whether an AsyncProducer can be asked for this: records from offset 0, and nothing set beside them.
func isProducers(wanted *batch) bool {
	highest := int64(math.MinInt64)
	for at, each := range wanted.Records {
		timestamp := or(each.Timestamp, -1)
		if each.Offset != int64(at) || *wanted.Magic > 0 && timestamp == -1 { // no time, to a producer, is now
			return false
		}
		highest = max(highest, timestamp)
	}
	return len(wanted.Records) > 0 && or(wanted.BaseOffset, 0) == 0 &&
		or(wanted.LastOffset, int64(len(wanted.Records)-1)) == int64(len(wanted.Records)-1) &&
		(*wanted.Magic == 0 || or(wanted.MaxTimestamp, highest) == highest && wanted.TimestampType != "none") &&
		wanted.TimestampType != "append" && wanted.DeleteHorizon == nil && !isOwned(wanted) &&
		or(wanted.PartitionLeaderEpoch, -1) == -1
}

func isOwned(wanted *batch) bool {
	return or(wanted.ProducerID, -1) != -1 || or(wanted.ProducerEpoch, -1) != -1 || or(wanted.BaseSequence, -1) != -1 ||
		or(wanted.Transactional, false) || or(wanted.Control, false)
}

// produceRecords has an AsyncProducer send the records in one batch, to a broker of the release that takes this format.
func produceRecords(wanted *batch, codec sarama.CompressionCodec) ([]byte, error) {
	config := wire.config()
	config.Version = []sarama.KafkaVersion{sarama.V0_9_0_0, sarama.V0_10_0_0, sarama.V2_1_0_0}[*wanted.Magic]
	config.Metadata.Retry.Max, config.Producer.Retry.Max = 0, 0
	config.Producer.RequiredAcks, config.Producer.Return.Successes = sarama.NoResponse, true
	config.Producer.Compression, config.Producer.Partitioner = codec, sarama.NewManualPartitioner
	config.Producer.Flush.Messages = len(wanted.Records)
	producer, err := sarama.NewAsyncProducer([]string{address}, config)
	if err != nil {
		return nil, skipped(err.Error())
	}
	defer producer.AsyncClose()
	go func() {
		for _, each := range wanted.Records {
			producer.Input() <- newProducerMessage(each)
		}
	}()
	for range wanted.Records {
		select {
		case <-producer.Successes():
		case refused := <-producer.Errors():
			return nil, beyondLimits(refused.Err)
		}
	}
	return <-wire.produced, nil
}

func newProducerMessage(from record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: topic}
	if from.Key != nil {
		made.Key = sarama.ByteEncoder(from.Key)
	}
	if from.Value != nil {
		made.Value = sarama.ByteEncoder(from.Value)
	}
	if from.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*from.Timestamp)
	}
	for _, header := range from.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: header[0], Value: header[1]})
	}
	return made
}

func or[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}
