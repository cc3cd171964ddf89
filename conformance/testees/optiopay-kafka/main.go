// The Consumer and the Producer of optiopay/kafka.  The requests are those of kafka_conformance/process/client_testee.py.

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
const mostShown = 16 << 20

type request struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	End       string `json:"end"`
	Batch     *batch `json:"batch"`
}

type batch struct {
	Magic       *int8   `json:"magic"`
	Compression string  `json:"compression"`
	Records     []given `json:"records"`
}

// given is a record to write.
type given struct {
	Key     []byte      `json:"key"`
	Value   []byte      `json:"value"`
	Headers [][2][]byte `json:"headers"`
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

// skipped says why the library cannot be asked.
type skipped string

func (s skipped) Error() string { return string(s) }

var compressions = []string{"none", "gzip", "snappy"}

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
			"decode": capability{[]int{0, 1, 2}, compressions},
			// A producer writes v0, whatever the broker offers.
			"encode": capability{[]int{0}, compressions},
			// It has no isolation level.
			"committed": false,
		}
	case "consume":
		return answered(consume(&asked))
	case "produce":
		return answered([]record{}, produce(&asked))
	case "recover":
		serveRecovery(line, startReading)
	}
	return answer{Skipped: "no operation " + asked.Op}
}

func answered(records []record, err error) answer {
	var cannot skipped
	switch {
	case errors.As(err, &cannot):
		return answer{Skipped: string(cannot)}
	case err != nil:
		return answer{Records: records, Error: &refusal{kind(err), err.Error()}}
	}
	return answer{Records: records}
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

// produce has a producer write the records with one call, which sends them in one request.
func produce(asked *request) error {
	codecs := map[string]proto.Compression{
		"": proto.CompressionNone, "none": proto.CompressionNone, "gzip": proto.CompressionGzip, "snappy": proto.CompressionSnappy,
	}
	codec, known := codecs[asked.Batch.Compression]
	switch {
	case asked.Batch.Magic == nil || *asked.Batch.Magic != 0:
		return skipped("it writes magic 0 only")
	case !known:
		return skipped("no codec " + asked.Batch.Compression)
	}
	var messages []*proto.Message
	for _, each := range asked.Batch.Records {
		if len(each.Headers) > 0 {
			return skipped("a message of this client has no headers")
		}
		messages = append(messages, &proto.Message{Key: each.Key, Value: each.Value})
	}
	broker, err := kafka.Dial([]string{asked.Bootstrap}, kafka.NewBrokerConf("kafkaproof"))
	if err != nil {
		return err
	}
	defer broker.Close()
	config := kafka.NewProducerConf()
	config.Compression = codec
	_, err = broker.Producer(config).Produce(asked.Topic, asked.Partition, messages...)
	return err
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
