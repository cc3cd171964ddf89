// Serves segmentio's kafka-go by the testee protocol, version 1: one JSON line in, one out.
//
// The first argument says which part of it: "client" is Reader and Writer on the fake broker; "conn" is Conn.ReadBatch and
// Conn.WriteMessages over a network that only moves bytes; "records" is protocol.RecordSet, which Client.Fetch and
// Client.Produce use.
package main

import "os"

const topic = "t"

const module = "github.com/segmentio/kafka-go"

func main() {
	everything := capability{[]int{0, 1, 2}, compressions}
	newer := capability{[]int{1, 2}, compressions}
	switch append(os.Args, "records")[1] {
	case "client":
		serveClient(client{"kafka-go-reader", module, everything, newer, consume, produceAll, kind})
	case "conn":
		speak(codec{"kafka-go-conn", module, true, everything, newer, decodeConn, nil, expressed(encodeConn)})
	default:
		speak(codec{"kafka-go", module, false, everything, newer, decodeRecords, nil, expressed(encodeRecords)})
	}
}
