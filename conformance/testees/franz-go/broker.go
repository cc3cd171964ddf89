// The broker behind the producer: it answers what a Client asks before it sends, and keeps the batch.

package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker answers a client over a pipe, and keeps the record sets that it is sent.
type broker struct {
	magic    int8
	produced chan []byte
}

func (b *broker) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go b.serve(ours)
	return theirs, nil
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		sent := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
		sent.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
		body := frame[8:]
		if n := int16(binary.BigEndian.Uint16(body)); n >= 0 { // the client's id
			body = body[2+n:]
		} else {
			body = body[2:]
		}
		if sent.IsFlexible() {
			body = body[1:] // no tags
		}
		if err := sent.ReadFrom(body); err != nil {
			return
		}
		given := b.answer(sent)
		out := append(make([]byte, 4), frame[4:8]...)
		if sent.IsFlexible() && sent.Key() != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = given.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (b *broker) answer(sent kmsg.Request) kmsg.Response {
	given := sent.ResponseKind()
	switch given := given.(type) {
	case *kmsg.ApiVersionsResponse:
		// The newest Produce that takes this format: 1 is v0, 2 is v1, 7 takes zstd.
		for key, newest := range map[kmsg.Key]int16{kmsg.Produce: []int16{1, 2, 7}[b.magic], kmsg.Metadata: 7, kmsg.ApiVersions: 3, kmsg.Fetch: 10} {
			able := kmsg.NewApiVersionsResponseApiKey()
			able.ApiKey, able.MaxVersion = int16(key), newest
			given.ApiKeys = append(given.ApiKeys, able)
		}
	case *kmsg.MetadataResponse:
		one := kmsg.NewMetadataResponseBroker()
		one.NodeID, one.Host, one.Port = 1, "127.0.0.1", 9
		given.Brokers = append(given.Brokers, one)
		given.ControllerID = 1
		named, name := kmsg.NewMetadataResponseTopic(), topic
		named.Topic = &name
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Leader, partition.Replicas, partition.ISR = 1, []int32{1}, []int32{1}
		named.Partitions = append(named.Partitions, partition)
		given.Topics = append(given.Topics, named)
	case *kmsg.ProduceResponse:
		for _, each := range sent.(*kmsg.ProduceRequest).Topics {
			for _, part := range each.Partitions {
				b.produced <- append([]byte{}, part.Records...)
				stored := kmsg.NewProduceResponseTopicPartition()
				stored.Partition = part.Partition
				answered := kmsg.NewProduceResponseTopic()
				answered.Topic = each.Topic
				answered.Partitions = append(answered.Partitions, stored)
				given.Topics = append(given.Topics, answered)
			}
		}
	}
	return given
}
