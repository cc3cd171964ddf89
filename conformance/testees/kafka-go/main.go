// Serves the two record codecs of segmentio's kafka-go by the testee protocol, version 1: one JSON line in, one out.
//
// The first argument says which: "records" is protocol.RecordSet, which Client.Fetch and Client.Produce use; "conn" is
// Conn.ReadBatch, and "reader" the same with a read deadline, as Reader uses it; both over a network that only moves bytes.
// Nothing is corrected on the way: what kafka-go loses or refuses, the reply shows.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const topic = "t"

// codec is one of the two; the second comes with and without a read deadline.
type codec struct {
	name            string
	deadline        bool
	decode          func([]byte) answer
	encode          func(*batch) answer
	decodes, writes capability
}

var (
	everything = capability{[]int{0, 1, 2}, compressions}
	nothing    = capability{[]int{}, []string{}}
	codecs     = map[string]codec{
		"records": {"kafka-go", false, decodeRecords, encodeOrSay, everything, capability{[]int{1, 2}, compressions}},
		"conn":    {"kafka-go-conn", false, decodeConn, readsOnly, everything, nothing},
		"reader":  {"kafka-go-reader", true, decodeConn, readsOnly, everything, nothing},
	}
)

func readsOnly(*batch) answer { return answer{Skipped: "a Conn is asked to read only"} }

var chosen codec

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

// batch leaves out what is nil: kafka-go does not tell it.
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

// skipped says why kafka-go cannot be asked.
type skipped string

func (s skipped) Error() string { return string(s) }

var compressions = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func main() {
	chosen = codecs[append(os.Args, "records")[1]]
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
		released := version("github.com/segmentio/kafka-go")
		return hello{1, chosen.name, released, "go", runtime.Version(), chosen.decodes, chosen.writes, false, true}
	case asked.Op == "decode" && asked.Many != nil:
		given.Many = make([]answer, 0, len(asked.Many))
		for _, data := range asked.Many {
			given.Many = append(given.Many, chosen.decode(data))
		}
	case asked.Op == "decode":
		given.answer = chosen.decode(asked.Data)
	case asked.Op == "encode" && asked.Batch != nil:
		given.answer = chosen.encode(asked.Batch)
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

// --- decode: protocol.RecordSet -------------------------------------------------------------------------------------

func decodeRecords(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	var set protocol.RecordSet
	// A response is read through a bufio.Reader too.
	if _, err := set.ReadFrom(bufio.NewReader(bytes.NewReader(append(framed, data...)))); err != nil {
		given.Error = refused(err)
		return given
	}
	stream, _ := set.Records.(*protocol.RecordStream)
	if stream == nil {
		return given
	}
	for _, reader := range stream.Records {
		told, err := tell(reader)
		if err != nil {
			given.Error = refused(err)
			return given
		}
		batches = append(batches, told)
	}
	return given
}

// tell describes a batch, or a message, of which kafka-go tells the records only.
func tell(reader protocol.RecordReader) (batch, error) {
	told := batch{Records: []record{}}
	switch found := reader.(type) {
	case *protocol.RecordBatch:
		told.describe(found.Attributes, found.BaseOffset, found.ProducerID, found.ProducerEpoch, found.BaseSequence, found.PartitionLeaderEpoch)
		reader = found.Records
	case *protocol.ControlBatch:
		told.describe(found.Attributes, found.BaseOffset, found.ProducerID, found.ProducerEpoch, found.BaseSequence, found.PartitionLeaderEpoch)
		reader = found.Records
	}
	for {
		each, err := reader.ReadRecord()
		if err == io.EOF {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		key, err := protocol.ReadAll(each.Key)
		if err != nil {
			return told, err
		}
		value, err := protocol.ReadAll(each.Value)
		if err != nil {
			return told, err
		}
		timestamp := each.Time.UnixMilli()
		made := record{Offset: each.Offset, Timestamp: &timestamp, Key: key, Value: value, Headers: [][2][]byte{}}
		if told.Magic == nil && timestamp == 0 {
			made.Timestamp = nil // a v0 message looks so
		}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		told.Records = append(told.Records, made)
	}
}

func (b *batch) describe(attributes protocol.Attributes, base, producer int64, epoch int16, sequence, leader int32) {
	magic, transactional, control := int8(2), attributes.Transactional(), attributes.Control()
	b.Magic, b.Transactional, b.Control, b.BaseOffset = &magic, &transactional, &control, &base
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.PartitionLeaderEpoch = &producer, &epoch, &sequence, &leader
	if b.Compression = attributes.Compression().String(); b.Compression == "uncompressed" {
		b.Compression = "none"
	}
}

// --- decode: Conn ---------------------------------------------------------------------------------------------------

// decodeConn feeds each batch alone, since a Conn gives messages and does not say where a batch ends, and then all of them
// at once, as a broker does: these messages count, and are told as batches as large as the ones that came alone.
func decodeConn(data []byte) answer {
	batches := []batch{}
	given := answer{Batches: &batches}
	entries, tail := split(data)
	inOrder, next := true, int64(math.MinInt64)
	var err error
	if len(data) == 0 { // at the high watermark, where a Conn reads nothing
		return given
	}
	for _, entry := range entries {
		var told batch
		if told, err = fetched(entry); err != nil && (err != errStays || len(entries) == 1) {
			break
		}
		if len(told.Records) > 0 {
			inOrder, next = inOrder && told.Records[0].Offset >= next, told.Records[len(told.Records)-1].Offset+1
		}
		batches = append(batches, told)
	}
	if !inOrder { // a Conn that has read an offset drops old messages below it
		given.Error = refused(err)
		return given
	}
	if len(entries) != 1 || len(tail) > 0 {
		var all batch
		if all, err = fetched(data); len(entries) == 0 && err == errStays {
			err = nil // a response cut short, and no more
		}
		batches = shared(batches, all.Records, len(tail) > 0)
		for err != nil && len(batches) > 0 && len(batches[len(batches)-1].Records) == 0 {
			batches = batches[:len(batches)-1] // it did not get there
		}
	}
	given.Error = refused(err)
	return given
}

// shared gives each batch as many of the records as it had alone.  What could be read of a partial batch is left out, as a
// batch that is not whole is none.
func shared(batches []batch, records []record, partial bool) []batch {
	for at := range batches {
		count := len(batches[at].Records)
		if at == len(batches)-1 && !partial || count > len(records) {
			count = len(records)
		}
		batches[at].Records, records = records[:count], records[count:]
	}
	return batches
}

// split is the entries, and what stands behind the last whole one; what does not add up goes to kafka-go as it is.
func split(data []byte) (entries [][]byte, tail []byte) {
	for len(data) >= 12 {
		end := 12 + int64(int32(binary.BigEndian.Uint32(data[8:])))
		if end <= 12 || end > int64(len(data)) {
			break
		}
		entries, data = append(entries, data[:end]), data[end:]
	}
	return entries, data
}

// errStays is what a Reader meets for ever when a batch cannot be read: kafka-go takes that for a response cut short.
var errStays = errors.New("io.EOF before the first message, and the offset stays")

// fetched is what one response gives, without an error or before it, and how far it took the Conn.
func fetched(data []byte) (batch, error) {
	const from = math.MinInt64
	connect()
	conn := connected.conn
	connected.network.records = data
	chosen.hurry(conn)
	conn.Seek(from, kafka.SeekAbsolute|kafka.SeekDontCheck)
	read := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: math.MaxInt32 / 2})
	records, err := drain(conn, read)
	told := batch{Records: records}
	// Behind the largest offset a Conn stands where it began: the next is the least.
	if last := read.Offset() - 1; err == nil && read.Offset() == from && len(records) == 0 {
		err = errStays
	} else if err == nil {
		told.LastOffset = &last
	}
	if closed := read.Close(); err == nil {
		err = closed
	}
	if err != nil && err != errStays {
		connected.conn = nil
	}
	return told, err
}

// hurry sets the deadline of ten seconds that Reader has by default; without one a Conn has none.
func (c codec) hurry(conn *kafka.Conn) {
	if c.deadline {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	}
}

func drain(conn *kafka.Conn, read *kafka.Batch) ([]record, error) {
	records := []record{}
	for {
		chosen.hurry(conn)
		message, err := read.ReadMessage()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		timestamp := int64(-1) // the zero time is none
		if !message.Time.IsZero() {
			timestamp = message.Time.UnixMilli()
		}
		made := record{Offset: message.Offset, Timestamp: &timestamp, Key: message.Key, Value: message.Value}
		made.Headers = [][2][]byte{}
		for _, header := range message.Headers {
			made.Headers = append(made.Headers, [2][]byte{append([]byte{}, header.Key...), header.Value})
		}
		records = append(records, made)
	}
}

// --- errors ---------------------------------------------------------------------------------------------------------

// kinds tells errors by their text, since kafka-go gives them no types; what is none of these comes from a decompressor.
var kinds = [][2]string{
	{"crc32 checksum mismatch", "corrupt"},
	{"unsupported message version", "unsupported_magic"},
	{"unsupported magic byte", "unsupported_magic"},
	{"unsupported compression codec", "unsupported_compression"},
	{"the compression code is invalid", "unsupported_compression"},
	{"impossible record set", "truncated"},
	{"not enough bytes available", "truncated"},
	{errStays.Error(), "truncated"},
	{"cannot decode", "malformed"},
	{"batch remain < 0", "malformed"},
	{"multiple Read calls return no data or error", "malformed"},
	{os.ErrDeadlineExceeded.Error(), "truncated"},
}

func refused(err error) *refusal {
	if err == nil {
		return nil
	}
	for _, each := range kinds {
		if strings.Contains(err.Error(), each[0]) {
			return &refusal{each[1], err.Error()}
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &refusal{"truncated", err.Error()}
	}
	return &refusal{"decompression", err.Error()}
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
	if err := expressible(wanted); err != nil {
		return nil, err
	}
	attributes, ok := map[string]protocol.Attributes{
		"": 0, "none": 0, "gzip": protocol.Gzip, "snappy": protocol.Snappy, "lz4": protocol.Lz4, "zstd": protocol.Zstd,
	}[wanted.Compression]
	if !ok {
		return nil, skipped("no codec " + wanted.Compression)
	}
	if differs(wanted.Transactional, false) {
		attributes |= protocol.Transactional
	}
	if differs(wanted.Control, false) {
		attributes |= protocol.Control
	}
	var records []protocol.Record
	for _, each := range wanted.Records {
		made := protocol.Record{Offset: each.Offset, Key: protocol.NewBytes(each.Key), Value: protocol.NewBytes(each.Value)}
		if each.Timestamp != nil {
			made.Time = time.UnixMilli(*each.Timestamp)
		}
		for _, header := range each.Headers {
			made.Headers = append(made.Headers, protocol.Header{Key: string(header[0]), Value: header[1]})
		}
		records = append(records, made)
	}
	set := protocol.RecordSet{Version: *wanted.Magic, Attributes: attributes, Records: protocol.NewRecordReader(records...)}
	var out bytes.Buffer
	if _, err := set.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes()[4:], nil // the size is in front
}

// expressible says what a RecordSet cannot be asked for.
func expressible(wanted *batch) error {
	magic := int8(2)
	if wanted.Magic == nil {
		wanted.Magic = &magic
	}
	old := *wanted.Magic < 2
	last, highest := int64(len(wanted.Records)-1), int64(math.MinInt64)
	gaps := false
	for at, each := range wanted.Records {
		gaps = gaps || each.Offset != int64(at)
		if each.Timestamp != nil {
			highest = max(highest, *each.Timestamp)
		}
	}
	others := []struct {
		unusual bool
		what    string
	}{
		{*wanted.Magic < 1 || *wanted.Magic > 2, "such a magic"},
		{len(wanted.Records) == 0, "a batch without records"},
		{differs(wanted.BaseOffset, 0), "a base offset other than 0"},
		{differs(wanted.LastOffset, last), "an offset after the last record"},
		{gaps, "gaps between offsets"},
		{differs(wanted.PartitionLeaderEpoch, -1), "a partition leader epoch"},
		{differs(wanted.ProducerID, -1) || differs(wanted.ProducerEpoch, -1) || differs(wanted.BaseSequence, -1), "a producer id"},
		{wanted.TimestampType == "append", "LogAppendTime"},
		{wanted.TimestampType == "none", "records without timestamps"},
		{differs(wanted.MaxTimestamp, highest), "another max timestamp"},
		{wanted.DeleteHorizon != nil, "a delete horizon"},
		{wanted.Compression == "zstd" && old, "zstd in old messages"},
	}
	for _, each := range others {
		if each.unusual {
			return skipped("a RecordSet cannot be asked for " + each.what)
		}
	}
	return nil
}

func differs[T comparable](given *T, usual T) bool { return given != nil && *given != usual }

// --- the network ----------------------------------------------------------------------------------------------------

// network is what a Conn takes for one: a request is answered as soon as it is written, a fetch with the records that are
// given.  So what can be read is all that will ever come.
type network struct {
	net.Conn
	records  []byte
	asked    []byte
	answers  bytes.Buffer
	deadline time.Time
}

// connected is the Conn, over a network of its own.
var connected struct {
	conn    *kafka.Conn
	network *network
}

func connect() {
	if connected.conn == nil {
		connected.network = &network{}
		connected.conn = kafka.NewConnWith(connected.network, kafka.ConnConfig{Topic: topic})
	}
}

func (n *network) Read(into []byte) (int, error) {
	if n.answers.Len() == 0 && n.deadline.IsZero() {
		select {} // for ever; Go's runtime sees that nothing can end this, says so and ends the program
	}
	if n.answers.Len() == 0 {
		return 0, os.ErrDeadlineExceeded // the time until then is left out
	}
	return n.answers.Read(into)
}

func (n *network) Write(sent []byte) (int, error) {
	n.asked = append(n.asked, sent...)
	for len(n.asked) >= 4 && len(n.asked)-4 >= int(binary.BigEndian.Uint32(n.asked)) {
		frame := n.asked[4 : 4+binary.BigEndian.Uint32(n.asked)]
		n.answers.Write(n.answer(frame))
		n.asked = n.asked[4+len(frame):]
	}
	return len(sent), nil
}

func (n *network) answer(frame []byte) []byte {
	out := append(make([]byte, 4), frame[4:8]...)
	if binary.BigEndian.Uint16(frame) == 1 {
		out = appendFetchResponse(out, n.records)
	} else {
		out = append(out, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 10) // ApiVersions 0: Fetch, from 0 to 10
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (n *network) Close() error                          { return nil }
func (n *network) SetReadDeadline(until time.Time) error { n.deadline = until; return nil }
func (n *network) SetWriteDeadline(time.Time) error      { return nil }

// appendFetchResponse writes version 10, with one partition.
func appendFetchResponse(out, records []byte) []byte {
	out = append(out, make([]byte, 4+2+4)...) // throttle time, error code, session
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(topic))), topic...)
	out = binary.BigEndian.AppendUint32(out, 1)
	out = append(out, make([]byte, 4+2)...) // partition, error code
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = binary.BigEndian.AppendUint64(out, math.MaxInt64)
	out = append(out, make([]byte, 8+4)...) // log start offset, aborted transactions
	return append(binary.BigEndian.AppendUint32(out, uint32(len(records))), records...)
}
