package vectors

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Outcome is the result of one case.
type Outcome string

// Agree is right; all others are findings.
const (
	Agree          Outcome = "agree"
	WrongData      Outcome = "wrong_data"
	RejectsValid   Outcome = "rejects_valid"
	AcceptsInvalid Outcome = "accepts_invalid"
	Crash          Outcome = "crash" // a panic
)

// Decode gives all records in data, or an error if the codec refuses it.
type Decode func(data []byte) ([]Record, error)

// Finding is a case on which a decoder disagrees.
type Finding struct {
	Case    Case
	Outcome Outcome
	Err     error
}

// Report counts outcomes.
type Report struct {
	Counts   map[Outcome]int
	Findings []Finding
}

// Records gives the records of all expected batches; withControl includes those of control batches.
func (e Expect) Records(withControl bool) []Record {
	records := []Record{}
	for _, batch := range e.Batches {
		if withControl || !batch.Control {
			records = append(records, batch.Records...)
		}
	}
	return records
}

// Equal compares everything; null and empty differ.
func (r Record) Equal(other Record) bool {
	return r.Offset == other.Offset && r.Timestamp == other.Timestamp && same(r.Key, other.Key) &&
		same(r.Value, other.Value) && slices.EqualFunc(r.Headers, other.Headers, Header.Equal)
}

// Equal compares key and value.
func (h Header) Equal(other Header) bool { return h.Key == other.Key && same(h.Value, other.Value) }

func same(one, other []byte) bool { return (one == nil) == (other == nil) && bytes.Equal(one, other) }

// Headers converts a client's headers, if its type has the fields of Header.
func Headers[H ~struct {
	Key   string
	Value []byte
}](from []H) []Header {
	headers := make([]Header, 0, len(from))
	for _, each := range from {
		headers = append(headers, Header(each))
	}
	return headers
}

// Judge compares what a decoder gave for a decode case with the right answer. Control records may be left out.
func (c Case) Judge(records []Record, err error) Outcome {
	right := err == nil && (slices.EqualFunc(records, c.Expect.Records(true), Record.Equal) ||
		slices.EqualFunc(records, c.Expect.Records(false), Record.Equal))
	switch {
	case c.Expect.Verdict == "invalid" && err == nil:
		return AcceptsInvalid
	case c.Expect.Verdict == "valid" && err != nil:
		return RejectsValid
	case c.Expect.Verdict != "invalid" && err == nil && !right:
		return WrongData
	}
	return Agree
}

// Run calls decode for each decode case and judges what it gives.
func Run(cases []Case, decode Decode) Report {
	report := Report{Counts: map[Outcome]int{}}
	for _, each := range cases {
		if each.Op != "decode" {
			continue
		}
		outcome, err := runOne(each, decode)
		report.Counts[outcome]++
		if outcome != Agree {
			report.Findings = append(report.Findings, Finding{each, outcome, err})
		}
	}
	return report
}

func runOne(each Case, decode Decode) (outcome Outcome, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			outcome, err = Crash, fmt.Errorf("panic: %v", reason)
		}
	}()
	records, err := decode(bytes.Clone(each.Input.Data))
	return each.Judge(records, err), err
}

// String gives the counts in one line.
func (r Report) String() string {
	parts := []string{}
	for _, outcome := range []Outcome{Agree, WrongData, RejectsValid, AcceptsInvalid, Crash} {
		parts = append(parts, fmt.Sprintf("%d %s", r.Counts[outcome], outcome))
	}
	return strings.Join(parts, ", ")
}

// Print writes the counts to standard output.
func (r Report) Print() { r.Write(os.Stdout) }

// Write writes the counts, and nothing else.
func (r Report) Write(to io.Writer) { fmt.Fprintln(to, r) }
