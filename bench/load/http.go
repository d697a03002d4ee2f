package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// conn is one connection and the response that is being read from it.
type conn struct {
	tcp     *net.TCPConn
	timed   *timedReader
	in      *bufio.Reader
	head    head
	chunked bool
	// left is what remains of the body, or of the current chunk; negative: until the connection ends.
	left  int64
	ended bool
	// bytes of the body so far, without framing.
	bytes int64
}

// timedReader notes the longest that a client had to wait for the next bytes of a response, the first ones apart: what a
// client with a time limit on each read would see.
type timedReader struct {
	tcp     *net.TCPConn
	begun   bool
	longest time.Duration
}

func (r *timedReader) Read(into []byte) (int, error) {
	asked := time.Now()
	n, err := r.tcp.Read(into)
	if r.begun {
		r.longest = max(r.longest, time.Since(asked))
	}
	r.begun = true
	return n, err
}

type head struct {
	status     int
	retryAfter string
}

var errUntilClose = errors.New("a response without a length: this client cannot tell its end")

// readHead reads the status line and the headers of the next response.
func (c *conn) readHead() error {
	c.head, c.chunked, c.left, c.ended, c.bytes = head{}, false, -1, false, 0
	c.timed.begun, c.timed.longest = false, 0
	line, err := c.line()
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(line, " ")
	word, _, _ := strings.Cut(rest, " ")
	if c.head.status, err = strconv.Atoi(word); err != nil {
		return fmt.Errorf("a status line is malformed: %q", line)
	}
	for {
		if line, err = c.line(); err != nil {
			return err
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			if c.left, err = strconv.ParseInt(value, 10, 64); err != nil {
				return fmt.Errorf("a content-length is malformed: %q", value)
			}
		case "transfer-encoding":
			c.chunked = strings.EqualFold(value, "chunked")
		case "retry-after":
			c.head.retryAfter = value
		}
	}
	if c.chunked {
		c.left = 0
	}
	c.ended = c.left == 0 && !c.chunked || c.head.status == 304 || c.head.status == 204
	if !c.ended && c.left < 0 {
		return errUntilClose
	}
	return nil
}

func (c *conn) line() (string, error) {
	line, err := c.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// next answers some bytes of the body, at most max of them; they are valid until the next call. io.EOF after the last.
func (c *conn) next(max int64) ([]byte, error) {
	if c.ended {
		return nil, io.EOF
	}
	if c.chunked && c.left == 0 {
		if err := c.nextChunk(); err != nil {
			return nil, err
		}
	}
	if _, err := c.in.Peek(1); err != nil {
		return nil, unexpected(err)
	}
	n := min(int64(c.in.Buffered()), c.left, max)
	piece, _ := c.in.Peek(int(n))
	_, _ = c.in.Discard(int(n))
	c.bytes += n
	c.left -= n
	if c.left == 0 && !c.chunked {
		c.ended = true
	}
	return piece, nil
}

// nextChunk reads a chunk's size (RFC 9112, section 7.1), and the line break of the chunk before it.
func (c *conn) nextChunk() error {
	line, err := c.line()
	if err == nil && line == "" && c.bytes > 0 {
		line, err = c.line()
	}
	if err != nil {
		return unexpected(err)
	}
	size, _, _ := strings.Cut(line, ";")
	if c.left, err = strconv.ParseInt(size, 16, 64); err != nil || c.left < 0 {
		return fmt.Errorf("a chunk's size is malformed: %q", line)
	}
	if c.left > 0 {
		return nil
	}
	c.ended = true
	if _, err = c.line(); err != nil {
		return unexpected(err)
	}
	return io.EOF
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Linux, include/net/tcp_states.h
const (
	stateEstablished = 1
	tcpInfoBytes     = 104
)

// isOpen asks the kernel whether the peer has neither ended nor reset the connection, without reading from it: to read
// would let a stalled connection go on.
func (c *conn) isOpen() bool {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return false
	}
	state := byte(0)
	err = raw.Control(func(fd uintptr) {
		var info [tcpInfoBytes]byte
		size := uint32(len(info))
		_, _, number := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if number == 0 {
			state = info[0]
		}
	})
	return err == nil && state == stateEstablished
}

// seeker finds a text in a stream of pieces.
type seeker struct {
	text []byte
	tail []byte
}

// find answers the index behind the text in this piece, or -1.
func (s *seeker) find(piece []byte) int {
	keep := len(s.text) - 1
	if len(s.tail) > 0 {
		seam := append(append(make([]byte, 0, 2*keep), s.tail...), piece[:min(keep, len(piece))]...)
		if at := bytes.Index(seam, s.text); at >= 0 {
			return at + len(s.text) - len(s.tail)
		}
	}
	if at := bytes.Index(piece, s.text); at >= 0 {
		return at + len(s.text)
	}
	if len(piece) >= keep {
		s.tail = append(s.tail[:0], piece[len(piece)-keep:]...)
		return -1
	}
	s.tail = append(s.tail, piece...)
	if extra := len(s.tail) - keep; extra > 0 {
		s.tail = append(s.tail[:0], s.tail[extra:]...)
	}
	return -1
}

// eventSeeker finds the end of an event of a name. No data line can be mistaken for its name: each begins with "data:".
type eventSeeker struct {
	name seeker
	end  seeker
	in   bool
}

func newEventSeeker(name string) *eventSeeker {
	return &eventSeeker{
		// as if a line had ended before the stream began
		name: seeker{text: []byte("\nevent: " + name + "\n"), tail: []byte("\n")},
		end:  seeker{text: []byte("\n\n")},
	}
}

// feed answers how many such events ended in this piece.
func (e *eventSeeker) feed(piece []byte) int {
	found := 0
	for {
		if !e.in {
			at := e.name.find(piece)
			if at < 0 {
				return found
			}
			piece = piece[at:]
			e.in = true
			e.end.tail = append(e.end.tail[:0], '\n')
		}
		at := e.end.find(piece)
		if at < 0 {
			return found
		}
		piece = piece[at:]
		e.in = false
		e.name.tail = append(e.name.tail[:0], '\n')
		found++
	}
}

// completion tells when a response is complete.
type completion struct {
	event *eventSeeker
}

func newCompletion(until string) (completion, error) {
	if until == "end" {
		return completion{}, nil
	}
	name, ok := strings.CutPrefix(until, "event:")
	if !ok || name == "" {
		return completion{}, fmt.Errorf("until must be end or event:NAME, got %q", until)
	}
	return completion{event: newEventSeeker(name)}, nil
}

const unbounded = int64(1) << 62

// read reads a body until it is complete, or until bytesMax of it were read; it answers whether it is complete.
func (c *conn) read(done completion, bytesMax int64) (bool, error) {
	for c.bytes < bytesMax {
		piece, err := c.next(bytesMax - c.bytes)
		if err == io.EOF {
			if done.event == nil {
				return true, nil
			}
			return false, io.ErrUnexpectedEOF
		}
		if err != nil {
			return false, err
		}
		if done.event != nil && done.event.feed(piece) > 0 {
			return true, nil
		}
	}
	return false, nil
}
