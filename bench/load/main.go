// load: a load client for the benchmarks. HTTP/1.1 over plain TCP, loopback only, bounded in count and time.
//
// Each run prints one JSON object. See ../README.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	countMax   = 50_000
	timeoutMax = 10 * time.Minute
)

type headerList []string

func (h *headerList) String() string { return strings.Join(*h, "; ") }

func (h *headerList) Set(line string) error {
	if strings.ContainsAny(line, "\r\n") || !strings.Contains(line, ":") {
		return fmt.Errorf("a header must be one line with a colon, got %q", line)
	}
	*h = append(*h, line)
	return nil
}

// options are those of every mode; each mode reads the ones it has use for.
type options struct {
	url         string
	headers     headerList
	label       string
	count       int
	logical     int
	paths       string
	pid         int
	timeout     time.Duration
	until       string
	ramp        time.Duration
	stall       float64
	stallBytes  int64
	stallFirst  bool
	hold        time.Duration
	retry       bool
	obey        bool
	backoff     time.Duration
	backoffMax  time.Duration
	duration    time.Duration
	pace        time.Duration
	untilEOF    bool
	atOnce      int
	settle      time.Duration
	event       string
	trigger     string
	replaceFrom string
	replaceTo   string
	kinds       string

	target target
	// each client of a herd, and each stream, has a number of its own.
	each bool
	// requests are taken in turn: one for each client, with its number and its path in it.
	requests [][]byte
}

// target is where requests go, found to be on this machine.
type target struct {
	addr string
	port int
}

func parse(mode string, args []string) (*options, error) {
	o := &options{each: mode != "poll"}
	fs := flag.NewFlagSet(mode, flag.ContinueOnError)
	fs.StringVar(&o.url, "url", "", "http://127.0.0.1:PORT/path; loopback only")
	fs.Var(&o.headers, "H", "a request header, 'Name: value'; may be repeated; {n} in it is the number of the client, from 0")
	fs.StringVar(&o.label, "label", "", "copied into the result")
	fs.IntVar(&o.count, "count", 100, "clients, connections or streams")
	fs.IntVar(&o.logical, "logical", 1, "poll: clients that share the connections and ask in turn; each is a number for {n}")
	fs.StringVar(&o.paths, "paths", "", "poll, herd: a file with a path in each line, asked in turn instead of that of -url")
	fs.IntVar(&o.pid, "pid", 0, "the server's process, to be measured")
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "the whole run, at most 10m")
	fs.StringVar(&o.until, "until", "end", "when a response is complete: end, or event:NAME")
	fs.DurationVar(&o.ramp, "ramp", 0, "herd, poll: arrivals are spread evenly over this time")
	fs.Float64Var(&o.stall, "stall", 0, "herd: share of clients that stop reading")
	fs.Int64Var(&o.stallBytes, "stall-bytes", 10_240, "herd: what a stalling client reads first")
	fs.BoolVar(&o.stallFirst, "stall-first", false, "herd: stalling clients ask first, the others 100 ms after the last of them")
	fs.DurationVar(&o.hold, "hold", 45*time.Second, "herd: how long to wait, after the last healthy client, until stalled ones are cut")
	fs.BoolVar(&o.retry, "retry", true, "herd: come back after a refusal or a failure")
	fs.BoolVar(&o.obey, "obey", false, "herd: where a refusal has Retry-After, come back then instead of after the backoff")
	fs.DurationVar(&o.backoff, "backoff", time.Second, "herd: first backoff; doubled each time, half of it random")
	fs.DurationVar(&o.backoffMax, "backoff-max", 30*time.Second, "herd: longest backoff")
	fs.DurationVar(&o.duration, "duration", 5*time.Second, "poll: how long; streams: the longest wait for the event")
	fs.DurationVar(&o.pace, "pace", 0, "poll: time between two requests of a connection; 0: the next at once")
	fs.BoolVar(&o.untilEOF, "until-eof", false, "poll: until standard input ends, instead of -duration")
	fs.IntVar(&o.atOnce, "at-once", 64, "streams: how many are being opened at a time")
	fs.DurationVar(&o.settle, "settle", 3*time.Second, "streams: wait after the last is open")
	fs.StringVar(&o.event, "event", "", "streams: wait until each got this event after the change")
	fs.StringVar(&o.trigger, "trigger", "", "streams: causes the change: 'line' prints 'change' on standard output, 'rename' renames -replace-from to -replace-to")
	fs.StringVar(&o.replaceFrom, "replace-from", "", "streams: see -trigger")
	fs.StringVar(&o.replaceTo, "replace-to", "", "streams: see -trigger")
	fs.StringVar(&o.kinds, "kinds", "", "fleet: a JSON file with its kinds of streams")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.count < 1 || o.count > countMax {
		return nil, fmt.Errorf("count must be 1 to %d, got %d", countMax, o.count)
	}
	if o.logical < 1 || o.logical > countMax {
		return nil, fmt.Errorf("logical must be 1 to %d, got %d", countMax, o.logical)
	}
	if o.timeout <= 0 || o.timeout > timeoutMax {
		return nil, fmt.Errorf("timeout must be at most %s, got %s", timeoutMax, o.timeout)
	}
	if o.duration > o.timeout {
		return nil, fmt.Errorf("duration must be at most the timeout, got %s", o.duration)
	}
	if o.stall < 0 || o.stall > 1 {
		return nil, fmt.Errorf("stall must be 0 to 1, got %g", o.stall)
	}
	return o, o.resolve()
}

func (o *options) resolve() error {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		return fmt.Errorf("url must be http with a port, got %q", o.url)
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("url must name a loopback address: this client is for this machine alone, got %q", u.Hostname())
	}
	addr, err := net.ResolveTCPAddr("tcp", u.Host)
	if err != nil {
		return err
	}
	o.target = target{addr: u.Host, port: addr.Port}
	paths := []string{u.RequestURI()}
	if o.paths != "" {
		text, err := os.ReadFile(o.paths)
		if err != nil {
			return err
		}
		paths = strings.Fields(string(text))
		if len(paths) == 0 || len(paths) > countMax {
			return fmt.Errorf("paths must be 1 to %d, got %d", countMax, len(paths))
		}
	}
	numbers := max(o.logical, 1)
	if o.each {
		numbers = o.count
	}
	for at := range max(numbers, len(paths)) {
		o.requests = append(o.requests, o.requestOf(at%numbers, paths[at%len(paths)], u.Host))
	}
	return nil
}

func (o *options) requestOf(number int, path, host string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	for _, line := range o.headers {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(strings.ReplaceAll(b.String(), "{n}", strconv.Itoa(number)))
}

func (o *options) dial(deadline time.Time) (*conn, error) {
	return o.dialSized(deadline, 64*1024)
}

func (o *options) dialSized(deadline time.Time, bufferBytes int) (*conn, error) {
	dialer := net.Dialer{Deadline: deadline, KeepAlive: -1}
	c, err := dialer.Dial("tcp", o.target.addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(deadline)
	tcp := c.(*net.TCPConn)
	timed := &timedReader{tcp: tcp}
	return &conn{tcp: tcp, timed: timed, in: bufio.NewReaderSize(timed, bufferBytes)}, nil
}

// raiseFileLimit lets this process have as many sockets as the system allows it.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// reason is an error without the addresses in it, so that equal ones can be counted.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return op.Op + ": timeout"
		}
		var number syscall.Errno
		if errors.As(op.Err, &number) {
			return op.Op + ": " + number.Error()
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "ended early"
	}
	return err.Error()
}

func main() {
	modes := map[string]func(*options) (any, error){"herd": herd, "poll": poll, "streams": streams, "fleet": fleet}
	if len(os.Args) >= 3 && os.Args[1] == "isolate" {
		fail(isolate(os.Args[2:]))
	}
	if len(os.Args) < 2 || modes[os.Args[1]] == nil {
		fail(errors.New("usage: load {herd|poll|streams|fleet} -url URL ... | load isolate COMMAND ..."))
	}
	o, err := parse(os.Args[1], os.Args[2:])
	if err != nil {
		fail(err)
	}
	raiseFileLimit()
	// the server's processor is left to it
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	result, err := modes[os.Args[1]](o)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(2)
}
