package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"time"
)

// member is one client of a herd.
type member struct {
	number    int
	stalls    bool
	arrival   time.Duration
	attempts  int
	doneAt    time.Duration // since the herd began
	firstByte time.Duration
	gap       time.Duration // the longest wait for the next bytes, the first apart
	took      time.Duration // since its own arrival
	bytes     int64
	// Of a stalled one: whether it got so far, and how long after its last byte it was cut.
	stalled bool
	wasCut  bool
	cut     time.Duration
	failure string
	// what the last refusal told to wait
	told time.Duration
}

type herdResult struct {
	Mode     string `json:"mode"`
	Label    string `json:"label"`
	Clients  int    `json:"clients"`
	Stalling int    `json:"stalling"`
	// Healthy clients that have everything.
	Complete int     `json:"complete"`
	Expected int     `json:"expected"`
	Done     *spread `json:"doneSeconds"`
	Took     *spread `json:"tookSeconds"`
	First    *spread `json:"firstByteSeconds"`
	Gap      *spread `json:"longestGapSeconds"`
	BytesMin int64   `json:"bytesMin"`
	BytesMax int64   `json:"bytesMax"`
	// Stalled clients: those that got their first bytes, those that the server cut, and how long after their last byte.
	Stalled int     `json:"stalled"`
	Cut     int     `json:"cutByServer"`
	CutTime *spread `json:"cutSeconds"`
	// Until the last healthy client had everything.
	HealthySeconds    float64        `json:"healthySeconds"`
	HealthyCPUSeconds float64        `json:"cpuSecondsUntilHealthy"`
	Attempts          int            `json:"attempts"`
	Statuses          map[string]int `json:"statuses"`
	RetryAfter        map[string]int `json:"retryAfter"`
	Failures          map[string]int `json:"failures"`
	Server            measured       `json:"server"`
}

// herdRun is the state that all members share.
type herdRun struct {
	o        *options
	deadline time.Time
	began    time.Time
	// healthyBegan is when the healthy ones started: with -stall-first later than `began`.
	healthyBegan time.Time
	// healthyDone is closed when the last healthy client has everything or gave up.
	healthyDone chan struct{}
	lock        sync.Mutex
	statuses    map[string]int
	retryAfter  map[string]int
}

const (
	stallFirstHead = 100 * time.Millisecond
	cutLookEvery   = 20 * time.Millisecond
)

func membersOf(o *options) []*member {
	members := make([]*member, o.count)
	for i := range members {
		members[i] = &member{number: i}
		if o.ramp > 0 {
			members[i].arrival = o.ramp * time.Duration(i) / time.Duration(o.count)
		}
	}
	// the same places in every run, all over the order of arrival
	places := rand.New(rand.NewSource(1)).Perm(o.count)
	for _, place := range places[:int(o.stall*float64(o.count)+0.5)] {
		members[place].stalls = true
	}
	return members
}

func herd(o *options) (any, error) {
	if _, err := newCompletion(o.until); err != nil {
		return nil, err
	}
	run := &herdRun{o: o, deadline: time.Now().Add(o.timeout), healthyDone: make(chan struct{}), statuses: map[string]int{}, retryAfter: map[string]int{}}
	members := membersOf(o)
	w := startWatch(o.pid, o.target.port)
	var stalling, healthy sync.WaitGroup
	var asked sync.WaitGroup
	run.began = time.Now()
	start := func(m *member, group *sync.WaitGroup) {
		group.Add(1)
		asked.Add(1)
		go func() {
			defer group.Done()
			run.live(m, sync.OnceFunc(asked.Done))
		}()
	}
	if o.stallFirst {
		for _, m := range members {
			if m.stalls {
				start(m, &stalling)
			}
		}
		asked.Wait()
		time.Sleep(stallFirstHead)
	}
	run.healthyBegan = time.Now()
	for _, m := range members {
		if !m.stalls {
			start(m, &healthy)
		} else if !o.stallFirst {
			start(m, &stalling)
		}
	}
	healthy.Wait()
	seconds := time.Since(run.healthyBegan).Seconds()
	cpu := processOf(o.pid).cpuSeconds - w.before.cpuSeconds
	close(run.healthyDone)
	stalling.Wait()
	result := run.result(members, w.end())
	result.HealthySeconds, result.HealthyCPUSeconds = round(seconds), round(cpu)
	return result, nil
}

// live is the life of one client: it comes, and comes back until it has what it wants.
func (r *herdRun) live(m *member, asked func()) {
	defer asked()
	time.Sleep(m.arrival)
	arrived := time.Now()
	backoff := r.o.backoff
	for {
		m.attempts++
		err := r.attempt(m, asked)
		if err == nil {
			m.failure = ""
			m.took = time.Since(arrived)
			return
		}
		m.failure = reason(err)
		asked()
		if !r.o.retry || time.Now().Add(backoff).After(r.deadline) {
			return
		}
		wait := backoff/2 + time.Duration(rand.Int63n(int64(backoff/2)+1))
		backoff = min(2*backoff, r.o.backoffMax)
		if r.o.obey && m.told > 0 {
			wait = m.told
		}
		if m.stalls && r.isHealthyDone(wait) {
			return
		}
		if !m.stalls {
			time.Sleep(wait)
		}
	}
}

// isHealthyDone waits, and says whether meanwhile the last healthy client was done: then stalling makes no sense any more.
func (r *herdRun) isHealthyDone(wait time.Duration) bool {
	select {
	case <-r.healthyDone:
		return true
	case <-time.After(wait):
		return false
	}
}

func (r *herdRun) attempt(m *member, asked func()) error {
	c, err := r.o.dial(r.deadline)
	if err != nil {
		return err
	}
	defer c.tcp.Close()
	if _, err := c.tcp.Write(r.o.requests[m.number]); err != nil {
		return err
	}
	asked()
	if err := c.readHead(); err != nil {
		return unexpected(err)
	}
	r.note(c.head)
	seconds, _ := strconv.Atoi(c.head.retryAfter)
	m.told = time.Duration(seconds) * time.Second
	if c.head.status != 200 {
		return fmt.Errorf("status %d", c.head.status)
	}
	began := r.began
	if !m.stalls {
		began = r.healthyBegan
	}
	m.firstByte = time.Since(began)
	done, _ := newCompletion(r.o.until)
	if m.stalls {
		if _, err := c.read(done, r.o.stallBytes); err != nil {
			return err
		}
		m.stalled = true
		r.standStill(m, c)
		return nil
	}
	if _, err := c.read(done, unbounded); err != nil {
		return err
	}
	m.doneAt = time.Since(began)
	m.bytes = c.bytes
	m.gap = c.timed.longest
	return nil
}

// standStill reads nothing more, until the server cuts the connection or the run is over.
func (r *herdRun) standStill(m *member, c *conn) {
	began := time.Now()
	until := r.deadline
	healthyDone := r.healthyDone
	for time.Now().Before(until) {
		if !c.isOpen() {
			m.wasCut = true
			m.cut = time.Since(began)
			return
		}
		select {
		case <-healthyDone:
			healthyDone = nil
			if end := time.Now().Add(r.o.hold); end.Before(until) {
				until = end
			}
		case <-time.After(cutLookEvery):
		}
	}
}

func (r *herdRun) note(h head) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.statuses[strconv.Itoa(h.status)]++
	if h.retryAfter != "" {
		r.retryAfter[h.retryAfter]++
	}
}

func (r *herdRun) result(members []*member, server measured) *herdResult {
	result := &herdResult{Mode: "herd", Label: r.o.label, Clients: len(members), Statuses: r.statuses, RetryAfter: r.retryAfter, Failures: map[string]int{}, Server: server}
	var done, took, first, gap, cut []float64
	for _, m := range members {
		result.Attempts += m.attempts
		if m.failure != "" {
			result.Failures[m.failure]++
		}
		if m.stalls {
			result.Stalling++
			if m.stalled {
				result.Stalled++
			}
			if m.wasCut {
				result.Cut++
				cut = append(cut, m.cut.Seconds())
			}
			continue
		}
		result.Expected++
		if m.doneAt == 0 {
			continue
		}
		result.Complete++
		done = append(done, m.doneAt.Seconds())
		took = append(took, m.took.Seconds())
		first = append(first, m.firstByte.Seconds())
		gap = append(gap, m.gap.Seconds())
		if result.BytesMin == 0 || m.bytes < result.BytesMin {
			result.BytesMin = m.bytes
		}
		result.BytesMax = max(result.BytesMax, m.bytes)
	}
	result.Done, result.Took, result.First = spreadOf(done), spreadOf(took), spreadOf(first)
	result.Gap, result.CutTime = spreadOf(gap), spreadOf(cut)
	return result
}
