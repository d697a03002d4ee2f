package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fleetKind is one kind of stream of a fleet: as many clients as it counts, each with the next of its paths.
type fleetKind struct {
	Name    string   `json:"name"`
	Count   int      `json:"count"`
	Paths   []string `json:"paths"`
	Headers []string `json:"headers"`
	// How a client that comes back says where it is: by the last id of an event, by the last state in its query.
	ByID    bool `json:"byId"`
	ByBasis bool `json:"byBasis"`
	// What completes a state: "event" any event, "transfer" FDv2's word for it, "ping" a ping.
	Until string `json:"until"`
}

// order is what a fleet is told to do next, a line of JSON on standard input.
type order struct {
	// All clients connect, at the first time or again; else they wait for what comes on their open streams.
	Connect bool `json:"connect"`
	// Connections are begun evenly over this time; 0: a bounded number at a time.
	OverMs int `json:"overMs"`
	// A client is done once it has read this, and what completes the state; empty: at the first completed state.
	Marker    string `json:"marker"`
	Pid       int    `json:"pid"`
	TimeoutMs int    `json:"timeoutMs"`
}

const (
	fleetAtOnce      = 64
	fleetBufferBytes = 8192
	// of a line, all that is looked at
	lineBytesMax = 1024
)

// fleetRound is an order under way.
type fleetRound struct {
	order
	number  int
	began   time.Time
	kinds   []*roundKind
	waiting sync.WaitGroup
	lock    sync.Mutex
}

type roundKind struct {
	bytes    atomic.Int64
	done     []float64
	statuses map[string]int
	failures map[string]int
}

type kindResult struct {
	Name     string         `json:"name"`
	Clients  int            `json:"clients"`
	Current  int            `json:"current"`
	Bytes    int64          `json:"bytes"`
	Done     *spread        `json:"doneSeconds"`
	Statuses map[string]int `json:"statuses"`
	Failures map[string]int `json:"failures"`
}

type roundResult struct {
	Kinds   []kindResult `json:"kinds"`
	Seconds float64      `json:"seconds"`
	Server  measured     `json:"server"`
}

// fleetRun is what all clients share.
type fleetRun struct {
	o        *options
	kinds    []fleetKind
	deadline time.Time
	lock     sync.Mutex
	next     *sync.Cond
	now      *fleetRound
	// places for connections that are being made, in orders without a time
	places chan struct{}
}

// fleet keeps streams of several kinds, and does with all of them what it is told: connect, wait for a change, come back
// after the server went away. It answers each order with a line "round" and a JSON object.
func fleet(o *options) (any, error) {
	text, err := os.ReadFile(o.kinds)
	if err != nil {
		return nil, err
	}
	r := &fleetRun{o: o, deadline: time.Now().Add(o.timeout), places: make(chan struct{}, fleetAtOnce)}
	r.next = sync.NewCond(&r.lock)
	if err := json.Unmarshal(text, &r.kinds); err != nil {
		return nil, err
	}
	total := 0
	for _, kind := range r.kinds {
		total += kind.Count
		if kind.Count < 0 || len(kind.Paths) == 0 {
			return nil, fmt.Errorf("a kind must have a count and paths, got %q", kind.Name)
		}
	}
	if total < 1 || total > countMax {
		return nil, fmt.Errorf("clients must be 1 to %d, got %d", countMax, total)
	}
	number := 0
	for at, kind := range r.kinds {
		for each := range kind.Count {
			// kinds come in turn and not one behind the other
			place := float64(each) / float64(kind.Count)
			client := &fleetClient{run: r, kind: at, place: place, path: kind.Paths[each%len(kind.Paths)]}
			go client.live()
			number++
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var next order
		if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
			return nil, err
		}
		result := r.do(next, number)
		encoded, _ := json.Marshal(result)
		fmt.Printf("round %s\n", encoded)
	}
	return map[string]int{"clients": number}, nil
}

func (r *fleetRun) do(o order, clients int) roundResult {
	w := startWatch(o.Pid, r.o.target.port)
	this := &fleetRound{order: o, number: 1, began: time.Now()}
	for range r.kinds {
		this.kinds = append(this.kinds, &roundKind{statuses: map[string]int{}, failures: map[string]int{}})
	}
	this.waiting.Add(clients)
	r.lock.Lock()
	if r.now != nil {
		this.number = r.now.number + 1
	}
	r.now = this
	r.next.Broadcast()
	r.lock.Unlock()
	fmt.Println("begun")
	all := make(chan struct{})
	go func() { this.waiting.Wait(); close(all) }()
	timeout := time.Duration(o.TimeoutMs) * time.Millisecond
	select {
	case <-all:
	case <-time.After(timeout):
	}
	seconds := time.Since(this.began).Seconds()
	// what comes after the last has what it waited for is sent to it nevertheless
	time.Sleep(r.o.settle)
	this.lock.Lock()
	defer this.lock.Unlock()
	result := roundResult{Seconds: round(seconds), Server: w.end()}
	for at, kind := range this.kinds {
		result.Kinds = append(result.Kinds, kindResult{
			Name: r.kinds[at].Name, Clients: r.kinds[at].Count, Current: len(kind.done), Bytes: kind.bytes.Load(),
			Done: spreadOf(append([]float64{}, kind.done...)), Statuses: copyOf(kind.statuses), Failures: copyOf(kind.failures),
		})
	}
	return result
}

func copyOf(counts map[string]int) map[string]int {
	copied := map[string]int{}
	for name, count := range counts {
		copied[name] = count
	}
	return copied
}

func (r *fleetRun) current() *fleetRound {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.now
}

// after waits for a round behind this number in which clients connect.
func (r *fleetRun) after(number int) *fleetRound {
	r.lock.Lock()
	defer r.lock.Unlock()
	for r.now == nil || r.now.number <= number || !r.now.Connect {
		r.next.Wait()
	}
	return r.now
}

// fleetClient is one client.
type fleetClient struct {
	run   *fleetRun
	kind  int
	place float64
	path  string
	// The position: of the last event that had one.
	id, basis string
	// The round it takes part in, and whether it is done with it.
	round  *fleetRound
	done   bool
	seen   bool
	marker seeker
	// The event that is being read.
	line    []byte
	name    string
	eventID string
	state   string
	none    bool
}

func (c *fleetClient) live() {
	connected := 0
	for {
		next := c.run.after(connected)
		connected = next.number
		c.enter(next)
		c.connect(next)
	}
}

// connect comes, and comes back until it is done with the round; after that until its connection ends.
func (c *fleetClient) connect(round *fleetRound) {
	if round.OverMs > 0 {
		at := time.Duration(float64(round.OverMs)*c.place) * time.Millisecond
		time.Sleep(time.Until(round.began.Add(at)))
	}
	backoff := c.run.o.backoff
	for {
		told, err := c.attempt(round)
		if c.done || c.isCalled(round) {
			return
		}
		c.fail(c.round, err)
		wait := backoff/2 + time.Duration(rand.Int63n(int64(backoff/2)+1))
		backoff = min(2*backoff, c.run.o.backoffMax)
		if told > 0 {
			wait = told
		}
		if time.Now().Add(wait).After(c.run.deadline) {
			return
		}
		time.Sleep(wait)
	}
}

// isCalled tells whether all are to connect again.
func (c *fleetClient) isCalled(round *fleetRound) bool {
	now := c.run.current()
	return now.number > round.number && now.Connect
}

func (c *fleetClient) fail(round *fleetRound, err error) {
	round.lock.Lock()
	defer round.lock.Unlock()
	round.kinds[c.kind].failures[reason(err)]++
}

// attempt reads a stream until it ends. It answers how long a refusal told to wait.
func (c *fleetClient) attempt(round *fleetRound) (time.Duration, error) {
	release := func() {}
	if round.OverMs == 0 {
		c.run.places <- struct{}{}
		release = sync.OnceFunc(func() { <-c.run.places })
	}
	defer release()
	conn, err := c.run.o.dialSized(c.run.deadline, fleetBufferBytes)
	if err != nil {
		return 0, err
	}
	defer conn.tcp.Close()
	if _, err := conn.tcp.Write(c.request()); err != nil {
		return 0, err
	}
	if err := conn.readHead(); err != nil {
		return 0, unexpected(err)
	}
	round.lock.Lock()
	round.kinds[c.kind].statuses[strconv.Itoa(conn.head.status)]++
	round.lock.Unlock()
	if conn.head.status != 200 {
		seconds, _ := strconv.Atoi(conn.head.retryAfter)
		return time.Duration(seconds) * time.Second, fmt.Errorf("status %d", conn.head.status)
	}
	c.line, c.name, c.eventID, c.state, c.none = c.line[:0], "", "", "", false
	for {
		piece, err := conn.next(unbounded)
		if err != nil {
			return 0, unexpected(err)
		}
		c.take(piece)
		if c.done {
			release()
		}
	}
}

func (c *fleetClient) request() []byte {
	kind := c.run.kinds[c.kind]
	path := c.path
	if kind.ByBasis && c.basis != "" {
		sign := "?"
		if strings.Contains(path, "?") {
			sign = "&"
		}
		path += sign + "basis=" + url.QueryEscape(c.basis)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, c.run.o.target.addr)
	for _, line := range kind.Headers {
		b.WriteString(line + "\r\n")
	}
	if kind.ByID && c.id != "" {
		b.WriteString("Last-Event-ID: " + c.id + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// enter begins to take part in a round.
func (c *fleetClient) enter(round *fleetRound) {
	if c.round == round {
		return
	}
	c.round, c.done, c.seen = round, false, round.Marker == ""
	c.marker = seeker{text: []byte(round.Marker)}
}

// take reads on in the stream of events.
func (c *fleetClient) take(piece []byte) {
	if now := c.run.current(); now != c.round && !now.Connect {
		c.enter(now)
	}
	c.round.kinds[c.kind].bytes.Add(int64(len(piece)))
	for len(piece) > 0 {
		part := piece
		end := bytes.IndexByte(piece, '\n')
		if end >= 0 {
			part = piece[:end]
		}
		if !c.seen && c.marker.find(part) >= 0 {
			c.seen = true
		}
		c.line = append(c.line, part[:min(len(part), lineBytesMax-len(c.line))]...)
		if end < 0 {
			return
		}
		c.endLine()
		piece = piece[end+1:]
	}
}

func (c *fleetClient) endLine() {
	line := string(c.line)
	c.line = c.line[:0]
	if line == "" {
		c.dispatch()
		return
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		c.name = value
	case "id":
		c.eventID = value
	case "data":
		c.none = strings.Contains(value, `"intentCode":"none"`)
		if _, rest, ok := strings.Cut(value, `"state":"`); ok && c.name == "payload-transferred" {
			c.state, _, _ = strings.Cut(rest, `"`)
		}
	}
}

func (c *fleetClient) dispatch() {
	name, id, state, none := c.name, c.eventID, c.state, c.none
	c.name, c.eventID, c.state, c.none = "", "", "", false
	if name == "" {
		return
	}
	if id != "" {
		c.id = id
	}
	if state != "" {
		c.basis = state
	}
	completes := false
	switch c.run.kinds[c.kind].Until {
	case "transfer":
		completes = name == "payload-transferred" || name == "server-intent" && none
	case "ping":
		completes, c.seen = name == "ping", true
	default:
		completes = true
	}
	if c.done || !completes || !c.seen {
		return
	}
	c.done = true
	c.round.lock.Lock()
	kind := c.round.kinds[c.kind]
	kind.done = append(kind.done, time.Since(c.round.began).Seconds())
	c.round.lock.Unlock()
	c.round.waiting.Done()
}
