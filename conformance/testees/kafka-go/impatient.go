// Connections on which a deadline passes sooner, where nothing more will come.

package main

import (
	"context"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
)

// quiet is how long nothing comes within a response before no more will.
const quiet = 300 * time.Millisecond

// impatient is the default dialer, but for its connections.
var impatient = &kafka.Dialer{
	Timeout: kafka.DefaultDialer.Timeout, DualStack: kafka.DefaultDialer.DualStack,
	DialFunc: func(ctx context.Context, network, address string) (net.Conn, error) {
		opened, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatientConn{Conn: opened}, nil
	},
}

// impatientConn is a connection to a broker that sends each response in one go.  A Reader waits the 10 s of its
// ReadBatchTimeout for bytes after a response, at each batch that it cannot decompress; here that deadline passes when
// the connection has been quiet.  The time that the library itself takes, and waiting for a response, are not shortened.
type impatientConn struct {
	net.Conn
	deadline time.Time
	began    bool // part of a response has been read since the last request
}

func (c *impatientConn) SetReadDeadline(at time.Time) error {
	c.deadline = at
	return c.Conn.SetReadDeadline(at)
}

func (c *impatientConn) SetDeadline(at time.Time) error {
	c.deadline = at
	return c.Conn.SetDeadline(at)
}

func (c *impatientConn) Write(sent []byte) (int, error) {
	c.began = false
	return c.Conn.Write(sent)
}

func (c *impatientConn) Read(into []byte) (int, error) {
	sooner := time.Now().Add(quiet)
	if c.began && !c.deadline.IsZero() && sooner.Before(c.deadline) {
		c.Conn.SetReadDeadline(sooner)
		defer c.Conn.SetReadDeadline(c.deadline)
	}
	read, err := c.Conn.Read(into)
	c.began = c.began || read > 0
	return read, err
}
