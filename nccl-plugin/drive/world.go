// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/shm"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// The most shared memory for connections, in bytes: of all participants, and of one.
const (
	allMemory = 512 << 20
	maxMemory = 128 << 20
)

// World is a job with a participant for each NIC of a fabric, all in this process. It is not safe for
// concurrent use.
type World struct {
	file *state.File
	job  state.Job
	nics []*member
	made map[pair]uint64 // connections made so far

	paths shm.FlowPath // nil if all flows between two NICs have one path
}

type pair struct{ src, dst int }

// member is the participant of a NIC. Rank n is NIC n, so that the random draws of a connection depend
// only on its NICs and on how many connections were made between them before.
type member struct {
	participant *state.Participant
	end         *shm.Endpoint
}

// connection is a connection with both ends.
type connection struct {
	pair
	id         uint64 // of the flow; it selects the random draws
	send, recv unsafe.Pointer
}

// Join makes a job on the fabric with a participant for each NIC. The caller closes it before the
// file.
// All connections take the path of their NICs, also where each flow has its own: links are measured, not a hash.
func Join(file *state.File, fab *fabric.Fabric) (*World, error) {
	return join(file, fab, nil, state.VerifyKey, min(maxMemory, allMemory/fab.NICs()))
}

// join is Join with the key of the job, and the memory of each participant in bytes.
func join(file *state.File, fab *fabric.Fabric, paths shm.FlowPath, key uint64, memory int) (*World, error) {
	w := &World{file: file, made: map[pair]uint64{}, paths: paths}
	job, err := file.JoinJob(key)
	if err != nil {
		return nil, err
	}
	nics := fab.NICs()
	for n := range nics {
		r := state.Rank{Rank: n, Node: fab.NodeOfNIC(n), World: nics, Budget: uint64(memory)}
		p, err := file.Join(job, r)
		if err != nil {
			w.Close()
			return nil, err
		}
		job = p.Job()
		end, err := w.endpoint(p, r)
		if err != nil {
			p.Leave()
			w.Close()
			return nil, err
		}
		w.nics = append(w.nics, &member{p, end})
	}
	w.job = job
	return w, nil
}

// endpoint makes the endpoint of one more participant. The first one joins a virtual clock for
// all.
func (w *World) endpoint(p *state.Participant, r state.Rank) (*shm.Endpoint, error) {
	if len(w.nics) == 0 {
		return shm.NewEndpoint(w.file, p, r, w.paths)
	}
	return w.nics[0].end.Another(p, r)
}

// Close ends all participants.
func (w *World) Close() {
	for _, m := range slices.Backward(w.nics) {
		m.end.Close()
	}
	for _, m := range w.nics {
		m.participant.Leave()
	}
	w.nics = nil
}

// Findings returns the engine's reasons why its results are not valid.
func (w *World) Findings() []verdict.Finding { return verdict.FromReasons(w.job.Status().Reasons) }

// Others returns the number of ranks of other jobs on the fabric.
func (w *World) Others() int {
	others := slices.DeleteFunc(w.file.Ranks(), func(p state.ParticipantStatus) bool {
		return !p.Alive || slices.ContainsFunc(w.nics, func(m *member) bool { return m.participant.Slot() == p.Slot })
	})
	return len(others)
}

// Hops returns the parameters and counters of all hops.
func (w *World) Hops() []state.HopStatus { return w.file.Hops() }

// connectTime is longer than making a connection takes on a busy host.
const connectTime = 30 * time.Second

// connect makes a connection for each flow, in their order.
func (w *World) connect(ctx context.Context, flows []verify.Flow) ([]*connection, error) {
	var conns []*connection
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for _, f := range flows {
		c, err := w.connectOne(ctx, pair{f.Src, f.Dst})
		if err != nil {
			return conns, fmt.Errorf("connect NIC %d to NIC %d: %w", f.Src, f.Dst, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func (w *World) connectOne(ctx context.Context, p pair) (*connection, error) {
	from, to := w.nics[p.src].end, w.nics[p.dst].end
	var h [transport.HandleSize]byte
	listen, err := to.Listen(p.dst, &h)
	if err != nil {
		return nil, err
	}
	defer to.CloseListen(listen)
	c := &connection{pair: p, id: link.FlowID(p.src, p.dst, w.made[p])}
	w.made[p]++
	for c.send == nil || c.recv == nil {
		if c.send == nil {
			c.send, err = from.Connect(p.src, &h)
		}
		if err == nil && c.recv == nil {
			c.recv, err = to.Accept(listen)
		}
		if err == nil && (c.send == nil || c.recv == nil) {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(50 * time.Microsecond):
			}
		}
		if err != nil {
			w.close([]*connection{c})
			return nil, err
		}
	}
	return c, nil
}

// close closes connections. An end may be missing.
func (w *World) close(conns []*connection) {
	for _, c := range conns {
		if c.send != nil {
			w.nics[c.src].end.CloseComm(transport.ID(c.send))
		}
		if c.recv != nil {
			w.nics[c.dst].end.CloseComm(transport.ID(c.recv))
		}
	}
}
