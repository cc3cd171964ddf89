// A Consumer in an application that goes on after errors.

package main

import (
	"time"

	"github.com/optiopay/kafka/v2"
	"github.com/optiopay/kafka/v2/proto"
)

// reading is a Consumer; it has no seek and no end, so another one begins at the offset.
type reading struct {
	broker   *kafka.Broker
	topic    string
	consumer kafka.Consumer
	next     chan consumed // of the call of Consume that is under way
}

type consumed struct {
	message *proto.Message
	err     error
}

func startReading(bootstrap, topic string, offset int64) (application, error) {
	broker, err := kafka.Dial([]string{bootstrap}, kafka.NewBrokerConf("kafkaproof"))
	if err != nil {
		return nil, err
	}
	app := &reading{broker: broker, topic: topic}
	return app, app.seek(offset)
}

// Consume has no time limit: it waits for a message, or for its tenth error.
func (r *reading) poll(wait time.Duration) ([]record, error) {
	if r.next == nil {
		r.next = make(chan consumed, 1)
		go func(consumer kafka.Consumer, next chan<- consumed) {
			message, err := consumer.Consume()
			next <- consumed{message, err}
		}(r.consumer, r.next)
	}
	select {
	case each := <-r.next:
		r.next = nil
		if each.err != nil {
			return nil, each.err
		}
		return []record{{each.message.Offset, each.message.Key, each.message.Value}}, nil
	case <-time.After(wait):
		return nil, nil
	}
}

func (r *reading) seek(offset int64) error {
	config := kafka.NewConsumerConf(r.topic, 0)
	config.StartOffset = offset
	// It fetches ten times before it reports an error, as by default, but with half the time between: a dozen errors are to
	// fit in a minute.
	config.RetryErrWait = 250 * time.Millisecond
	consumer, err := r.broker.Consumer(config)
	if err == nil {
		r.consumer, r.next = consumer, nil
	}
	return err
}

// position is not known: a Consumer has none.
func (r *reading) position() int64 { return -1 }
