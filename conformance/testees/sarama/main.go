// Serves sarama's record codec by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Decoding is Broker.Fetch, encoding is Broker.Produce, both over a pipe to a peer that only moves bytes: sarama exports
// its record types, but not their decode and encode.  Nothing is corrected on the way: what sarama loses or refuses,
// the reply shows.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic   = "t"
	address = "127.0.0.1:9"
)

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

// batch leaves out what is nil: sarama does not tell it.
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

// skipped says why sarama cannot be asked.
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
		return hello{1, "sarama", version("github.com/IBM/sarama"), "go", runtime.Version(), able, able, false, true}
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

// decode has a broker answer a fetch with the data as they are.
func decode(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	wire.records <- data
	asked := &sarama.FetchRequest{Version: 4, MaxBytes: math.MaxInt32}
	asked.AddBlock(topic, 0, 0, math.MaxInt32, -1)
	fetched, err := wire.connected().Fetch(asked)
	if err != nil {
		given.Error = &refusal{kind(err), err.Error()}
		return given
	}
	for _, records := range fetched.GetBlock(topic, 0).RecordsSet {
		if records.RecordBatch != nil {
			batches = append(batches, tellBatch(records.RecordBatch)...)
		} else {
			for _, block := range records.MsgSet.Messages {
				batches = append(batches, tellMessage(block))
			}
		}
	}
	return given
}

// tellBatch gives nothing for what sarama takes for the partial end of a fetch.
func tellBatch(found *sarama.RecordBatch) []batch {
	if found.PartialTrailingRecord {
		return nil
	}
	last, highest := found.LastOffset(), millis(found.MaxTimestamp)
	told := batch{
		Magic: found.Version, BaseOffset: &found.FirstOffset, LastOffset: &last, Compression: name(found.Codec),
		TimestampType: timestampType(found.LogAppendTime), MaxTimestamp: &highest,
		ProducerID: &found.ProducerID, ProducerEpoch: &found.ProducerEpoch, BaseSequence: &found.FirstSequence,
		Transactional: &found.IsTransactional, Control: &found.Control,
		PartitionLeaderEpoch: &found.PartitionLeaderEpoch, Records: []record{},
	}
	for _, each := range found.Records {
		// As partitionConsumer.parseRecords puts them together.
		timestamp := millis(found.FirstTimestamp.Add(each.TimestampDelta))
		if found.LogAppendTime {
			timestamp = highest
		}
		made := record{Offset: found.FirstOffset + each.OffsetDelta, Timestamp: &timestamp, Key: each.Key, Value: each.Value}
		made.Headers = [][2][]byte{}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		told.Records = append(told.Records, made)
	}
	return []batch{told}
}

func tellMessage(block *sarama.MessageBlock) batch {
	told := batch{Magic: block.Msg.Version, LastOffset: &block.Offset, Compression: name(block.Msg.Codec)}
	told.TimestampType, told.Records = "none", []record{}
	if block.Msg.Version > 0 {
		highest := millis(block.Msg.Timestamp)
		told.TimestampType, told.MaxTimestamp = timestampType(block.Msg.LogAppendTime), &highest
	}
	inner := block.Messages()
	for _, each := range inner {
		// As partitionConsumer.parseMessages puts them together.
		offset, timestamp := each.Offset, millis(each.Msg.Timestamp)
		if each.Msg.Version >= 1 {
			offset += block.Offset - inner[len(inner)-1].Offset
			if each.Msg.LogAppendTime {
				timestamp = millis(block.Msg.Timestamp)
			}
		}
		made := record{Offset: offset, Key: each.Msg.Key, Value: each.Msg.Value, Headers: [][2][]byte{}}
		if each.Msg.Version >= 1 {
			made.Timestamp = &timestamp
		}
		told.Records = append(told.Records, made)
	}
	return told
}

// millis takes the zero time for none, as sarama writes it.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

func timestampType(appended bool) string {
	if appended {
		return "append"
	}
	return "create"
}

func name(codec sarama.CompressionCodec) string {
	if codec >= 0 && int(codec) < len(compressions) {
		return compressions[codec]
	}
	return fmt.Sprint(int8(codec))
}

// kind tells an error by its type; what is none of sarama's comes from a decompressor.
func kind(err error) string {
	var decoding sarama.PacketDecodingError
	switch {
	case errors.Is(err, sarama.ErrInsufficientData):
		return "truncated"
	case !errors.As(err, &decoding):
		if strings.Contains(err.Error(), "larger than the configured limit") {
			return "limit"
		}
		return "decompression"
	case strings.HasPrefix(decoding.Info, "CRC"):
		return "corrupt"
	case strings.HasPrefix(decoding.Info, "unknown magic"):
		return "unsupported_magic"
	case strings.HasPrefix(decoding.Info, "invalid compression"):
		return "unsupported_compression"
	default:
		return "malformed"
	}
}

// --- encode ---------------------------------------------------------------------------------------------------------

func encodeOrSay(wanted *batch) answer {
	data, err := encode(wanted)
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

func encode(wanted *batch) ([]byte, error) {
	codec := sarama.CompressionNone
	if wanted.Compression != "" {
		if err := codec.UnmarshalText([]byte(wanted.Compression)); err != nil {
			return nil, skipped(err.Error())
		}
	}
	switch {
	case wanted.Magic < 0 || wanted.Magic > 2:
		return nil, skipped("sarama has no such magic")
	case isProducers(wanted):
		return produceRecords(wanted, codec)
	case wanted.Magic < 2 && isBeyondMessages(wanted):
		return nil, skipped("to sarama an old message has no headers, no producer and no control bit")
	case wanted.DeleteHorizon != nil:
		return nil, skipped("sarama has no delete horizon")
	case wanted.TimestampType == "none" && wanted.Magic > 0:
		return nil, skipped("sarama has no records without timestamps in this format")
	case wanted.Magic == 2:
		made, err := newBatch(wanted, codec)
		if err != nil {
			return nil, err
		}
		asked := &sarama.ProduceRequest{Version: 3, RequiredAcks: sarama.NoResponse}
		asked.AddBatch(topic, 0, made)
		return wire.produce(asked)
	case len(wanted.Records) == 0:
		return nil, skipped("a set holds at least one message")
	case codec == sarama.CompressionNone:
		var blocks []*sarama.MessageBlock
		for _, each := range wanted.Records {
			blocks = append(blocks, &sarama.MessageBlock{Offset: each.Offset, Msg: newMessage(wanted, each)})
		}
		return produceSet(blocks...)
	default:
		return encodeWrapper(wanted, codec)
	}
}

// isProducers says whether an AsyncProducer can be asked for this: records from offset 0, and nothing set beside them.
func isProducers(wanted *batch) bool {
	highest := int64(math.MinInt64)
	for at, each := range wanted.Records {
		timestamp := or(each.Timestamp, -1)
		if each.Offset != int64(at) || wanted.Magic > 0 && timestamp == -1 { // no time, to a producer, is now
			return false
		}
		highest = max(highest, timestamp)
	}
	return len(wanted.Records) > 0 && or(wanted.BaseOffset, 0) == 0 &&
		or(wanted.LastOffset, int64(len(wanted.Records)-1)) == int64(len(wanted.Records)-1) &&
		(wanted.Magic == 0 || or(wanted.MaxTimestamp, highest) == highest && wanted.TimestampType != "none") &&
		wanted.TimestampType != "append" && wanted.DeleteHorizon == nil && !isOwned(wanted) &&
		or(wanted.PartitionLeaderEpoch, -1) == -1
}

func isOwned(wanted *batch) bool {
	return or(wanted.ProducerID, -1) != -1 || or(wanted.ProducerEpoch, -1) != -1 || or(wanted.BaseSequence, -1) != -1 ||
		or(wanted.Transactional, false) || or(wanted.Control, false)
}

func isBeyondMessages(wanted *batch) bool {
	for _, each := range wanted.Records {
		if len(each.Headers) > 0 {
			return true
		}
	}
	return isOwned(wanted)
}

// produceRecords has an AsyncProducer send the records in one batch, to a broker of the release that takes this format.
func produceRecords(wanted *batch, codec sarama.CompressionCodec) ([]byte, error) {
	config := wire.config()
	config.Version = []sarama.KafkaVersion{sarama.V0_9_0_0, sarama.V0_10_0_0, sarama.V2_1_0_0}[wanted.Magic]
	config.Metadata.Retry.Max, config.Producer.Retry.Max = 0, 0
	config.Producer.RequiredAcks, config.Producer.Return.Successes = sarama.NoResponse, true
	config.Producer.Compression, config.Producer.Partitioner = codec, sarama.NewManualPartitioner
	config.Producer.Flush.Messages, config.Producer.MaxMessageBytes = len(wanted.Records), int(sarama.MaxRequestSize)-(1<<20)
	producer, err := sarama.NewAsyncProducer([]string{address}, config)
	if err != nil {
		return nil, skipped(err.Error())
	}
	defer producer.AsyncClose()
	go func() {
		for _, each := range wanted.Records {
			producer.Input() <- newProducerMessage(each)
		}
	}()
	for range wanted.Records {
		select {
		case <-producer.Successes():
		case refused := <-producer.Errors():
			return nil, refused.Err
		}
	}
	return <-wire.produced, nil
}

func newProducerMessage(from record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: topic}
	if from.Key != nil {
		made.Key = sarama.ByteEncoder(from.Key)
	}
	if from.Value != nil {
		made.Value = sarama.ByteEncoder(from.Value)
	}
	if from.Timestamp != nil && *from.Timestamp != -1 {
		made.Timestamp = time.UnixMilli(*from.Timestamp)
	}
	for _, header := range from.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: header[0], Value: header[1]})
	}
	return made
}

// newBatch fills sarama's struct, which wants deltas.
func newBatch(wanted *batch, codec sarama.CompressionCodec) (*sarama.RecordBatch, error) {
	made := &sarama.RecordBatch{
		Version: 2, Codec: codec, CompressionLevel: sarama.CompressionLevelDefault,
		FirstOffset: or(wanted.BaseOffset, 0), PartitionLeaderEpoch: or(wanted.PartitionLeaderEpoch, -1),
		Control: or(wanted.Control, false), IsTransactional: or(wanted.Transactional, false),
		LogAppendTime: wanted.TimestampType == "append", ProducerID: or(wanted.ProducerID, -1),
		ProducerEpoch: or(wanted.ProducerEpoch, -1), FirstSequence: or(wanted.BaseSequence, -1),
	}
	first := int64(-1)
	if len(wanted.Records) > 0 {
		first = or(wanted.Records[0].Timestamp, -1)
	}
	highest := first
	made.LastOffsetDelta = int32(len(wanted.Records) - 1)
	for _, each := range wanted.Records {
		timestamp := or(each.Timestamp, -1)
		highest = max(highest, timestamp)
		if delta := timestamp - first; delta > math.MaxInt64/int64(time.Millisecond) || delta < math.MinInt64/int64(time.Millisecond) {
			return nil, skipped("to sarama a timestamp delta is a time.Duration, which ends after 292 years")
		}
		record := &sarama.Record{
			Key: each.Key, Value: each.Value, OffsetDelta: each.Offset - made.FirstOffset,
			TimestampDelta: time.Duration(timestamp-first) * time.Millisecond,
		}
		for _, header := range each.Headers {
			record.Headers = append(record.Headers, &sarama.RecordHeader{Key: header[0], Value: header[1]})
		}
		made.Records = append(made.Records, record)
	}
	if wanted.LastOffset != nil {
		made.LastOffsetDelta = int32(*wanted.LastOffset - made.FirstOffset)
	}
	made.FirstTimestamp, made.MaxTimestamp = moment(first), moment(or(wanted.MaxTimestamp, highest))
	return made, nil
}

func newMessage(wanted *batch, from record) *sarama.Message {
	return &sarama.Message{
		Version: wanted.Magic, Key: from.Key, Value: from.Value, Timestamp: moment(or(from.Timestamp, -1)),
		CompressionLevel: sarama.CompressionLevelDefault, LogAppendTime: wanted.TimestampType == "append",
	}
}

// encodeWrapper has the inner set written first, since a wrapper takes it as bytes.
func encodeWrapper(wanted *batch, codec sarama.CompressionCodec) ([]byte, error) {
	var blocks []*sarama.MessageBlock
	highest := int64(-1)
	for _, each := range wanted.Records {
		block := &sarama.MessageBlock{Offset: each.Offset, Msg: newMessage(wanted, each)}
		if wanted.Magic == 1 { // relative offsets
			block.Offset -= or(wanted.BaseOffset, wanted.Records[0].Offset)
		}
		blocks = append(blocks, block)
		highest = max(highest, or(each.Timestamp, -1))
	}
	inner, err := produceSet(blocks...)
	if err != nil {
		return nil, err
	}
	highest = or(wanted.MaxTimestamp, highest)
	wrapper := newMessage(wanted, record{Value: inner, Timestamp: &highest})
	wrapper.Codec = codec
	last := wanted.Records[len(wanted.Records)-1].Offset
	return produceSet(&sarama.MessageBlock{Offset: or(wanted.LastOffset, last), Msg: wrapper})
}

func produceSet(blocks ...*sarama.MessageBlock) ([]byte, error) {
	asked := &sarama.ProduceRequest{Version: 2, RequiredAcks: sarama.NoResponse}
	asked.AddSet(topic, 0, &sarama.MessageSet{Messages: blocks})
	return wire.produce(asked)
}

func or[T any](given *T, usual T) T {
	if given == nil {
		return usual
	}
	return *given
}

// moment is the zero time for -1, which is how sarama is told that there is none.
func moment(millis int64) time.Time {
	if millis == -1 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// --- the peer -------------------------------------------------------------------------------------------------------

// peer is what sarama takes for a broker: it answers a fetch with the records it is given, and keeps what is produced.
type peer struct {
	broker   *sarama.Broker
	records  chan []byte
	produced chan []byte
}

var wire = &peer{records: make(chan []byte, 1), produced: make(chan []byte, 1)}

func (p *peer) connected() *sarama.Broker {
	if p.broker != nil {
		if ok, _ := p.broker.Connected(); ok {
			return p.broker
		}
	}
	p.broker = sarama.NewBroker(address)
	if err := p.broker.Open(p.config()); err != nil {
		panic(err)
	}
	return p.broker
}

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
	go p.serve(ours)
	return theirs, nil
}

func (p *peer) produce(asked *sarama.ProduceRequest) ([]byte, error) {
	if _, err := p.connected().Produce(asked); err != nil {
		return nil, err
	}
	return <-p.produced, nil
}

func (p *peer) serve(conn net.Conn) {
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
		var out []byte
		switch binary.BigEndian.Uint16(frame) {
		case 0: // Produce
			p.produced <- producedIn(frame)
			continue
		case 3:
			out = metadataResponse(frame[4:8], binary.BigEndian.Uint16(frame[2:]))
		default:
			out = fetchResponse(frame[4:8], <-p.records)
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
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

// fetchResponse is version 4, with one partition.
func fetchResponse(correlation, records []byte) []byte {
	out := append(make([]byte, 4), correlation...)
	out = binary.BigEndian.AppendUint32(out, 0) // throttle time
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = binary.BigEndian.AppendUint32(out, 0) // partition
	out = binary.BigEndian.AppendUint16(out, 0) // error code
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = binary.BigEndian.AppendUint32(out, 0) // aborted transactions
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(records))), records...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
