// Serves sarama's record codec by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Decoding is Broker.Fetch, encoding is Broker.Produce, both over a pipe to a peer that only moves bytes: sarama exports
// its record types, but not their decode and encode.  Nothing is corrected on the way: what sarama loses or refuses,
// the reply shows.
package main

const (
	topic   = "t"
	address = "127.0.0.1:9"
)

func main() {
	able := capability{[]int{0, 1, 2}, compressions}
	speak(codec{"sarama", "github.com/IBM/sarama", able, able, decode, committed, encode})
}
