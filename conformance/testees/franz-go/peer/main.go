// Reads a log with kgo.ProcessFetchPartition over and over; decode_bench/peers.py says what it answers.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetch gives a consumer that much of a partition by default.
const slice = 1 << 20

// Nanoseconds of processor time for a sample, at least.
const least = 50_000_000

func main() {
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	slices := cut(data)
	records, checksum := read(slices)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		start, passes := spent(), int64(0)
		for passes == 0 || spent()-start < least {
			if _, again := read(slices); again != checksum {
				panic("not what was read before")
			}
			passes++
		}
		fmt.Println(records, checksum&math.MaxInt64, (spent()-start)/passes)
	}
}

// cut gives whole entries, about a slice of them at a time.
func cut(data []byte) [][]byte {
	var slices [][]byte
	start := 0
	for at := 0; at < len(data); {
		at += 12 + int(binary.BigEndian.Uint32(data[at+8:]))
		if at-start >= slice || at == len(data) {
			slices = append(slices, data[start:at])
			start = at
		}
	}
	return slices
}

func read(slices [][]byte) (records, checksum int64) {
	options := kgo.ProcessFetchPartitionOpts{Offset: math.MinInt64, Topic: "t"}
	partition := kmsg.NewFetchResponseTopicPartition()
	for _, each := range slices {
		partition.RecordBatches = each
		fetched, _ := kgo.ProcessFetchPartition(options, &partition, kgo.DefaultDecompressor(), nil)
		if fetched.Err != nil {
			panic(fetched.Err)
		}
		records += int64(len(fetched.Records))
		for _, record := range fetched.Records {
			checksum += record.Offset + timestamp(record) + int64(len(record.Key)+len(record.Value))
			for _, header := range record.Headers {
				checksum += int64(len(header.Key) + len(header.Value))
			}
		}
	}
	return records, checksum
}

// timestamp is -1 in v0, which kgo gives the zero time.
func timestamp(record *kgo.Record) int64 {
	if record.Attrs.TimestampType() < 0 {
		return -1
	}
	return record.Timestamp.UnixMilli()
}

// spent is the processor time of this process, that of the garbage collector too.
func spent() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
