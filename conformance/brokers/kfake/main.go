// kfake serves franz-go's fake cluster with one broker, until its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	// Whoever started it holds the other end: it cannot outlive them.
	io.Copy(io.Discard, os.Stdin)
}
