// Harness of an external engine: `go test -fuzz` runs a testee of conformance/testees on a campaign's corpus.
//
// Go's engine takes no mutator, so the harness corrects sizes and checksums; `kafkaproof fuzz engine go` corrects the
// inputs that the engine keeps in the same way. A panic is written to a file, and fuzzing continues. An error that Go
// cannot recover from ends the process; its input is in the file that is mapped into memory.
package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
)

const longest = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fixUp writes the true size and checksum into each entry of a log; bytes after the last whole entry become part of one.
func fixUp(log []byte) []byte {
	log = append([]byte(nil), log...)
	for at := 0; len(log)-at >= 12; {
		size := int64(int32(binary.BigEndian.Uint32(log[at+8:])))
		end := at + 12 + int(size)
		if size < 0 || end > len(log) {
			end = len(log)
			binary.BigEndian.PutUint32(log[at+8:], uint32(end-at-12))
		}
		entry := log[at:end]
		if len(entry) >= 21 && entry[16] == 2 {
			binary.BigEndian.PutUint32(entry[17:], crc32.Checksum(entry[21:], castagnoli))
		} else if len(entry) >= 21 {
			binary.BigEndian.PutUint32(entry[12:], crc32.ChecksumIEEE(entry[16:]))
		}
		at = end
	}
	return log
}

// lastInput survives the process.
func lastInput(folder string) []byte {
	file, err := os.OpenFile(filepath.Join(folder, "last.bin"), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = file.Truncate(longest + 4)
	}
	if err != nil {
		panic(err)
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, longest+4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return mapped
}

func FuzzDecode(f *testing.F) {
	folder := os.Getenv("KAFKAPROOF_CRASHES")
	seen, last, count := map[string]bool{}, lastInput(folder), 0
	f.Fuzz(func(t *testing.T, data []byte) {
		log := fixUp(data)
		if len(log) > longest {
			return
		}
		binary.BigEndian.PutUint32(last, uint32(len(log)))
		copy(last[4:], log)
		defer func() {
			if why := recover(); why != nil {
				stack := fmt.Sprintf("panic: %v\n%s", why, debug.Stack())
				if where := panicSite(stack); !seen[where] {
					seen[where] = true
					name := filepath.Join(folder, fmt.Sprintf("panic-%d-%d", os.Getpid(), count))
					os.WriteFile(name+".bin", log, 0o644)
					os.WriteFile(name+".txt", []byte(stack), 0o644)
					count++
				}
			}
		}()
		DECODE(log)
	})
}

// panicSite is where a panic came from: the lines of the stack that name a file, without what varies.
func panicSite(stack string) string {
	where := ""
	for _, line := range filepath.SplitList(replaceNewlines(stack)) {
		if len(line) > 1 && line[0] == '\t' {
			where += line
		}
	}
	return where
}

func replaceNewlines(text string) string {
	out := []byte(text)
	for i, char := range out {
		if char == ':' {
			out[i] = ' '
		} else if char == '\n' {
			out[i] = filepath.ListSeparator
		}
	}
	return string(out)
}
