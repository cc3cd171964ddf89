// The requests of kafka_conformance/process/client_testee.py, for clients in Go.  It is compiled into each testee.

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
)

// clientRequest is a line of the requests that a client gets.
type clientRequest struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Offset    int64  `json:"offset"`
	End       string `json:"end"`
	Committed bool   `json:"committed"`
	Batch     *batch `json:"batch"`
}

// client is a library's consumer and its producer; kind says what a declared error of the library is by the protocol's names.
type client struct {
	name, module    string
	decodes, writes capability
	consume         func(*clientRequest, *delivered) error
	produce         func(*clientRequest) error
	kind            func(error) string
}

type clientAnswer struct {
	Records []record `json:"records"`
	Error   *refusal `json:"error,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
}

// mostShown is how many bytes of records are shown: of a flood the first, while the consumer reads on to its end.
const mostShown = 16 << 20

// delivered collects the records that a consumer delivers, up to the end record.
type delivered struct {
	end     string
	records []record
	size    int
}

// add says whether this is the end record.
func (d *delivered) add(each record) bool {
	if string(each.Key) == d.end {
		return true
	}
	d.size += 100 + len(each.Key) + len(each.Value)
	if d.size < mostShown {
		d.records = append(d.records, each)
	}
	return false
}

// recovery runs an application for a request that begins like this, and does not return; nil where there is none.
var recovery func(line []byte)

const recoveryPrefix = `{"op": "recover"`

// serveClient answers until there are no more requests.
func serveClient(of client) {
	requests := bufio.NewReaderSize(os.Stdin, 1<<16)
	encoder := json.NewEncoder(os.Stdout)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		if recovery != nil && bytes.HasPrefix(line, []byte(recoveryPrefix)) {
			recovery(line)
		}
		encoder.Encode(of.answer(line))
	}
}

func (c client) answer(line []byte) any {
	var asked clientRequest
	if err := json.Unmarshal(line, &asked); err != nil {
		return clientAnswer{Error: &refusal{"other", "request: " + err.Error()}}
	}
	found := delivered{end: asked.End, records: []record{}}
	var err error
	switch asked.Op {
	case "hello":
		return hello{1, c.name, version(c.module), "go", runtime.Version(), c.decodes, c.writes, false, false, false, true}
	case "consume":
		err = c.consume(&asked, &found)
	case "produce":
		err = c.produce(&asked)
	default:
		err = skipped("no operation " + asked.Op)
	}
	given := clientAnswer{Records: found.records}
	var cannot skipped
	if errors.As(err, &cannot) {
		given.Skipped = string(cannot)
	} else if err != nil {
		given.Error = &refusal{c.kind(err), err.Error()}
	}
	return given
}

// isIdempotent says whether the batch is for an idempotent producer, which gets its id from the broker.
func (r *clientRequest) isIdempotent() bool {
	return r.Batch.ProducerID != nil && *r.Batch.ProducerID != -1
}

// compression is the name of the compression, and whether it is one of Kafka's.
func (r *clientRequest) compression() (string, bool) {
	name := r.Batch.Compression
	if name == "" {
		name = "none"
	}
	return name, slices.Contains(compressions, name)
}
