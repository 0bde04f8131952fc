// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

var _ verify.PacketRunner = (*Runner)(nil)

const (
	// greetingTimeout is long enough for the kernel to find a neighbour after its first request (ARP) was lost.
	greetingTimeout = 3 * time.Second
	greetingPeriod  = 20 * time.Millisecond
)

// Send opens the sockets of the streams, sends on all of them for d or until each has sent its Most datagrams, waits
// at most tail for datagrams in flight, and closes the sockets. A stream whose greetings are not received sends
// nothing. If ctx is done, Send returns early with its error.
func (r *Runner) Send(ctx context.Context, streams []verify.Stream, d, tail time.Duration) ([]verify.Packets, error) {
	var flows []*flow
	defer func() {
		for _, f := range flows {
			f.close()
		}
	}()
	for _, s := range streams {
		f, err := r.open(s)
		if err != nil {
			return nil, fmt.Errorf("open sockets from %s to %s: %w", r.fabric.NICName(s.Src), r.fabric.NICName(s.Dst),
				err)
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
	forEach(flows, func(f *flow) { f.greet(ctx, greetingTimeout+2*tail) })
	for _, j := range r.file.JobsOf(state.TrafficKey) {
		r.traffic = j.Status()
	}
	end := time.Now().Add(d)
	for i, f := range flows {
		senders.Go(func() { errs[2*i+1] = f.send(ctx, end) })
	}
	senders.Wait()
	last := time.Now().Add(tail)
	forEach(flows, func(f *flow) { f.waitReceived(ctx, last) })
	for _, f := range flows {
		f.interrupt()
	}
	receivers.Wait()
	out := make([]verify.Packets, len(flows))
	for i, f := range flows {
		out[i] = f.packets()
		r.sent[r.fabric.Link(f.Src, f.Dst)] += uint64(len(out[i].Sent) + f.greetings)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, errors.Join(errs...)
}

// forEach calls do for all flows concurrently and returns when all calls have.
func forEach(flows []*flow, do func(*flow)) {
	var calls sync.WaitGroup
	for _, f := range flows {
		calls.Go(func() { do(f) })
	}
	calls.Wait()
}
