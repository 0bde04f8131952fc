// SPDX-License-Identifier: Apache-2.0

// Package watch says what a fabric that is up does now. It compares two looks at the counters in the fabric's file.
// It only reads the file and acquires none of its locks, so ranks never wait for it.
package watch

import (
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Kind is what a hop is.
type Kind int

// The kinds of hops.
const (
	Port Kind = iota
	Link
	Trunk // a link between switches
)

// Fabric is what stays the same while a fabric is up.
type Fabric struct {
	Name      string
	Clock     string // real or virtual
	TimeScale int
	Kernel    bool // it is of the kernel datapath: how long packets wait is not in the file
	Hops      []Place
}

// Place is where a hop is.
type Place struct {
	Kind     Kind
	Name     string // as node0:node1, or node0 tx for a port
	From, To string // of a port its NIC, and tx or rx
	Path     []int  // of a link: the hops of its path, or of its paths if each flow has its own; of others, the hop alone
}

// Look is the counters of a fabric at one moment.
type Look struct {
	Up      time.Duration // real time since the fabric was brought up
	Clock   time.Duration // time of the emulated network since then
	Hops    []Counted     // in the order of Fabric.Hops
	Jobs    []JobLook
	Problem string // why no job can use the fabric, empty if one can
}

// Counted is one hop. Times are those of the emulated network.
type Counted struct {
	Bandwidth uint64 // bits per second, 0 if it is unlimited
	Down      bool
	Counters  link.Counters // since the fabric was brought up; bytes are counted when they reserve the hop
	Reserved  time.Duration // from now on for bytes that are counted already
}

// JobLook is one job that runs or has run.
type JobLook struct {
	Number             int
	Started            int64 // with Number, tells a job from all others
	Running            bool
	Verify             bool // the probes of `ddlemu verify`, which has a verdict of its own
	Traffic            bool // it stands for all traffic of the kernel datapath
	Joined, Left, Died int
	Stopped            int // ranks that the launcher ended before the job was done
	Messages, Bytes    uint64
	Verdict            string // VALID, INVALID or incomplete; empty if there is nothing to judge yet
	Reasons            []string
	Late               map[int]*Lateness // by hop, of links that have carried messages of the job
	Arrived            map[int]uint64    // messages, by hop
}

// Lateness is how late messages were; on the kernel datapath, packets. Times are real ones in ns.
type Lateness struct {
	Late, Took int64 // sums over all messages; Took is 0 if it is not known
	Most       int64
	Buckets    [state.LateBuckets]uint32
}

func (l *Lateness) add(c *state.Class) {
	l.Late, l.Took, l.Most = l.Late+c.SumLate, l.Took+c.SumTime, max(l.Most, c.MaxLate)
	for b, n := range c.Late {
		l.Buckets[b] += n
	}
}

// addSince adds to l what came to b after a, an earlier look at the same; nil is a look at nothing.
func (l *Lateness) addSince(b, a *Lateness) {
	if a == nil {
		a = &Lateness{}
	}
	l.Late, l.Took, l.Most = l.Late+b.Late-a.Late, l.Took+b.Took-a.Took, max(l.Most, b.Most)
	for i := range b.Buckets {
		l.Buckets[i] += b.Buckets[i] - a.Buckets[i]
	}
}

// p99 is an upper bound of the lateness of 99 in 100 messages. ok is false if there is no message.
func (l *Lateness) p99() (late int64, ok bool) { return state.Quantile(&l.Buckets, 0.99, l.Most) }
