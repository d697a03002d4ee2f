package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	ticksPerSecond = 100 // USER_HZ, fixed in Linux's interface
	mib            = 1 << 20
)

// process is what the system says about one.
type process struct {
	rssBytes, peakBytes int64
	cpuSeconds          float64
}

func processOf(pid int) (p process) {
	if pid <= 0 {
		return
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	p.rssBytes = kilobytes(status, "VmRSS:")
	p.peakBytes = kilobytes(status, "VmHWM:")
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if at := bytes.LastIndexByte(stat, ')'); at >= 0 {
		fields := strings.Fields(string(stat[at+1:]))
		if len(fields) > 12 {
			user, _ := strconv.ParseFloat(fields[11], 64)
			system, _ := strconv.ParseFloat(fields[12], 64)
			p.cpuSeconds = (user + system) / ticksPerSecond
		}
	}
	return
}

func kilobytes(status []byte, name string) int64 {
	at := bytes.Index(status, []byte(name))
	if at < 0 {
		return 0
	}
	fields := bytes.Fields(status[at+len(name) : min(at+len(name)+40, len(status))])
	if len(fields) == 0 {
		return 0
	}
	value, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return value * 1024
}

// resetPeak makes VmHWM start again from what is resident now.
func resetPeak(pid int) {
	if pid > 0 {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
}

// busySeconds are those of all processors, and of this process.
func busySeconds() (machine, own float64) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for at, field := range strings.Fields(line) {
		// user nice system idle iowait irq softirq steal; guests are counted in user
		if at == 0 || at == 4 || at == 5 || at > 8 {
			continue
		}
		value, _ := strconv.ParseFloat(field, 64)
		machine += value / ticksPerSecond
	}
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	own = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	return
}

// sockstatBytes is TCP's memory on the whole machine: Linux counts it for all network namespaces together.
func sockstatBytes() int64 {
	text, _ := os.ReadFile("/proc/net/sockstat")
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "TCP:") {
			continue
		}
		fields := strings.Fields(line)
		for at := 0; at+1 < len(fields); at++ {
			if fields[at] == "mem" {
				pages, _ := strconv.ParseInt(fields[at+1], 10, 64)
				return pages * int64(os.Getpagesize())
			}
		}
	}
	return 0
}

const (
	sampleEvery  = 20 * time.Millisecond
	socketsEvery = 5 // samples; asking for thousands of sockets takes milliseconds
)

// watch measures a server, and the machine around it, for the length of a run.
type watch struct {
	pid, port            int
	began                time.Time
	before               process
	machine0, own0       float64
	socketsBefore        sockets
	socketsPeak          sockets
	sumPeak, sumBothPeak int64
	sockstatPeak         int64
	stop, stopped        chan struct{}
}

func startWatch(pid, port int) *watch {
	resetPeak(pid)
	w := &watch{pid: pid, port: port, began: time.Now(), before: processOf(pid), stop: make(chan struct{}), stopped: make(chan struct{})}
	w.machine0, w.own0 = busySeconds()
	w.socketsBefore, _ = socketsOf(port)
	go w.sample()
	return w
}

func (w *watch) sample() {
	defer close(w.stopped)
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	var now sockets
	for at := 0; ; at++ {
		if at%socketsEvery == 0 {
			if found, err := socketsOf(w.port); err == nil {
				now = found
			}
			w.socketsPeak.server = max(w.socketsPeak.server, now.server)
			w.socketsPeak.client = max(w.socketsPeak.client, now.client)
			w.sockstatPeak = max(w.sockstatPeak, sockstatBytes())
		}
		rss := residentOf(w.pid)
		w.sumPeak = max(w.sumPeak, rss+now.server)
		w.sumBothPeak = max(w.sumBothPeak, rss+now.server+now.client)
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
	}
}

func residentOf(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// measured is what a watch saw. Sizes in MiB, times in seconds.
type measured struct {
	RssBefore float64 `json:"rssBeforeMib"`
	RssPeak   float64 `json:"rssPeakMib"`
	RssAfter  float64 `json:"rssAfterMib"`
	CPU       float64 `json:"cpuSeconds"`
	// Memory of the server's sockets, and of its clients' sockets, which are on this machine only here.
	ServerSockets float64 `json:"serverSocketsPeakMib"`
	ClientSockets float64 `json:"clientSocketsPeakMib"`
	// The largest sum at one moment: resident memory and the server's sockets; and the clients' sockets as well.
	Sum     float64 `json:"rssAndServerSocketsPeakMib"`
	SumBoth float64 `json:"rssAndAllSocketsPeakMib"`
	// What the server's sockets hold at the end of the run.
	ServerSocketsAfter float64 `json:"serverSocketsAfterMib"`
	// All TCP memory of the machine, other people's included.
	Sockstat  float64 `json:"machineTcpPeakMib"`
	ClientCPU float64 `json:"clientCpuSeconds"`
	// What all other processes burned meanwhile: much of it means that the run is contaminated.
	OtherCPU float64 `json:"otherCpuSeconds"`
	Seconds  float64 `json:"seconds"`
}

func (w *watch) end() measured {
	after := processOf(w.pid)
	close(w.stop)
	<-w.stopped
	machine, own := busySeconds()
	left, _ := socketsOf(w.port)
	inMib := func(bytes int64) float64 { return round(float64(bytes) / mib) }
	cpu := after.cpuSeconds - w.before.cpuSeconds
	return measured{
		RssBefore: inMib(w.before.rssBytes), RssPeak: inMib(after.peakBytes), RssAfter: inMib(after.rssBytes), CPU: round(cpu),
		ServerSockets: inMib(w.socketsPeak.server), ClientSockets: inMib(w.socketsPeak.client),
		Sum: inMib(w.sumPeak), SumBoth: inMib(w.sumBothPeak),
		ServerSocketsAfter: inMib(left.server), Sockstat: inMib(w.sockstatPeak),
		ClientCPU: round(own - w.own0), OtherCPU: round(max(0, machine-w.machine0-(own-w.own0)-cpu)),
		Seconds: round(time.Since(w.began).Seconds()),
	}
}
