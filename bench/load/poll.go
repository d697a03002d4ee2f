package main

import (
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

type pollResult struct {
	Mode           string         `json:"mode"`
	Label          string         `json:"label"`
	Connections    int            `json:"connections"`
	Requests       int            `json:"requests"`
	Bytes          int64          `json:"bytes"`
	Seconds        float64        `json:"seconds"`
	RequestsPerSec float64        `json:"requestsPerSecond"`
	Latency        *spread        `json:"latencyMs"`
	Statuses       map[string]int `json:"statuses"`
	Failures       map[string]int `json:"failures"`
	Server         measured       `json:"server"`
}

// poller is one keep-alive connection.
type poller struct {
	o         *options
	requests  [][]byte // taken in turn
	turn      int
	until     time.Time
	stop      chan struct{}
	latencies []float64
	bytes     int64
	statuses  map[int]int
	failures  map[string]int
}

const afterFailure = 20 * time.Millisecond

func poll(o *options) (any, error) {
	w := startWatch(o.pid, o.target.port)
	began := time.Now()
	stop := make(chan struct{})
	until := began.Add(o.duration)
	if o.untilEOF {
		until = began.Add(o.timeout)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(stop)
		}()
	}
	pollers := make([]*poller, o.count)
	var group sync.WaitGroup
	for i := range pollers {
		p := &poller{o: o, requests: requestsOf(o, i), until: until, stop: stop, statuses: map[int]int{}, failures: map[string]int{}}
		pollers[i] = p
		group.Add(1)
		go func() {
			defer group.Done()
			time.Sleep(o.ramp * time.Duration(i) / time.Duration(o.count))
			p.run()
		}()
	}
	group.Wait()
	seconds := time.Since(began).Seconds()
	return pollResultOf(o, pollers, seconds, w.end()), nil
}

// requestsOf are those of one connection: each client stays on one, as a real one does.
func requestsOf(o *options, connection int) [][]byte {
	var own [][]byte
	for at := connection; at < len(o.requests); at += o.count {
		own = append(own, o.requests[at])
	}
	if own == nil {
		own = append(own, o.requests[connection%len(o.requests)])
	}
	return own
}

func (p *poller) over() bool {
	select {
	case <-p.stop:
		return true
	default:
		return !time.Now().Before(p.until)
	}
}

func (p *poller) run() {
	var c *conn
	next := time.Now()
	for !p.over() {
		began := time.Now()
		if p.o.pace > 0 {
			if wait := time.Until(next); wait > 0 {
				time.Sleep(wait)
				began = time.Now()
			} else {
				// the reply before came late: this request waited for it, as a new client's would have
				began = next
			}
			next = next.Add(p.o.pace)
		}
		var err error
		if c, err = p.once(c); err != nil {
			p.failures[reason(err)]++
			c = nil
			time.Sleep(afterFailure)
			next = time.Now()
			continue
		}
		p.latencies = append(p.latencies, float64(time.Since(began).Microseconds())/1000)
	}
	if c != nil {
		c.tcp.Close()
	}
}

func (p *poller) once(c *conn) (*conn, error) {
	if c == nil {
		var err error
		// a reply that comes never is a failure of this run, not its end
		if c, err = p.o.dial(p.until.Add(10 * time.Second)); err != nil {
			return nil, err
		}
	}
	_, err := c.tcp.Write(p.requests[p.turn%len(p.requests)])
	p.turn++
	if err == nil {
		err = c.readHead()
	}
	if err == nil {
		_, err = c.read(completion{}, unbounded)
	}
	if err != nil {
		c.tcp.Close()
		return nil, err
	}
	p.statuses[c.head.status]++
	p.bytes += c.bytes
	return c, nil
}

func pollResultOf(o *options, pollers []*poller, seconds float64, server measured) *pollResult {
	result := &pollResult{Mode: "poll", Label: o.label, Connections: o.count, Seconds: round(seconds), Statuses: map[string]int{}, Failures: map[string]int{}, Server: server}
	var latencies []float64
	for _, p := range pollers {
		latencies = append(latencies, p.latencies...)
		result.Bytes += p.bytes
		for status, count := range p.statuses {
			result.Statuses[strconv.Itoa(status)] += count
		}
		for failure, count := range p.failures {
			result.Failures[failure] += count
		}
	}
	result.Requests = len(latencies)
	result.RequestsPerSec = round(float64(len(latencies)) / seconds)
	result.Latency = spreadOf(latencies)
	return result
}
