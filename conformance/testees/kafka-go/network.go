// What a Conn takes for its connection: it moves bytes, and knows no record.

package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
)

// network is what a Conn takes for one: a request is answered as soon as it is written, a fetch with the records that are
// given.  So what can be read is all that will ever come.  What is produced, in the version that it offers, it keeps.
type network struct {
	net.Conn
	records  []byte
	produces byte
	produced []byte
	asked    []byte
	answers  bytes.Buffer
}

// connected is the Conn, over a network of its own.
var connected struct {
	conn    *kafka.Conn
	network *network
}

func connect() {
	if connected.conn == nil {
		connected.network = &network{}
		connected.conn = kafka.NewConnWith(connected.network, kafka.ConnConfig{Topic: topic})
	}
}

func (n *network) Read(into []byte) (int, error) {
	if n.answers.Len() == 0 {
		select {} // for ever; Go's runtime sees that nothing can end this, says so and ends the program
	}
	return n.answers.Read(into)
}

func (n *network) Write(sent []byte) (int, error) {
	n.asked = append(n.asked, sent...)
	for len(n.asked) >= 4 && len(n.asked)-4 >= int(binary.BigEndian.Uint32(n.asked)) {
		frame := n.asked[4 : 4+binary.BigEndian.Uint32(n.asked)]
		n.answers.Write(n.answer(frame))
		n.asked = n.asked[4+len(frame):]
	}
	return len(sent), nil
}

func (n *network) answer(frame []byte) []byte {
	out := append(make([]byte, 4), frame[4:8]...)
	switch binary.BigEndian.Uint16(frame) {
	case 0:
		n.produced = producedIn(frame)
		out = appendProduceResponse(out, n.produces)
	case 1:
		out = appendFetchResponse(out, n.records)
	default: // ApiVersions 0: Produce, and Fetch from 0 to 10
		out = append(out, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, n.produces, 0, 1, 0, 0, 0, 10)
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (n *network) Close() error                     { return nil }
func (n *network) SetReadDeadline(time.Time) error  { return nil }
func (n *network) SetWriteDeadline(time.Time) error { return nil }

// appendFetchResponse writes version 10, with one partition.
func appendFetchResponse(out, records []byte) []byte {
	out = append(out, make([]byte, 4+2+4)...) // throttle time, error code, session
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(out, make([]byte, 4+2)...) // partition, error code
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = append(out, make([]byte, 8)...)       // log start offset
	out = binary.BigEndian.AppendUint32(out, 0) // aborted transactions
	return append(binary.BigEndian.AppendUint32(out, uint32(len(records))), records...)
}

// producedIn finds the one record set in a Produce request of version 2 or 7.
func producedIn(frame []byte) []byte {
	at := 8 + 2 + int(binary.BigEndian.Uint16(frame[8:])) // the client's id
	if binary.BigEndian.Uint16(frame[2:]) >= 3 {
		at += 2 // no transactional id
	}
	at += 2 + 4 + 4 + 2 + len(topic) + 4 + 4 // acks, timeout, one topic, its name, one partition, its index
	return append([]byte{}, frame[at+4:]...)
}

func appendProduceResponse(out []byte, version byte) []byte {
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(out, make([]byte, 4+2+8+8)...) // partition, error code, offset, append time
	if version >= 5 {
		out = append(out, make([]byte, 8)...) // log start offset
	}
	return append(out, 0, 0, 0, 0) // throttle time
}
