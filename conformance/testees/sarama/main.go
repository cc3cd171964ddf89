// Serves sarama by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Without an argument it is one fetch of a PartitionConsumer, and one request of an AsyncProducer, over pipes to a peer that
// only moves bytes.  With "client" it is a client of the fake broker.
package main

import "os"

const (
	topic   = "t"
	address = "127.0.0.1:9"
	module  = "github.com/IBM/sarama"
)

func main() {
	able := capability{[]int{0, 1, 2}, compressions}
	if len(os.Args) > 1 && os.Args[1] == "client" {
		serveClient(client{"sarama-client", module, able, able, consume, produceAll, kind})
		return
	}
	speak(codec{"sarama", module, true, able, able, decode, committed, encode})
}
