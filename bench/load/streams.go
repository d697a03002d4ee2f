package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type streamsResult struct {
	Mode    string  `json:"mode"`
	Label   string  `json:"label"`
	Streams int     `json:"streams"`
	Open    int     `json:"open"`
	OpenSec float64 `json:"openSeconds"`
	// Resident memory, and memory of the server's sockets, that each open stream added, in bytes.
	RssPerStream     float64 `json:"rssBytesPerStream"`
	SocketsPerStream float64 `json:"serverSocketBytesPerStream"`
	// The change: who got it, and how long after it was caused; how long after the first of them.
	Got              int            `json:"got"`
	AfterChange      *spread        `json:"afterChangeMs"`
	AfterFirst       *spread        `json:"afterFirstMs"`
	FirstUnixMs      float64        `json:"firstUnixMs"`
	LastUnixMs       float64        `json:"lastUnixMs"`
	ChangeCPUSeconds float64        `json:"changeCpuSeconds"`
	Failures         map[string]int `json:"failures"`
	Server           measured       `json:"server"`
}

// stream is one that was opened and is read until the end of the run.
type stream struct {
	c     *conn
	gotAt atomic.Int64 // Unix time in nanoseconds of the event after the change
	ended atomic.Bool
}

const streamBufferBytes = 4096

func streams(o *options) (any, error) {
	if _, err := newCompletion(o.until); err != nil {
		return nil, err
	}
	if o.event != "" && o.trigger != "line" && o.trigger != "rename" {
		return nil, fmt.Errorf("trigger must be line or rename, got %q", o.trigger)
	}
	deadline := time.Now().Add(o.timeout)
	w := startWatch(o.pid, o.target.port)
	began := time.Now()
	opened, failures := openAll(o, deadline)
	openSeconds := time.Since(began).Seconds()
	time.Sleep(o.settle)
	after := processOf(o.pid)
	sockets, _ := socketsOf(o.target.port)
	result := &streamsResult{Mode: "streams", Label: o.label, Streams: o.count, OpenSec: round(openSeconds), Failures: failures}
	for _, s := range opened {
		if !s.ended.Load() {
			result.Open++
		}
	}
	if result.Open > 0 {
		open := float64(result.Open)
		result.RssPerStream = round(float64(after.rssBytes-w.before.rssBytes) / open)
		result.SocketsPerStream = round(float64(sockets.server-w.socketsBefore.server) / open)
	}
	if o.event != "" {
		if err := change(o, opened, result); err != nil {
			return nil, err
		}
	}
	result.Server = w.end()
	for _, s := range opened {
		s.c.tcp.Close()
	}
	return result, nil
}

func openAll(o *options, deadline time.Time) ([]*stream, map[string]int) {
	var lock sync.Mutex
	var opened []*stream
	failures := map[string]int{}
	places := make(chan struct{}, o.atOnce)
	var group sync.WaitGroup
	for number := range o.count {
		places <- struct{}{}
		group.Add(1)
		go func() {
			s, err := open(o, o.requests[number], deadline)
			lock.Lock()
			if err != nil {
				failures[reason(err)]++
			} else {
				opened = append(opened, s)
			}
			lock.Unlock()
			<-places
			group.Done()
			if err == nil {
				s.follow(o)
			}
		}()
	}
	group.Wait()
	return opened, failures
}

func open(o *options, request []byte, deadline time.Time) (*stream, error) {
	c, err := o.dialSized(deadline, streamBufferBytes)
	if err != nil {
		return nil, err
	}
	s := &stream{c: c}
	if _, err = c.tcp.Write(request); err == nil {
		err = c.readHead()
	}
	if err == nil && c.head.status != 200 {
		err = fmt.Errorf("status %d", c.head.status)
	}
	done, _ := newCompletion(o.until)
	if err == nil {
		_, err = c.read(done, unbounded)
	}
	if err != nil {
		c.tcp.Close()
		return nil, err
	}
	return s, nil
}

// follow reads on, and notes when the event came.
func (s *stream) follow(o *options) {
	seeker := newEventSeeker(o.event)
	for {
		piece, err := s.c.next(unbounded)
		if err != nil {
			s.ended.Store(true)
			return
		}
		if o.event != "" && seeker.feed(piece) > 0 {
			s.gotAt.Store(time.Now().UnixNano())
		}
	}
}

func change(o *options, opened []*stream, result *streamsResult) error {
	for _, s := range opened {
		s.gotAt.Store(0)
	}
	cpu := processOf(o.pid).cpuSeconds
	caused := time.Now()
	if o.trigger == "line" {
		fmt.Println("change")
	} else if err := os.Rename(o.replaceFrom, o.replaceTo); err != nil {
		return err
	}
	end := caused.Add(o.duration)
	for time.Now().Before(end) && !allGot(opened) {
		time.Sleep(5 * time.Millisecond)
	}
	// the processor time of the last write is booked at the next tick
	time.Sleep(50 * time.Millisecond)
	result.ChangeCPUSeconds = round(processOf(o.pid).cpuSeconds - cpu)
	first, last := int64(0), int64(0)
	var times []int64
	for _, s := range opened {
		at := s.gotAt.Load()
		if at == 0 {
			continue
		}
		times = append(times, at)
		if first == 0 || at < first {
			first = at
		}
		last = max(last, at)
	}
	var afterChange, afterFirst []float64
	for _, at := range times {
		afterChange = append(afterChange, float64(at-caused.UnixNano())/1e6)
		afterFirst = append(afterFirst, float64(at-first)/1e6)
	}
	result.Got = len(times)
	result.AfterChange, result.AfterFirst = spreadOf(afterChange), spreadOf(afterFirst)
	result.FirstUnixMs, result.LastUnixMs = float64(first)/1e6, float64(last)/1e6
	return nil
}

func allGot(opened []*stream) bool {
	for _, s := range opened {
		if s.gotAt.Load() == 0 && !s.ended.Load() {
			return false
		}
	}
	return true
}
