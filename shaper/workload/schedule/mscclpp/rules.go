// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// rules are what the sources and destinations of the operations must be, by their names: l is a buffer of the GPU
// itself, r of another GPU, p and q are the same for packets, which are in scratch, w is the buffer of a switch
// channel. Behind the last letter * stands for any number of these, + for at least one.
var rules = map[string][2]string{
	"put": {"l+", "r+"}, "pws": {"l+", "r+"}, "pwsf": {"l+", "r+"}, "ppkt": {"l+", "q+"},
	"get": {"r+", "l+"}, "copy": {"l", "l"}, "cpkt": {"l", "p"}, "upkt": {"p", "l"},
	"re": {"l+", "l"}, "res": {"l+", "lr*"}, "rre": {"lr*", "l"}, "rres": {"lr*", "lr*"},
	"rppkt": {"p", "q+"}, "repkt": {"lp*", "l"}, "respkt": {"lp*", "lq*"}, "recpkt": {"lp*", "lp"},
	"recspkt": {"lp*", "lpq*"},
	"glres":   {"w", "w"}, "gstore": {"l", "w"}, "gstorepkt": {"p", "w"},
}

var letters = map[byte]string{
	'l': "of the GPU itself", 'r': "a remote buffer", 'p': "scratch of the GPU itself", 'q': "remote scratch",
	'w': "a switch channel",
}

// check refuses an operation that does not have what it needs. MSCCL++'s executor would not notice.
func (x *operation) check(gpu int) error {
	switch x.name {
	case "signal", "wait", "rlxsignal", "rlxwait":
		if len(x.channels) == 0 {
			return errors.New("names no channel")
		}
	case "sem_acquire", "sem_release":
		if len(x.sems) == 0 {
			return errors.New("names no semaphore")
		}
	case "barrier":
		if x.blocks < 1 || x.blocks > mostGroup {
			return fmt.Errorf("num_threadblocks %d: must be 1 to %d", x.blocks, mostGroup)
		}
	}
	rule, ok := rules[x.name]
	if !ok {
		return nil
	}
	if err := follow("src_buff", rule[0], x.src, gpu); err != nil {
		return err
	}
	if err := follow("dst_buff", rule[1], x.dst, gpu); err != nil {
		return err
	}
	if err := x.checkSizes(); err != nil {
		return err
	}
	return x.checkChannels()
}

// follow compares chunks with a rule.
func follow(what, rule string, spans []span, gpu int) error {
	last := len(rule) - 1
	many := rule[last] == '*' || rule[last] == '+'
	which := strings.TrimRight(rule, "*+")
	least := len(which)
	if rule[last] == '*' {
		least--
	}
	if len(spans) < least || len(spans) > len(which) && !many {
		return fmt.Errorf("%s has %d chunks: must have %d", what, len(spans), least)
	}
	for i, s := range spans {
		letter := which[min(i, len(which)-1)]
		own := s.gpu == gpu && !s.wide
		ok := false
		switch letter {
		case 'l':
			ok = own
		case 'r':
			ok = s.gpu != gpu
		case 'p':
			ok = own && s.ref.Buffer == schedule.Scratch
		case 'q':
			ok = s.gpu != gpu && s.ref.Buffer == schedule.Scratch
		case 'w':
			ok = s.wide
		}
		if !ok {
			return fmt.Errorf("%s %d must be %s", what, i, letters[letter])
		}
	}
	return nil
}

// checkSizes demands that all chunks are equally large, in puts and gets each source and its destination.
func (x *operation) checkSizes() error {
	switch x.name {
	case "put", "pws", "pwsf", "ppkt", "get":
		if len(x.src) != len(x.dst) && len(x.src) != 1 {
			return fmt.Errorf("%d sources for %d destinations", len(x.src), len(x.dst))
		}
		for i := range x.dst {
			if from := x.source(i); from.n != x.dst[i].n {
				return fmt.Errorf("source and destination %d are not equally large", i)
			}
		}
		return nil
	}
	for _, s := range append(append([]span{}, x.src...), x.dst...) {
		if s.n != x.src[0].n {
			return errors.New("its chunks are not equally large")
		}
	}
	return nil
}

// checkChannels demands that a put over port channels has one for each destination. Over memory channels only the
// remote buffers count.
func (x *operation) checkChannels() error {
	switch x.name {
	case "pws", "pwsf":
		if x.kind != portChannel {
			return fmt.Errorf("over a %s channel MSCCL++'s executor does not signal: only over a %s channel", x.kind,
				portChannel)
		}
	case "put", "ppkt", "rppkt":
		if x.kind != portChannel {
			return nil
		}
	default:
		return nil
	}
	if x.name == "ppkt" && x.src[0].ref.Buffer != schedule.Scratch {
		return fmt.Errorf("over a %s channel it sends packets that are in scratch already", portChannel)
	}
	if len(x.channels) != len(x.dst) {
		return fmt.Errorf("%d channels for %d destinations", len(x.channels), len(x.dst))
	}
	for i, c := range x.channels {
		if c.peer != x.dst[i].gpu {
			return fmt.Errorf("destination %d is of GPU %d, its channel goes to %d", i, x.dst[i].gpu, c.peer)
		}
	}
	return nil
}

// signals says whether an operation signals on its channels.
func (x *operation) signals() bool {
	return slices.Contains([]string{"signal", "rlxsignal", "pws", "pwsf"}, x.name)
}

// puts says whether an operation stores each source in its destination, without packets.
func (x *operation) puts() bool { return slices.Contains([]string{"put", "pws", "pwsf"}, x.name) }

// source is the source of destination i.
func (x *operation) source(i int) span { return x.src[min(i, len(x.src)-1)] }

// packets are the packets that an operation waits for.
func (x *operation) packets() []span {
	switch x.name {
	case "upkt", "rppkt", "gstorepkt":
		return x.src
	case "repkt", "respkt", "recpkt", "recspkt":
		return x.src[1:]
	}
	return nil
}
