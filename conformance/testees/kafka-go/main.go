// Serves the two record codecs of segmentio's kafka-go by the testee protocol, version 1: one JSON line in, one out.
//
// The first argument says which: "records" is protocol.RecordSet, which Client.Fetch and Client.Produce use; "conn" is
// Conn.ReadBatch, and "reader" the same with a read deadline, as Reader uses it; both over a network that only moves bytes.
// Nothing is corrected on the way: what kafka-go loses or refuses, the reply shows.
package main

import "os"

const topic = "t"

const module = "github.com/segmentio/kafka-go"

// hurries says whether a Conn has a read deadline, as a Reader gives it.
var hurries bool

func main() {
	everything := capability{[]int{0, 1, 2}, compressions}
	newer := capability{[]int{1, 2}, compressions}
	nothing := capability{[]int{}, []string{}}
	switch append(os.Args, "records")[1] {
	case "conn":
		speak(codec{"kafka-go-conn", module, everything, newer, decodeConn, nil, expressed(encodeConn)})
	case "reader":
		hurries = true
		speak(codec{"kafka-go-reader", module, everything, nothing, decodeConn, committed, readsOnly})
	default:
		speak(codec{"kafka-go", module, everything, newer, decodeRecords, nil, expressed(encodeRecords)})
	}
}
