// Encoding: Broker.Produce, and an AsyncProducer where one can be asked for the batch.

package main

import (
	"math"
	"time"

	"github.com/IBM/sarama"
)

func encode(wanted *batch) ([]byte, error) {
	magic := *wanted.Magic
	codec := sarama.CompressionNone
	if wanted.Compression != "" {
		if err := codec.UnmarshalText([]byte(wanted.Compression)); err != nil {
			return nil, skipped(err.Error())
		}
	}
	switch {
	case magic < 0 || magic > 2:
		return nil, skipped("sarama has no such magic")
	case isProducers(wanted):
		return produceRecords(wanted, codec)
	case magic < 2 && isBeyondMessages(wanted):
		return nil, skipped("to sarama an old message has no headers, no producer and no control bit")
	case wanted.DeleteHorizon != nil:
		return nil, skipped("sarama has no delete horizon")
	case wanted.TimestampType == "none" && magic > 0:
		return nil, skipped("sarama has no records without timestamps in this format")
	case magic == 2:
		made, err := newBatch(wanted, codec)
		if err != nil {
			return nil, err
		}
		asked := &sarama.ProduceRequest{Version: 3, RequiredAcks: sarama.NoResponse}
		asked.AddBatch(topic, 0, made)
		return wire.produce(asked)
	case len(wanted.Records) == 0:
		return nil, skipped("a set holds at least one message")
	case codec == sarama.CompressionNone:
		var blocks []*sarama.MessageBlock
		for _, each := range wanted.Records {
			blocks = append(blocks, &sarama.MessageBlock{Offset: each.Offset, Msg: newMessage(wanted, each)})
		}
		return produceSet(blocks...)
	default:
		return encodeWrapper(wanted, codec)
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

func isBeyondMessages(wanted *batch) bool {
	for _, each := range wanted.Records {
		if len(each.Headers) > 0 {
			return true
		}
	}
	return isOwned(wanted)
}

// produceRecords has an AsyncProducer send the records in one batch, to a broker of the release that takes this format.
func produceRecords(wanted *batch, codec sarama.CompressionCodec) ([]byte, error) {
	config := wire.config()
	config.Version = []sarama.KafkaVersion{sarama.V0_9_0_0, sarama.V0_10_0_0, sarama.V2_1_0_0}[*wanted.Magic]
	config.Metadata.Retry.Max, config.Producer.Retry.Max = 0, 0
	config.Producer.RequiredAcks, config.Producer.Return.Successes = sarama.NoResponse, true
	config.Producer.Compression, config.Producer.Partitioner = codec, sarama.NewManualPartitioner
	config.Producer.Flush.Messages, config.Producer.MaxMessageBytes = len(wanted.Records), int(sarama.MaxRequestSize)-(1<<20)
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
			return nil, refused.Err
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
	if from.Timestamp != nil && *from.Timestamp != -1 {
		made.Timestamp = time.UnixMilli(*from.Timestamp)
	}
	for _, header := range from.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: header[0], Value: header[1]})
	}
	return made
}

// newBatch fills sarama's struct, which wants deltas.
func newBatch(wanted *batch, codec sarama.CompressionCodec) (*sarama.RecordBatch, error) {
	made := &sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault,
		FirstOffset: or(wanted.BaseOffset, 0), PartitionLeaderEpoch: or(wanted.PartitionLeaderEpoch, -1),
		Control: or(wanted.Control, false), IsTransactional: or(wanted.Transactional, false),
		LogAppendTime: wanted.TimestampType == "append", ProducerID: or(wanted.ProducerID, -1),
		ProducerEpoch: or(wanted.ProducerEpoch, -1), FirstSequence: or(wanted.BaseSequence, -1),
	}
	first := int64(-1)
	if len(wanted.Records) > 0 {
		first = or(wanted.Records[0].Timestamp, -1)
	}
	highest := first
	made.LastOffsetDelta = int32(len(wanted.Records) - 1)
	for _, each := range wanted.Records {
		timestamp := or(each.Timestamp, -1)
		highest = max(highest, timestamp)
		if delta := timestamp - first; delta > math.MaxInt64/int64(time.Millisecond) || delta < math.MinInt64/int64(time.Millisecond) {
			return nil, skipped("to sarama a timestamp delta is a time.Duration, which ends after 292 years")
		}
		record := &sarama.Record{
			Key: each.Key, Value: each.Value, OffsetDelta: each.Offset - made.FirstOffset,
			TimestampDelta: time.Duration(timestamp-first) * time.Millisecond,
		}
		for _, header := range each.Headers {
			record.Headers = append(record.Headers, &sarama.RecordHeader{Key: header[0], Value: header[1]})
		}
		made.Records = append(made.Records, record)
	}
	if wanted.LastOffset != nil {
		made.LastOffsetDelta = int32(*wanted.LastOffset - made.FirstOffset)
	}
	made.FirstTimestamp, made.MaxTimestamp = moment(first), moment(or(wanted.MaxTimestamp, highest))
	return made, nil
}

func newMessage(wanted *batch, from record) *sarama.Message {
	return &sarama.Message{
		Version: *wanted.Magic, Key: from.Key, Value: from.Value, Timestamp: moment(or(from.Timestamp, -1)),
		CompressionLevel: sarama.CompressionLevelDefault, LogAppendTime: wanted.TimestampType == "append",
	}
}

// encodeWrapper has the inner set written first, since a wrapper takes it as bytes.
func encodeWrapper(wanted *batch, codec sarama.CompressionCodec) ([]byte, error) {
	var blocks []*sarama.MessageBlock
	highest := int64(-1)
	for _, each := range wanted.Records {
		block := &sarama.MessageBlock{Offset: each.Offset, Msg: newMessage(wanted, each)}
		if *wanted.Magic == 1 { // relative offsets
			block.Offset -= or(wanted.BaseOffset, wanted.Records[0].Offset)
		}
		blocks = append(blocks, block)
		highest = max(highest, or(each.Timestamp, -1))
	}
	inner, err := produceSet(blocks...)
	if err != nil {
		return nil, err
	}
	highest = or(wanted.MaxTimestamp, highest)
	wrapper := newMessage(wanted, record{Value: inner, Timestamp: &highest})
	wrapper.Codec = codec
	last := wanted.Records[len(wanted.Records)-1].Offset
	return produceSet(&sarama.MessageBlock{Offset: or(wanted.LastOffset, last), Msg: wrapper})
}

func produceSet(blocks ...*sarama.MessageBlock) ([]byte, error) {
	asked := &sarama.ProduceRequest{Version: 2, RequiredAcks: sarama.NoResponse}
	asked.AddSet(topic, 0, &sarama.MessageSet{Messages: blocks})
	return wire.produce(asked)
}

func or[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}

// moment is the zero time for -1, which is how sarama is told that there is none.
func moment(millis int64) time.Time {
	if millis == -1 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
