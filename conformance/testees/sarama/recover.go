// A PartitionConsumer in an application that goes on after errors.

package main

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// reading is a PartitionConsumer; it has no seek, so another one begins at the offset.
type reading struct {
	consumer sarama.Consumer
	topic    string
	read     sarama.PartitionConsumer
}

func init() { recovery = func(line []byte) { serveRecovery(line, startReading) } }

// Errors are an option: by default they are logged only.
func startReading(bootstrap, topic string, offset int64) (application, error) {
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
	if err != nil {
		return nil, err
	}
	read, err := consumer.ConsumePartition(topic, 0, offset)
	return &reading{consumer, topic, read}, err
}

func (r *reading) poll(wait time.Duration) ([]record, error) {
	select {
	case each, open := <-r.read.Messages():
		if open {
			return []record{tell(each)}, nil
		}
		time.Sleep(wait)
		return nil, errors.New("the channel of messages is closed")
	default:
	}
	select {
	case each, open := <-r.read.Messages():
		if open {
			return []record{tell(each)}, nil
		}
		time.Sleep(wait)
		return nil, errors.New("the channel of messages is closed")
	case failed, open := <-r.read.Errors():
		if open {
			return nil, placed{failed.Err, place{Topic: &failed.Topic, Partition: &failed.Partition}}
		}
		time.Sleep(wait)
		return nil, errors.New("the channel of errors is closed")
	case <-time.After(wait):
		return nil, nil
	}
}

func (r *reading) seek(offset int64) error {
	if err := r.read.Close(); err != nil {
		emit(map[string]any{"note": err.Error()})
	}
	read, err := r.consumer.ConsumePartition(r.topic, 0, offset)
	if err == nil {
		r.read = read
	}
	return err
}

// position is not known: a PartitionConsumer has none.
func (r *reading) position() int64 { return -1 }
