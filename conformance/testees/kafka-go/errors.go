// Errors: what they are by the protocol's names.

package main

import "strings"

// kinds has kafka-go's own errors by their text, since they have no types.  Any other error comes from a library below it,
// or is an end of file that kafka-go does not explain.
var kinds = [][2]string{
	{"crc32 checksum mismatch", "corrupt"},
	{"unsupported message version", "unsupported_magic"},
	{"unsupported magic byte", "unsupported_magic"},
	{"unsupported compression codec", "unsupported_compression"},
	{"the compression code is invalid", "unsupported_compression"},
	{"impossible record set", "truncated"},
	{"not enough bytes available", "truncated"},
	{"cannot decode", "malformed"},
	{"batch remain < 0", "malformed"},
}

func kind(err error) string {
	for _, each := range kinds {
		if strings.Contains(err.Error(), each[0]) {
			return each[1]
		}
	}
	return "other"
}

func refused(err error) *refusal {
	if err == nil {
		return nil
	}
	return &refusal{kind(err), err.Error()}
}
