// The Consumer of optiopay/kafka.  The requests are those of kafka_conformance/process/client_testee.py.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/optiopay/kafka/v2"
	"github.com/optiopay/kafka/v2/proto"
)

// mostShown is how many bytes of records are shown: of a flood the first, while the consumer reads on to its end.
const mostShown = 12 << 20

type request struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Offset    int64  `json:"offset"`
	End       string `json:"end"`
}

// record is what the library shows of a message: neither times nor headers.
type record struct {
	Offset int64  `json:"offset"`
	Key    []byte `json:"key"`
	Value  []byte `json:"value"`
}

type refusal struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type answer struct {
	Records []record `json:"records"`
	Error   *refusal `json:"error,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
}

type capability struct {
	Magics       []int    `json:"magics"`
	Compressions []string `json:"compressions"`
}

func main() {
	requests := bufio.NewReaderSize(os.Stdin, 1<<16)
	replies := json.NewEncoder(os.Stdout)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		replies.Encode(respond(line))
	}
}

func respond(line []byte) any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: &refusal{"other", "request: " + err.Error()}}
	}
	switch asked.Op {
	case "hello":
		return map[string]any{
			"protocol": 1, "name": "optiopay-kafka", "version": os.Args[1], "language": "go", "runtime": runtime.Version(),
			"decode": capability{[]int{0, 1, 2}, []string{"none", "gzip", "snappy"}},
			"encode": capability{[]int{}, []string{}},
			// It has no isolation level.
			"committed": false,
		}
	case "consume":
		records, err := consume(&asked)
		if err != nil {
			return answer{Records: records, Error: &refusal{kind(err), err.Error()}}
		}
		return answer{Records: records}
	}
	return answer{Skipped: "no operation " + asked.Op}
}

// consume reads until the end record, or the first error.  Each request has a broker connection and a consumer of its own.
func consume(asked *request) ([]record, error) {
	records := []record{}
	broker, err := kafka.Dial([]string{asked.Bootstrap}, kafka.NewBrokerConf("kafkaproof"))
	if err != nil {
		return records, err
	}
	defer broker.Close()
	config := kafka.NewConsumerConf(asked.Topic, 0)
	config.StartOffset = asked.Offset
	// It fetches again after an error as by default, but without half a second between, and less often than the fake broker
	// serves one offset.
	config.RetryErrLimit, config.RetryErrWait = 2, time.Millisecond
	consumer, err := broker.Consumer(config)
	if err != nil {
		return records, err
	}
	for size := 0; ; {
		each, err := consumer.Consume()
		if err != nil || string(each.Key) == asked.End {
			return records, err
		}
		if size += 100 + len(each.Key) + len(each.Value); size < mostShown {
			records = append(records, record{each.Offset, each.Key, each.Value})
		}
	}
}

// kind says what the library's own errors are; what a library below it returns is passed on without a word.
func kind(err error) string {
	var own *proto.KafkaError
	switch {
	case err.Error() == "Wrong CRC32":
		return "corrupt"
	case err.Error() == "Unknown compression":
		return "unsupported_compression"
	case err.Error() == "Incorrect message byte":
		return "unsupported_magic"
	case errors.Is(err, proto.ErrNotEnoughData):
		return "truncated"
	case errors.Is(err, proto.ErrInvalidArrayLen), errors.As(err, &own):
		return "malformed"
	}
	return "other"
}
