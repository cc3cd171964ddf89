// The peers at the other end of the pipes: they move bytes, and know no record.

package main

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// peer is what a producer takes for a broker: it keeps what is produced.
type peer struct{ produced chan []byte }

var wire = &peer{produced: make(chan []byte, 1)}

func (p *peer) config() *sarama.Config {
	config := sarama.NewConfig()
	config.ApiVersionsRequest = false
	config.Version = sarama.V2_1_0_0
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, p
	return config
}

// Dial is the proxy's: every connection is a pipe.
func (p *peer) Dial(string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go serve(ours, p.answer)
	return theirs, nil
}

// answer is nothing to Produce: nobody waits for one.
func (p *peer) answer(frame []byte) ([]byte, bool) {
	if binary.BigEndian.Uint16(frame) == 0 { // Produce
		p.produced <- producedIn(frame)
		return nil, true
	}
	return metadataResponse(frame[4:8], binary.BigEndian.Uint16(frame[2:])), true
}

// serve sends what answer gives for each request that arrives, until it says that there is no more.
func serve(conn net.Conn, answer func(frame []byte) (out []byte, more bool)) {
	defer conn.Close()
	for {
		frame, err := readFrame(conn)
		if err != nil {
			return
		}
		out, more := answer(frame)
		if !more {
			return
		}
		if len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	}
}

func readFrame(conn net.Conn) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

// producedIn finds the one record set in a Produce request of version 2 or 3.
func producedIn(frame []byte) []byte {
	at := 8 + 2 + int(binary.BigEndian.Uint16(frame[8:])) // the client's id
	if binary.BigEndian.Uint16(frame[2:]) >= 3 {
		at += 2 // no transactional id
	}
	at += 2 + 4 + 4 + 2 + len(topic) + 4 + 4 // acks, timeout, one topic, its name, one partition, its index
	return frame[at+4:]
}

// metadataResponse tells of one broker and one partition, in versions 0 to 8.
func metadataResponse(correlation []byte, version uint16) []byte {
	host, port, _ := strings.Cut(address, ":")
	number, _ := strconv.Atoi(port)
	out := append(make([]byte, 4), correlation...)
	if version >= 3 {
		out = append(out, 0, 0, 0, 0) // throttle time
	}
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 1, 0, byte(len(host))) // one broker, its id
	out = append(out, host...)
	out = binary.BigEndian.AppendUint32(out, uint32(number))
	if version >= 1 {
		out = append(out, 0xff, 0xff) // no rack
	}
	if version >= 2 {
		out = append(out, 0xff, 0xff) // no cluster id
	}
	if version >= 1 {
		out = append(out, 0, 0, 0, 1) // controller
	}
	out = append(out, 0, 0, 0, 1, 0, 0, 0, byte(len(topic))) // one topic, no error
	out = append(out, topic...)
	if version >= 1 {
		out = append(out, 0) // not internal
	}
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1) // one partition, no error, its id, its leader
	if version >= 7 {
		out = append(out, 0, 0, 0, 0) // leader epoch
	}
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1) // replicas, those in sync
	if version >= 5 {
		out = append(out, 0, 0, 0, 0) // none offline
	}
	if version >= 8 {
		out = append(out, make([]byte, 8)...) // authorized operations
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// fetchResponse is version 4 or 5, with one partition.
func fetchResponse(correlation, records []byte, version uint16, aborted [][2]int64) []byte {
	out := append(make([]byte, 4), correlation...)
	out = binary.BigEndian.AppendUint32(out, 0) // throttle time
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = binary.BigEndian.AppendUint32(out, 0) // partition
	out = binary.BigEndian.AppendUint16(out, 0) // error code
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	if version >= 5 {
		out = binary.BigEndian.AppendUint64(out, 0) // log start offset
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(aborted)))
	for _, each := range aborted {
		out = binary.BigEndian.AppendUint64(out, uint64(each[0]))
		out = binary.BigEndian.AppendUint64(out, uint64(each[1]))
	}
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(records))), records...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// broker answers one fetch of a PartitionConsumer; by the second it is through with the first.
type broker struct {
	data    []byte
	aborted [][2]int64
	fetched bool
	through chan struct{}
}

// Dial is the proxy's: every connection is a pipe.
func (b *broker) Dial(string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go serve(ours, b.answer)
	return theirs, nil
}

// answer is nothing, and the end, for the second fetch.
func (b *broker) answer(frame []byte) ([]byte, bool) {
	switch key, version := binary.BigEndian.Uint16(frame), binary.BigEndian.Uint16(frame[2:]); {
	case key == 3:
		return metadataResponse(frame[4:8], version), true
	case key == 2:
		return offsetsResponse(frame[4:8], version), true
	case b.fetched:
		close(b.through)
		return nil, false
	default:
		b.fetched = true
		return fetchResponse(frame[4:8], b.data, version, b.aborted), true
	}
}

// offsetsResponse is version 1 or 2 of ListOffsets: the log begins at 0 and has no end.
func offsetsResponse(correlation []byte, version uint16) []byte {
	out := append(make([]byte, 4), correlation...)
	if version >= 2 {
		out = append(out, 0, 0, 0, 0) // throttle time
	}
	out = append(out, 0, 0, 0, 1, 0, byte(len(topic))) // one topic
	out = append(out, topic...)
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) // one partition, its index, no error
	out = append(out, make([]byte, 8+8)...)         // timestamp, offset
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
