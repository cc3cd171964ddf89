// Decoding by protocol.RecordSet, which a Client uses.

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

func decodeRecords(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	var set protocol.RecordSet
	// A response is read through a bufio.Reader too.
	if _, err := set.ReadFrom(bufio.NewReader(bytes.NewReader(append(framed, data...)))); err != nil {
		given.Error = refused(err)
		return given
	}
	stream, _ := set.Records.(*protocol.RecordStream)
	if stream == nil {
		return given
	}
	for _, reader := range stream.Records {
		told, err := tell(reader)
		if err != nil {
			given.Error = refused(err)
			return given
		}
		batches = append(batches, told)
	}
	return given
}

// tell describes a batch, or a message, of which kafka-go tells the records only.
func tell(reader protocol.RecordReader) (batch, error) {
	told := batch{Records: []record{}}
	switch found := reader.(type) {
	case *protocol.RecordBatch:
		told.describe(found.Attributes, found.BaseOffset, found.ProducerID, found.ProducerEpoch, found.BaseSequence, found.PartitionLeaderEpoch)
		reader = found.Records
	case *protocol.ControlBatch:
		told.describe(found.Attributes, found.BaseOffset, found.ProducerID, found.ProducerEpoch, found.BaseSequence, found.PartitionLeaderEpoch)
		reader = found.Records
	}
	for {
		each, err := reader.ReadRecord()
		if err == io.EOF {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		key, err := protocol.ReadAll(each.Key)
		if err != nil {
			return told, err
		}
		value, err := protocol.ReadAll(each.Value)
		if err != nil {
			return told, err
		}
		timestamp := each.Time.UnixMilli()
		made := record{Offset: each.Offset, Timestamp: &timestamp, Key: key, Value: value, Headers: [][2][]byte{}}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		told.Records = append(told.Records, made)
	}
}

func (b *batch) describe(attributes protocol.Attributes, base, producer int64, epoch int16, sequence, leader int32) {
	magic, transactional, control := int8(2), attributes.Transactional(), attributes.Control()
	b.Magic, b.Transactional, b.Control, b.BaseOffset = &magic, &transactional, &control, &base
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.PartitionLeaderEpoch = &producer, &epoch, &sequence, &leader
	if b.Compression = attributes.Compression().String(); b.Compression == "uncompressed" {
		b.Compression = "none"
	}
}
