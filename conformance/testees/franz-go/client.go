// A Client that consumes, and one that produces, with the library's default options.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consume polls until the end record, or the first error that a poll returns.
func consume(asked *clientRequest, found *delivered) error {
	from := map[int32]kgo.Offset{0: kgo.NewOffset().At(asked.Offset)}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: from}),
	}
	if asked.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer func() { go client.Close() }() // the answer does not wait for the fetch that is under way
	for {
		fetches := client.PollFetches(context.Background())
		for records := fetches.RecordIter(); !records.Done(); {
			if found.add(tell(records.Next())) {
				return nil
			}
		}
		if found := fetches.Errors(); len(found) > 0 { // Err is missing in old releases
			return found[0].Err
		}
	}
}

// produceAll has a Client of its own send the records together.
func produceAll(asked *clientRequest) error {
	name, ok := asked.compression()
	if !ok {
		return skipped("no codec " + name)
	}
	if asked.Batch.hasNullHeaderKey() {
		return skipped("a header key is a string, which is never null")
	}
	options := []kgo.Opt{kgo.SeedBrokers(asked.Bootstrap), kgo.ProducerBatchCompression(codecs[name])}
	if !asked.isIdempotent() {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for _, each := range asked.Batch.Records {
		made := produced(each)
		made.Topic = asked.Topic
		records = append(records, made)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return beyondLimits(client.ProduceSync(ctx, records...).FirstErr())
}

// beyondLimits skips what the producer does not take with its default options.
func beyondLimits(err error) error {
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kgo.ErrMaxBuffered) {
		return skipped("the producer's limits are smaller by default: " + err.Error())
	}
	return err
}
