// Serves franz-go's record codec by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Decoding is kgo.ProcessFetchPartition, which the client's own fetches go through; encoding is its producer, in front
// of a broker made of kmsg's types.  Nothing is corrected on the way: what franz-go loses or refuses, the reply shows.
package main

const topic = "t"

func main() {
	able := capability{[]int{0, 1, 2}, compressions}
	speak(codec{"franz-go", "github.com/twmb/franz-go", able, able, decode, committed, encode})
}
