// Serves franz-go's record codec by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Decoding is kgo.ProcessFetchPartition, which the client's own fetches go through; encoding is its producer, in front
// of a broker made of kmsg's types.  Nothing is corrected on the way: what franz-go loses or refuses, the reply shows.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topic = "t"

// --- protocol -------------------------------------------------------------------------------------------------------

type request struct {
	ID    string   `json:"id"`
	Op    string   `json:"op"`
	Data  []byte   `json:"data"`
	Many  [][]byte `json:"many"`
	Batch *batch   `json:"batch"`
}

type capability struct {
	Magics       []int    `json:"magics"`
	Compressions []string `json:"compressions"`
}

type hello struct {
	Protocol int        `json:"protocol"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	Language string     `json:"language"`
	Runtime  string     `json:"runtime"`
	Decode   capability `json:"decode"`
	Encode   capability `json:"encode"`
	Append   bool       `json:"append"`
	Many     bool       `json:"many"`
}

type answer struct {
	Batches *[]batch `json:"batches,omitempty"`
	Data    []byte   `json:"data,omitempty"`
	Error   *refusal `json:"error,omitempty"`
	Skipped string   `json:"skipped,omitempty"`
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

// batch leaves out what is nil: franz-go does not tell it.
type batch struct {
	Magic                int8     `json:"magic"`
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

// skipped says why franz-go cannot be asked.
type skipped string

func (s skipped) Error() string { return string(s) }

var compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func main() {
	requests := bufio.NewReaderSize(os.Stdin, 1<<16)
	replies := bufio.NewWriterSize(os.Stdout, 1<<16)
	encoder := json.NewEncoder(replies)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return
		}
		encoder.Encode(respond(line))
		replies.Flush()
	}
}

func respond(line []byte) any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return reply{ID: asked.ID, answer: answer{Error: &refusal{"malformed", "request: " + err.Error()}}}
	}
	given := reply{ID: asked.ID}
	switch {
	case asked.Op == "hello":
		able := capability{[]int{0, 1, 2}, compressions}
		return hello{1, "franz-go", version("github.com/twmb/franz-go"), "go", runtime.Version(), able, able, false, true}
	case asked.Op == "decode" && asked.Many != nil:
		given.Many = make([]answer, 0, len(asked.Many))
		for _, data := range asked.Many {
			given.Many = append(given.Many, decode(data))
		}
	case asked.Op == "decode":
		given.answer = decode(asked.Data)
	case asked.Op == "encode" && asked.Batch != nil:
		given.answer = encodeOrSay(asked.Batch)
	default:
		given.Skipped = "no operation " + asked.Op
	}
	return given
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

// --- decode ---------------------------------------------------------------------------------------------------------

// watched keeps the decompressor's error, whose type kgo hides.
type watched struct {
	kgo.Decompressor
	err error
}

func (w *watched) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	var out []byte
	out, w.err = w.Decompressor.Decompress(src, codec)
	return out, w.err
}

var decompressor = &watched{Decompressor: kgo.DefaultDecompressor()}

// decode feeds one batch at a time, as a broker may, since a client that has read an offset drops what lies below it.
// falls is set where it is measured what a testee costs that ends over one input in ten.
var falls = os.Getenv("KAFKAPROOF_FALLS") != ""

func decode(data []byte) answer {
	if falls && crc32.ChecksumIEEE(data)%10 == 0 {
		panic("one input in ten")
	}
	batches := []batch{}
	given := answer{Batches: &batches}
	for len(data) > 0 {
		entry := data[:entryLength(data)]
		data = data[len(entry):]
		fetched, processed := process(entry)
		if fetched.Err != nil {
			given.Error = &refusal{kind(fetched.Err), fetched.Err.Error()}
			return given
		}
		if !processed {
			return given // to kgo the rest is a partial batch
		}
		batches = append(batches, describe(entry, fetched.Records))
	}
	return given
}

// entryLength is where the next entry starts; what does not add up goes to franz-go as it is.
func entryLength(data []byte) int {
	if len(data) >= 12 {
		end := 12 + int64(int32(binary.BigEndian.Uint32(data[8:])))
		if end > 12 && end < int64(len(data)) {
			return int(end)
		}
	}
	return len(data)
}

func process(entry []byte) (kgo.FetchPartition, bool) {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = entry
	options := kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: math.MinInt64, Topic: topic}
	processed := false
	decompressor.err = nil
	fetched, _ := kgo.ProcessFetchPartition(options, &partition, decompressor, func(kgo.FetchBatchMetrics) { processed = true })
	return fetched, processed
}

// describe tells a batch by kmsg's header and kgo's records.
func describe(entry []byte, records []*kgo.Record) batch {
	described := batch{Magic: int8(entry[16]), Records: []record{}}
	if described.Magic == 2 {
		header := kmsg.NewRecordBatch()
		header.ReadFrom(entry) // kgo has read it too
		last := header.FirstOffset + int64(header.LastOffsetDelta)
		described.BaseOffset, described.LastOffset = &header.FirstOffset, &last
		described.MaxTimestamp, described.BaseSequence = &header.MaxTimestamp, &header.FirstSequence
		described.ProducerID, described.ProducerEpoch = &header.ProducerID, &header.ProducerEpoch
		described.PartitionLeaderEpoch = &header.PartitionLeaderEpoch
	}
	for _, each := range records {
		described.Records = append(described.Records, tell(each))
	}
	if len(records) > 0 {
		attributes := records[0].Attrs
		described.TimestampType = map[int8]string{-1: "none", 0: "create", 1: "append"}[attributes.TimestampType()]
		described.Compression = compressionName(attributes.CompressionType())
		if described.Magic == 2 {
			transactional, control := attributes.IsTransactional(), attributes.IsControl()
			described.Transactional, described.Control = &transactional, &control
		}
	}
	return described
}

func compressionName(codec uint8) string {
	if int(codec) < len(compressions) {
		return compressions[codec]
	}
	return fmt.Sprint(codec)
}

func tell(each *kgo.Record) record {
	told := record{Offset: each.Offset, Key: each.Key, Value: each.Value, Headers: [][2][]byte{}}
	if each.Attrs.TimestampType() >= 0 { // a v0 record has the zero time
		timestamp := each.Timestamp.UnixMilli()
		told.Timestamp = &timestamp
	}
	for _, header := range each.Headers {
		told.Headers = append(told.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
	}
	return told
}

// kind tells an error of kgo's by its type where it has one, else by its text.
func kind(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "MaxDecompressBatchBytes"): // its error has a type in the newest releases only
		return "limit"
	case decompressor.err != nil && decompressor.err.Error() == "unknown compression codec":
		return "unsupported_compression"
	case decompressor.err != nil:
		return "decompression"
	case strings.Contains(text, "crc"):
		return "corrupt"
	case strings.Contains(text, "magic"):
		return "unsupported_magic"
	default:
		return "malformed"
	}
}

// --- encode ---------------------------------------------------------------------------------------------------------

func encodeOrSay(wanted *batch) answer {
	data, err := encode(wanted)
	// Records wait until the topic is known, and are then handed on while they are sent already: when a machine is
	// busy, the first may leave alone. That is no fault of the writer, and does not happen again and again.
	for again := 0; errors.Is(err, errSeveral) && again < 5; again++ {
		data, err = encode(wanted)
	}
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

var errSeveral = errors.New("the producer made several batches")

// encode has a producer send the records, and gives the bytes in its request.
func encode(wanted *batch) ([]byte, error) {
	if err := expressible(wanted); err != nil {
		return nil, err
	}
	codec, ok := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[wanted.Compression]
	if !ok {
		return nil, skipped("no codec " + wanted.Compression)
	}
	broker := &broker{magic: wanted.Magic, produced: make(chan []byte, 4)}
	client, err := kgo.NewClient(
		kgo.SeedBrokers("127.0.0.1:9"), kgo.Dialer(broker.dial), kgo.DisableIdempotentWrite(), kgo.ManualFlushing(),
		kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1<<30), kgo.BrokerMaxWriteBytes(1<<30),
		kgo.MaxBufferedRecords(1<<30), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var refused error
	for _, each := range wanted.Records {
		client.Produce(ctx, produced(each), func(_ *kgo.Record, err error) { refused = errors.Join(refused, err) })
	}
	if err := errors.Join(client.Flush(ctx), refused); err != nil {
		return nil, err
	}
	data := <-broker.produced
	if len(broker.produced) > 0 {
		return nil, errSeveral
	}
	if wanted.Compression != "" && wanted.Compression != "none" && data[attributesAt(data)]&7 == 0 {
		return nil, skipped("the producer sends plain what compression does not make smaller")
	}
	return data, nil
}

// attributesAt is where the low byte of the attributes lies.
func attributesAt(data []byte) int {
	if data[16] == 2 {
		return 22
	}
	return 17
}

func produced(each record) *kgo.Record {
	made := &kgo.Record{Topic: topic, Key: each.Key, Value: each.Value}
	if each.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*each.Timestamp)
	}
	for _, header := range each.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: string(header[0]), Value: header[1]})
	}
	return made
}

// expressible says what a producer cannot be asked for.
func expressible(wanted *batch) error {
	others := []struct {
		unusual bool
		what    string
	}{
		{wanted.Magic < 0 || wanted.Magic > 2, "such a magic"},
		{len(wanted.Records) == 0, "a batch without records"},
		{differs(wanted.BaseOffset, 0), "a base offset other than 0"},
		{differs(wanted.LastOffset, int64(len(wanted.Records)-1)), "an offset after the last record"},
		{differs(wanted.PartitionLeaderEpoch, -1), "a partition leader epoch"},
		{differs(wanted.ProducerID, -1) || differs(wanted.ProducerEpoch, -1), "a producer id"},
		{differs(wanted.BaseSequence, -1), "a sequence"},
		{wanted.TimestampType == "append", "LogAppendTime"},
		{wanted.TimestampType == "none" && wanted.Magic > 0, "records without timestamps"},
		{differs(wanted.Transactional, false), "a transactional batch by itself"},
		{differs(wanted.Control, false), "a control batch"},
		{wanted.DeleteHorizon != nil, "a delete horizon"},
		{wanted.Compression == "zstd" && wanted.Magic < 2, "zstd in old messages"},
	}
	for _, each := range others {
		if each.unusual {
			return skipped("a producer cannot be asked for " + each.what)
		}
	}
	for at, each := range wanted.Records {
		if each.Offset != int64(at) {
			return skipped("a producer cannot be asked for gaps between offsets")
		}
	}
	highest := int64(math.MinInt64)
	for _, each := range wanted.Records {
		if each.Timestamp != nil {
			highest = max(highest, *each.Timestamp)
		}
	}
	if wanted.Magic > 0 && wanted.MaxTimestamp != nil && *wanted.MaxTimestamp != highest {
		return skipped("a producer cannot be asked for another max timestamp")
	}
	return nil
}

func differs[T comparable](given *T, usual T) bool { return given != nil && *given != usual }

// --- the broker behind the producer ---------------------------------------------------------------------------------

// broker answers a client over a pipe, and keeps the record sets that it is sent.
type broker struct {
	magic    int8
	produced chan []byte
}

func (b *broker) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go b.serve(ours)
	return theirs, nil
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		sent := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
		sent.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
		body := frame[8:]
		if n := int16(binary.BigEndian.Uint16(body)); n >= 0 { // the client's id
			body = body[2+n:]
		} else {
			body = body[2:]
		}
		if sent.IsFlexible() {
			body = body[1:] // no tags
		}
		if err := sent.ReadFrom(body); err != nil {
			return
		}
		given := b.answer(sent)
		out := append(make([]byte, 4), frame[4:8]...)
		if sent.IsFlexible() && sent.Key() != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = given.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (b *broker) answer(sent kmsg.Request) kmsg.Response {
	given := sent.ResponseKind()
	switch given := given.(type) {
	case *kmsg.ApiVersionsResponse:
		// The newest Produce that takes this format: 1 is v0, 2 is v1, 7 takes zstd.
		for key, newest := range map[kmsg.Key]int16{kmsg.Produce: []int16{1, 2, 7}[b.magic], kmsg.Metadata: 7, kmsg.ApiVersions: 3, kmsg.Fetch: 10} {
			able := kmsg.NewApiVersionsResponseApiKey()
			able.ApiKey, able.MaxVersion = int16(key), newest
			given.ApiKeys = append(given.ApiKeys, able)
		}
	case *kmsg.MetadataResponse:
		one := kmsg.NewMetadataResponseBroker()
		one.NodeID, one.Host, one.Port = 1, "127.0.0.1", 9
		given.Brokers = append(given.Brokers, one)
		given.ControllerID = 1
		named, name := kmsg.NewMetadataResponseTopic(), topic
		named.Topic = &name
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Leader, partition.Replicas, partition.ISR = 1, []int32{1}, []int32{1}
		named.Partitions = append(named.Partitions, partition)
		given.Topics = append(given.Topics, named)
	case *kmsg.ProduceResponse:
		for _, each := range sent.(*kmsg.ProduceRequest).Topics {
			for _, part := range each.Partitions {
				b.produced <- append([]byte{}, part.Records...)
				stored := kmsg.NewProduceResponseTopicPartition()
				stored.Partition = part.Partition
				answered := kmsg.NewProduceResponseTopic()
				answered.Topic = each.Topic
				answered.Partitions = append(answered.Partitions, stored)
				given.Topics = append(given.Topics, answered)
			}
		}
	}
	return given
}
