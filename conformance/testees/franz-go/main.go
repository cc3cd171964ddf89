// Serves franz-go by the testee protocol, version 1: one JSON line in, one JSON line out.
//
// Without an argument it is the codec: kgo.ProcessFetchPartition, which the client's own fetches go through, and its
// producer, in front of a broker made of kmsg's types.  With "client" it is a client of the fake broker.
package main

import "os"

const (
	topic  = "t"
	module = "github.com/twmb/franz-go"
)

func main() {
	able := capability{[]int{0, 1, 2}, compressions}
	if len(os.Args) > 1 && os.Args[1] == "client" {
		serveClient(client{"franz-go-client", module, able, able, consume, produceAll, kind})
		return
	}
	speak(codec{"franz-go", module, true, able, able, decode, committed, encode})
}
