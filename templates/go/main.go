// A testee for Kafkaproof. Call your codec in decode, and describe it in hello: name, version, formats.
package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
)

type object = map[string]any // as JSON: a []byte in it is base64, or null

var reads = object{"magics": []int{2}, "compressions": []string{"none"}}
var hello = object{"protocol": 1, "name": "my-codec", "version": "0.1", "language": "go", "decode": reads}

// ======== Your codec goes here: the batches in data; with an error, its kind and the batches before it. ========
// This small one reads uncompressed v2 batches. What your codec does not expose is left out of the objects.
func decode(data []byte) (reply object) {
	batches := []object{}
	refused := func(kind string) object { return object{"batches": batches, "error": object{"kind": kind}} }
	defer func() {
		if recover() != nil { // the small one may read past the end; where yours panics, let it
			reply = refused("malformed")
		}
	}()
	for len(data) >= 17 {
		size := 12 + int(int32(binary.BigEndian.Uint32(data[8:])))
		if data[16] == 2 && size > len(data) {
			break // a partial batch at the end is dropped
		} else if data[16] != 2 || crc32.Checksum(data[21:size], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(data[17:]) {
			return refused("corrupt")
		}
		batches, data = append(batches, readBatch(data[:size])), data[size:]
	}
	return object{"batches": batches}
}

func readBatch(data []byte) object {
	base, first := int64(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint64(data[27:]))
	records, at := []object{}, 61
	varint := func() int64 { value, size := binary.Varint(data[at:]); at += size; return value }
	bytes := func() []byte {
		if size := int(varint()); size >= 0 {
			at += size
			return data[at-size : at]
		}
		return nil
	}
	for left := int32(binary.BigEndian.Uint32(data[57:])); left > 0; left-- {
		varint() // the record's length; its attributes follow
		at++
		record := object{"timestamp": first + varint(), "offset": base + varint(), "key": bytes(), "value": bytes()}
		headers := [][2][]byte{}
		for left := varint(); left > 0; left-- {
			headers = append(headers, [2][]byte{bytes(), bytes()})
		}
		record["headers"] = headers
		records = append(records, record)
	}
	return object{"magic": 2, "base_offset": base, "compression": "none", "records": records}
}

// ======== From here on nothing has to be changed. ========
func main() {
	requests, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for request := (struct {
		ID, Op string
		Data   []byte
	}{}); requests.Decode(&request) == nil; request.Data = nil {
		reply := object{"skipped": "no " + request.Op + " here"}
		if request.Op == "hello" {
			reply = hello
		} else if request.Op == "decode" {
			reply = decode(request.Data)
		}
		reply["id"] = request.ID
		_ = replies.Encode(reply)
	}
}
