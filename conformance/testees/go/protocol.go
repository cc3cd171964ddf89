// The testee protocol, version 1, for codecs in Go: one JSON line in, one JSON line out.  It is compiled into each testee.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// codec is a testee's identity and functions.  Without committed it gets no aborted transactions.  A consumer answers decode
// with records, in place of batches.
type codec struct {
	name, module    string
	consumer        bool
	decodes, writes capability
	decode          func([]byte) answer
	committed       func([]byte, [][2]int64) answer
	encode          func(*batch) ([]byte, error)
}

type request struct {
	ID    string   `json:"id"`
	Op    string   `json:"op"`
	Data  []byte   `json:"data"`
	Many  [][]byte `json:"many"`
	Batch *batch   `json:"batch"`
	// Aborted is producer id and first offset of each transaction.
	Aborted *[][2]int64 `json:"aborted"`
}

type capability struct {
	Magics       []int    `json:"magics"`
	Compressions []string `json:"compressions"`
}

type hello struct {
	Protocol  int        `json:"protocol"`
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	Language  string     `json:"language"`
	Runtime   string     `json:"runtime"`
	Decode    capability `json:"decode"`
	Encode    capability `json:"encode"`
	Append    bool       `json:"append"`
	Many      bool       `json:"many"`
	Consumer  bool       `json:"consumer"`
	Committed bool       `json:"committed"`
}

type answer struct {
	Batches *[]batch  `json:"batches,omitempty"`
	Records *[]record `json:"records,omitempty"`
	Next    *int64    `json:"next_offset,omitempty"`
	Stalled bool      `json:"stalled,omitempty"`
	Data    []byte    `json:"data,omitempty"`
	Error   *refusal  `json:"error,omitempty"`
	Skipped string    `json:"skipped,omitempty"`
}

type reply struct {
	ID string `json:"id"`
	answer
	Many []answer `json:"many,omitempty"`
}

type refusal struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// batch leaves out what is nil: the codec does not tell it.
type batch struct {
	Magic                *int8    `json:"magic,omitempty"`
	BaseOffset           *int64   `json:"base_offset,omitempty"`
	LastOffset           *int64   `json:"last_offset,omitempty"`
	Compression          string   `json:"compression,omitempty"`
	TimestampType        string   `json:"timestamp_type,omitempty"`
	MaxTimestamp         *int64   `json:"max_timestamp,omitempty"`
	ProducerID           *int64   `json:"producer_id,omitempty"`
	ProducerEpoch        *int16   `json:"producer_epoch,omitempty"`
	BaseSequence         *int32   `json:"base_sequence,omitempty"`
	Transactional        *bool    `json:"transactional,omitempty"`
	Control              *bool    `json:"control,omitempty"`
	PartitionLeaderEpoch *int32   `json:"partition_leader_epoch,omitempty"`
	DeleteHorizon        *int64   `json:"delete_horizon,omitempty"`
	Records              []record `json:"records"`
}

type record struct {
	Offset    int64       `json:"offset"`
	Timestamp *int64      `json:"timestamp,omitempty"`
	Key       []byte      `json:"key"`
	Value     []byte      `json:"value"`
	Headers   [][2][]byte `json:"headers"`
}

// hasNullHeaderKey is for codecs to which a header key is a string: nil would become an empty one.
func (b *batch) hasNullHeaderKey() bool {
	for _, each := range b.Records {
		for _, header := range each.Headers {
			if header[0] == nil {
				return true
			}
		}
	}
	return false
}

// skipped says why the codec cannot be asked.
type skipped string

func (s skipped) Error() string { return string(s) }

var (
	compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}
	newest       = int8(2)
)

// speak answers until there are no more requests.
func speak(of codec) {
	requests := bufio.NewReaderSize(os.Stdin, 1<<16)
	replies := bufio.NewWriterSize(os.Stdout, 1<<16)
	encoder := json.NewEncoder(replies)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		encoder.Encode(of.respond(line))
		replies.Flush()
	}
}

func (c codec) respond(line []byte) any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return reply{ID: asked.ID, answer: answer{Error: &refusal{"malformed", "request: " + err.Error()}}}
	}
	given := reply{ID: asked.ID}
	switch {
	case asked.Op == "hello":
		released := version(c.module)
		return hello{1, c.name, released, "go", runtime.Version(), c.decodes, c.writes, false, true, c.consumer, c.committed != nil}
	case asked.Op == "decode" && asked.Many != nil:
		given.Many = make([]answer, 0, len(asked.Many))
		for _, data := range asked.Many {
			given.Many = append(given.Many, c.decode(data))
		}
	case asked.Op == "decode" && asked.Aborted != nil && c.committed != nil:
		given.answer = c.committed(asked.Data, *asked.Aborted)
	case asked.Op == "decode":
		given.answer = c.decode(asked.Data)
	case asked.Op == "encode" && asked.Batch != nil:
		if asked.Batch.Magic == nil {
			asked.Batch.Magic = &newest
		}
		given.answer = written(c.encode(asked.Batch))
	default:
		given.Skipped = "no operation " + asked.Op
	}
	return given
}

// written makes an answer of what a writer says.
func written(data []byte, err error) answer {
	var cannot skipped
	switch {
	case errors.As(err, &cannot):
		return answer{Skipped: string(cannot)}
	case err != nil:
		return answer{Error: &refusal{"malformed", err.Error()}}
	default:
		return answer{Data: data}
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return "unknown"
}
