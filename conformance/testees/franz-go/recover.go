// A Client in an application that goes on after errors.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type polling struct {
	client *kgo.Client
	topic  string
}

func init() { recovery = func(line []byte) { serveRecovery(line, startPolling) } }

func startPolling(bootstrap, topic string, offset int64) (application, error) {
	from := map[int32]kgo.Offset{0: kgo.NewOffset().At(offset)}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
	)
	return &polling{client, topic}, err
}

func (p *polling) poll(wait time.Duration) ([]record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	fetches := p.client.PollFetches(ctx)
	var found []record
	for records := fetches.RecordIter(); !records.Done(); {
		found = append(found, tell(records.Next()))
	}
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return found, placed{failed.Err, place{Topic: &failed.Topic, Partition: &failed.Partition}}
		}
	}
	return found, nil
}

func (p *polling) seek(offset int64) error {
	p.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {0: {Epoch: -1, Offset: offset}}})
	return nil
}

// position is not known: a Client has one for groups only.
func (p *polling) position() int64 { return -1 }
