// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verify"
)

var _ verify.PacketRunner = (*Runner)(nil)

// How long both ends of a stream wait for each other at least, which is what finding a
// neighbour takes when the first question is lost, and how often they try.
const (
	meetTime  = 3 * time.Second
	meetEvery = 20 * time.Millisecond
)

// Send opens the sockets of streams, sends on all at once for d or until each has sent
// its most, waits for what is under way, at most tail, and closes them. A stream whose
// ends do not reach each other sends nothing. The error says what failed; a cancelled ctx
// ends it early.
func (w *Runner) Send(ctx context.Context, streams []verify.Stream, d, tail time.Duration) ([]verify.Packets, error) {
	var flows []*flow
	defer func() {
		for _, f := range flows {
			f.close()
		}
	}()
	for _, s := range streams {
		f, err := w.open(s)
		if err != nil {
			return nil, fmt.Errorf("open sockets from %s to %s: %w", w.fabric.NICName(s.Src), w.fabric.NICName(s.Dst), err)
		}
		flows = append(flows, f)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, f := range flows {
			f.interrupt()
		}
	})
	defer stop()
	errs := make([]error, 2*len(flows))
	var receivers, senders sync.WaitGroup
	for i, f := range flows {
		receivers.Go(func() { errs[2*i] = f.receive() })
	}
	each(flows, func(f *flow) { f.meet(ctx, meetTime+2*tail) })
	for _, j := range w.file.JobsOf(state.TrafficKey) {
		w.traffic = j.Status()
	}
	end := time.Now().Add(d)
	for i, f := range flows {
		senders.Go(func() { errs[2*i+1] = f.send(ctx, end) })
	}
	senders.Wait()
	last := time.Now().Add(tail)
	each(flows, func(f *flow) { f.await(ctx, last) })
	for _, f := range flows {
		f.interrupt()
	}
	receivers.Wait()
	out := make([]verify.Packets, len(flows))
	for i, f := range flows {
		out[i] = f.packets()
		w.sent[w.fabric.Link(f.Src, f.Dst)] += uint64(len(out[i].Sent) + f.greetings)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, errors.Join(errs...)
}

// each does something for all flows at once.
func each(flows []*flow, do func(*flow)) {
	var all sync.WaitGroup
	for _, f := range flows {
		all.Go(func() { do(f) })
	}
	all.Wait()
}
