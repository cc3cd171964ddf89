// An application that goes on after errors, as kafka_conformance/edges/recovery.py runs it.  It is compiled into each client.

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// application is a consumer in the hands of a user.
type application interface {
	// poll waits for records as long as that; both results may be empty.
	poll(time.Duration) ([]record, error)
	seek(int64) error
	// position is the offset of the next record; -1 if the consumer does not say.
	position() int64
}

// place is what an error says of its place; what it does not name is nil.
type place struct {
	Topic     *string `json:"topic,omitempty"`
	Partition *int32  `json:"partition,omitempty"`
	Offset    *int64  `json:"offset,omitempty"`
}

// placed is an error with the attributes that the library gives beside it.
type placed struct {
	error
	place place
}

func (p placed) Unwrap() error { return p.error }

type recoverRequest struct {
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Offset    int64  `json:"offset"`
	End       string `json:"end"`
	Seek      bool   `json:"seek"`
	Past      int64  `json:"past"`
	Silence   int64  `json:"silence_ms"`
	Limit     int64  `json:"limit_ms"`
	After     int64  `json:"after_error_ms"`
}

func emit(event map[string]any) {
	json.NewEncoder(os.Stdout).Encode(event)
}

// serveRecovery runs an application for one request, and ends the process.
func serveRecovery(line []byte, start func(bootstrap, topic string, offset int64) (application, error)) {
	var asked recoverRequest
	err := json.Unmarshal(line, &asked)
	if err == nil {
		var app application
		if app, err = start(asked.Bootstrap, asked.Topic, asked.Offset); err == nil {
			emit(map[string]any{"done": goOn(app, asked)})
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func goOn(app application, asked recoverRequest) string {
	deadline, quiet := time.Now().Add(time.Duration(asked.Limit)*time.Millisecond), time.Now()
	last, tried, jumped, failed := asked.Offset-1, int64(-1), false, false
	for time.Now().Before(deadline) {
		records, err := app.poll(500 * time.Millisecond)
		for _, each := range records {
			emit(map[string]any{"offset": each.Offset, "value": base64.StdEncoding.EncodeToString(each.Value)})
			quiet, last = time.Now(), each.Offset
			if string(each.Key) == asked.End {
				return "end"
			}
		}
		if err != nil {
			quiet = time.Now()
			target := max(report(app, err, last), tried+1)
			if !asked.Seek {
				if end := quiet.Add(time.Duration(asked.After) * time.Millisecond); !failed {
					failed, deadline = true, end
				}
				time.Sleep(100 * time.Millisecond)
				continue
			}
			tried = target
			emit(map[string]any{"sought": target, "why": "error"})
			if err := app.seek(target); err != nil {
				emit(map[string]any{"error": map[string]any{"type": "seek", "message": err.Error()}})
			}
		}
		if asked.Seek && !jumped && time.Since(quiet) > time.Duration(asked.Silence)*time.Millisecond {
			jumped, quiet = true, time.Now()
			if err := app.seek(asked.Past); err != nil {
				emit(map[string]any{"error": map[string]any{"type": "seek", "message": err.Error()}})
			}
			emit(map[string]any{"sought": asked.Past, "why": "silence"})
		}
	}
	return "time"
}

// report prints an error, and says which offset it is at: what the error names, else the position, else after the last record.
func report(app application, err error, last int64) int64 {
	shown := map[string]any{"type": fmt.Sprintf("%T", err), "message": err.Error()}
	event, at := map[string]any{"error": shown}, last+1
	if position := app.position(); position >= 0 {
		event["position"], at = position, position
	}
	if known, ok := err.(placed); ok {
		shown["type"] = fmt.Sprintf("%T", known.error)
		if known.place.Topic != nil {
			shown["topic"] = *known.place.Topic
		}
		if known.place.Partition != nil {
			shown["partition"] = *known.place.Partition
		}
		if known.place.Offset != nil {
			shown["offset"], at = *known.place.Offset, *known.place.Offset
		}
	}
	emit(event)
	return at
}
