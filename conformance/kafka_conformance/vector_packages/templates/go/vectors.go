// Package vectors has the test cases of Kafkaproof for Kafka's record formats.
//
// Cases gives them, chosen by a Filter; Run calls a decoder with each and judges what it gives.
package vectors

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

//go:embed cases.ndjson
var casesData []byte

//go:embed rules.json
var rulesData []byte

//go:embed manifest.json
var manifestData []byte

// Case is one question to a codec or a broker, and its right answer.
type Case struct {
	ID, SHA256, Title, Area, Op, Since, Supersedes string
	Rules, Refs                                    []string
	Facts                                          Facts
	Input                                          Input
	Expect                                         Expect
}

// Facts are what the judge of Kafkaproof knows of a case besides the right answer.
type Facts struct {
	Profile, Reach, Strength string
	Required                 bool
	Magics                   []int
	Compressions             []string
}

// Input has one of Data (never nil then), Batch and Scenario.
type Input struct {
	Data     []byte
	Batch    *Batch
	Scenario *Scenario
	Aborted  [][2]int64 // producer id and first offset of each aborted transaction; nil if the case is not about them
}

// Expect is the right answer.
type Expect struct {
	Verdict   string // valid, invalid or acceptable
	Batches   []Batch
	Data      []byte
	Kinds     []string
	Compare   string
	Why       string
	Answers   []StepAnswer
	Committed []int64 // offsets that a read_committed consumer sees, if Input.Aborted is not nil
}

// Batch is one entry of a log: a v2 batch, a v0 or v1 message, or a wrapper with its inner messages as records.
// Integers are wider than in the format: cases that must be refused have values beyond it.
type Batch struct {
	Magic                int
	BaseOffset           int64 `json:"base_offset"`
	LastOffset           int64 `json:"last_offset"`
	Compression          string
	TimestampType        string `json:"timestamp_type"`
	MaxTimestamp         int64  `json:"max_timestamp"`
	ProducerID           int64  `json:"producer_id"`
	ProducerEpoch        int    `json:"producer_epoch"`
	BaseSequence         int64  `json:"base_sequence"`
	Transactional        bool
	Control              bool
	PartitionLeaderEpoch int64  `json:"partition_leader_epoch"`
	DeleteHorizon        *int64 `json:"delete_horizon"`
	Records              []Record
}

// Record is one record; a nil key or value is Kafka's null, which is not the same as an empty one.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           []Header
}

// Header is one header; its key may be no valid UTF-8.
type Header struct {
	Key   string
	Value []byte
}

// UnmarshalJSON reads a pair of base64 texts.
func (h *Header) UnmarshalJSON(data []byte) error {
	var pair [2][]byte
	err := json.Unmarshal(data, &pair)
	h.Key, h.Value = string(pair[0]), pair[1]
	return err
}

// Scenario has the steps to run on a broker's empty partition; Config are the topic's settings.
type Scenario struct {
	Steps        []Step
	Config       map[string]string
	Since, Until string
}

// Step is one step of a scenario. Do names it, and says which of the fields count.
type Step struct {
	Do, Producer, Topic, Isolation           string
	Data, Again, Beside                      []byte
	APIVersion                               int `json:"api_version"`
	Acks                                     int
	EpochsBack                               int  `json:"epochs_back"`
	EpochsAhead                              *int `json:"epochs_ahead"` // of a marker; nil is 1
	CoordinatorEpoch                         int  `json:"coordinator_epoch"`
	TransactionVersion                       int  `json:"transaction_version"`
	Transactional, Commit, Clean, Cut, Fatal bool
	Offset, Timestamp, At                    int64
	MaxBytes                                 *int `json:"max_bytes"`
	// Files of the partition that change in a restart: new content by name; nil removes one.
	Files map[string][]byte
}

// StepAnswer is a broker's answer to one step.
type StepAnswer struct {
	ErrorCode        int   `json:"error_code"`
	BaseOffset       int64 `json:"base_offset"`
	LogAppendTime    int64 `json:"log_append_time"`
	Data             []byte
	RecordErrors     []int `json:"record_errors"`
	HighWatermark    int64 `json:"high_watermark"`
	LastStableOffset int64 `json:"last_stable_offset"`
	Aborted          []struct {
		ProducerID  int64 `json:"producer_id"`
		FirstOffset int64 `json:"first_offset"`
	}
	Text                  string
	Beside                *int
	Closed, Silent, Ended bool
}

// Rule is one rule of the format, with its sources.
type Rule struct {
	Statement, Strength, Outcome string
	Sources                      []string
}

// Manifest describes the content: counts, hashes, and the cases that are left out, with the reason.
type Manifest struct {
	Version       string
	CorpusVersion string `json:"corpus_version"`
	CorpusSHA256  string `json:"corpus_sha256"`
	Unreleased    bool
	Cases         int
	Ops           map[string]int
	Verdicts      map[string]int
	Areas         map[string]int
	SHA256        map[string]string
	LeftOut       map[string]string `json:"left_out"`
}

// Filter chooses cases. An empty list restricts nothing; Magics and Compressions are what a codec can read or write.
type Filter struct {
	Areas, Ops, Verdicts, Profiles, Compressions []string
	Magics                                       []int
}

func (f Filter) matches(c *Case) bool {
	return allowed(f.Areas, c.Area) && allowed(f.Ops, c.Op) && allowed(f.Verdicts, c.Expect.Verdict) &&
		allowed(f.Profiles, c.Facts.Profile) && allowed(f.Compressions, c.Facts.Compressions...) &&
		allowed(f.Magics, c.Facts.Magics...)
}

func allowed[T comparable](list []T, values ...T) bool {
	return len(list) == 0 || !slices.ContainsFunc(values, func(value T) bool { return !slices.Contains(list, value) })
}

var load = sync.OnceValue(func() []Case {
	var cases []Case
	for line := range bytes.Lines(casesData) {
		var each Case
		parse(line, &each)
		cases = append(cases, each)
	}
	return cases
})

// Cases gives the cases that the filter chooses, sorted by id. They are shared: do not change them.
func Cases(filter Filter) []Case {
	var chosen []Case
	for _, each := range load() {
		if filter.matches(&each) {
			chosen = append(chosen, each)
		}
	}
	return chosen
}

// Rules gives the rules that cases name, by id.
func Rules() map[string]Rule {
	var rules map[string]Rule
	parse(rulesData, &rules)
	return rules
}

// Describe gives the manifest.
func Describe() Manifest {
	var manifest Manifest
	parse(manifestData, &manifest)
	return manifest
}

// The data is part of the package, so an error is a defect of the package.
func parse(data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		panic(fmt.Sprintf("kafkaproof vectors: %v", err))
	}
}
