// A PartitionConsumer and a SyncProducer, with the library's default options.

package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// consume reads until the end record, or the first error.  Errors are an option: by default they are logged only.
func consume(asked *clientRequest, found *delivered) error {
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true
	if asked.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{asked.Bootstrap}, config)
	if err != nil {
		return err
	}
	read, err := consumer.ConsumePartition(asked.Topic, 0, asked.Offset)
	if err != nil {
		return err
	}
	defer func() { // the answer does not wait for the fetch that is under way
		go func() {
			read.Close()
			consumer.Close()
		}()
	}()
	for {
		select {
		case each := <-read.Messages():
			if found.add(tell(each)) {
				return nil
			}
		case failed := <-read.Errors():
			return failed.Err
		}
	}
}

// versions are the releases whose brokers take magic 0 and 1; for the others the default is used.
var versions = map[int8]sarama.KafkaVersion{0: sarama.V0_9_0_0, 1: sarama.V0_10_0_0}

// produceAll has a producer send the records in one batch, which takes Flush.Messages and a time to wait.
func produceAll(asked *clientRequest) error {
	config := sarama.NewConfig()
	codec, known := codecs[asked.Batch.Compression]
	if !known {
		return skipped("no codec " + asked.Batch.Compression)
	}
	config.Producer.Compression = codec
	if version, old := versions[or(asked.Batch.Magic, 2)]; old {
		config.Version = version
	}
	config.Producer.Return.Successes, config.Producer.Flush.Messages = true, len(asked.Batch.Records)
	config.Producer.Flush.Frequency = 500 * time.Millisecond // where a message is refused, there are never so many
	if asked.isIdempotent() {
		config.Producer.Idempotent, config.Producer.RequiredAcks, config.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	}
	producer, err := sarama.NewSyncProducer([]string{asked.Bootstrap}, config)
	var impossible sarama.ConfigurationError
	if errors.As(err, &impossible) {
		return skipped(err.Error())
	}
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, each := range asked.Batch.Records {
		// Messages of v0 have no time: theirs is -1.
		if or(asked.Batch.Magic, 2) > 0 && each.Timestamp != nil && *each.Timestamp < 0 {
			return skipped("a producer takes no time before 1970, and Kafka's takes none either")
		}
		made := newProducerMessage(each)
		made.Topic = asked.Topic
		messages = append(messages, made)
	}
	return beyondLimits(producer.SendMessages(messages))
}

// beyondLimits skips what the producer does not take with its default options, and gives the first error of several.
func beyondLimits(err error) error {
	var several sarama.ProducerErrors
	if errors.As(err, &several) && len(several) > 0 {
		err = several[0].Err
	}
	if errors.Is(err, sarama.ErrMessageSizeTooLarge) {
		return skipped("the producer's limit is smaller by default: " + err.Error())
	}
	return err
}
