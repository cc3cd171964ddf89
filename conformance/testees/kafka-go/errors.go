// Errors: what they are by the protocol's names.

package main

import (
	"errors"
	"io"
	"os"
	"strings"
)

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
