// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// How long this host is measured: to choose a time scale by, and to warn by.
const (
	measureTime  = time.Second
	measureTries = 6
	glanceTime   = 160 * time.Millisecond
)

// autoScale measures this host with as many busy threads as ranks ranks have and
// chooses the time scale for c and collectives of size bytes or more; h is what was
// measured. The error names the profile that is most like c and that this host can
// carry.
func autoScale(ctx context.Context, c *configs.Fabric, ranks int, size int64) (k int, why string, h host.Host, err error) {
	return autoScaleFor(ctx, c, ranks, size, messageOf(size, ranks))
}

// autoScaleFor is autoScale where it is known that messages have message bytes or more.
func autoScaleFor(ctx context.Context, c *configs.Fabric, ranks int, size int64, message uint32) (k int, why string, h host.Host, err error) {
	fab, err := fabric.New(c)
	if err != nil {
		return 0, "", h, err
	}
	d := demandOf(fab, ranks, message)
	if asksNothing(d) {
		return 1, "enough: nothing is shaped", h, nil
	}
	if c.OnKernel() {
		if k, why, err = host.KernelScale(d, demandOf(fab, ranks, 1).T, host.VerdictLimits()); err != nil {
			return 0, "", h, badInput("%w: give --time-scale to run it all the same", err)
		}
		return k, "chosen for the kernel datapath: " + why, h, nil
	}
	// Other work on the host only ever makes it look worse: before refusing, look again.
	for range measureTries {
		if h, err = host.Measure(ctx, busyThreads(ranks), measureTime); err != nil {
			return 0, "", h, err
		}
		if k, why, err = host.Scale(h, d, host.VerdictLimits()); err == nil {
			break
		}
	}
	if err == nil {
		return k, "chosen for this host: " + why, h, nil
	}
	next := nearest(h, fab, ranks, size, nil)
	return 0, "", h, badInput("%w: %s; or use fewer ranks, or give --time-scale to run it all the same", err, next)
}

// settleScale chooses fab's time scale if the flags ask for auto, and says so;
// measured tells whether this host was measured for that.
func (g *global) settleScale(ctx context.Context, fs *pflag.FlagSet, fab *fabric.Fabric) (measured bool, err error) {
	if !fs.Changed("time-scale") || fab.Config.TimeScale != 0 {
		return false, nil
	}
	why := ""
	if fab.Config.TimeScale, why, _, err = autoScale(ctx, &fab.Config, ranksOf(fab), 1); err != nil {
		return false, err
	}
	fmt.Fprintf(g.Stderr, "ddlemu: time scale %d, %s\n", fab.Config.TimeScale, why)
	return true, nil
}

// nearest names, for an error, the profile that is most like fab and that h can carry.
func nearest(h host.Host, fab *fabric.Fabric, ranks int, size int64, also func(c *configs.Fabric) bool) string {
	if name := nearestThatFits(h, fab, ranks, messageOf(size, ranks), also); name != "" {
		return fmt.Sprintf("the nearest profile that fits is %s", name)
	}
	return "no profile fits"
}

// busyThreads is how many threads of a job poll without pause: the progress thread
// of each rank and, with the software CUDA, one that stands for its GPU.
func busyThreads(ranks int) int {
	if locate.HasGPU() {
		return ranks
	}
	return 2 * ranks
}

// messageOf is the smallest message that a collective of size bytes is sent in: a
// rank's share of it, but no more than LL's messages have, whichever protocol it
// will be.
func messageOf(size int64, ranks int) uint32 {
	const mostOfLL = 64 << 10
	return uint32(min(max(size/int64(ranks), 1), mostOfLL))
}

// demandOf is what ranks ranks on fab ask of a host. A rank moves at most what the
// NICs of its node carry, shared among the node's ranks, and at least one NIC's
// worth, as NCCL gives a channel to one rank. Its messages have message bytes at
// least.
func demandOf(fab *fabric.Fabric, ranks int, message uint32) host.Demand {
	d := host.Demand{T: math.MaxInt64}
	tr := fab.Transport()
	ends := 2 * time.Duration(tr.Overhead+tr.Host.Time(uint64(message)))
	for _, h := range fab.Hops {
		if h.Kind != fabric.Link {
			continue
		}
		l := fabric.LinkOf(h.Spec)
		d.Rate = max(d.Rate, l.PayloadRate())
		p, err := link.NewParams(h.Spec, 1)
		if err != nil {
			continue // a valid fabric has none such
		}
		d.T = min(d.T, fab.Latency(h.Src, h.Dst)+time.Duration(p.Serialise(message))+ends)
	}
	if d.T == math.MaxInt64 {
		d.T = 0
	}
	perNode := max((ranks+fab.Config.Nodes-1)/fab.Config.Nodes, 1)
	d.Rate *= math.Max(1, float64(fab.Config.NICsPerNode)/float64(perNode))
	return d
}

func asksNothing(d host.Demand) bool { return d.Rate == 0 && d.T == 0 }

// nearestThatFits is the profile that h can carry whose rate is nearest to that of
// fab, "" if there is none. also, if not nil, must hold too of the profile at the
// time scale that it would have.
func nearestThatFits(h host.Host, fab *fabric.Fabric, ranks int, message uint32, also func(c *configs.Fabric) bool) string {
	all, err := configs.Profiles()
	if err != nil {
		return ""
	}
	asked, best, name := demandOf(fab, ranks, message).Rate, math.Inf(1), ""
	for _, c := range all {
		other, err := fabric.New(c)
		if err != nil || c.Link.Bandwidth == 0 || c.Name == fab.Config.Name {
			continue
		}
		d := demandOf(other, ranks, message)
		if c.TimeScale, _, err = host.Scale(h, d, host.VerdictLimits()); err != nil || (also != nil && !also(c)) {
			continue
		}
		if off := math.Abs(math.Log(max(d.Rate, 1) / max(asked, 1))); off < best {
			best, name = off, c.Name
		}
	}
	return name
}

// warnTooMuch measures this host for a moment and warns if fab asks for more than
// it carries at fab's time scale.
func (g *global) warnTooMuch(ctx context.Context, fab *fabric.Fabric, ranks int) error {
	d := demandOf(fab, ranks, 1)
	if asksNothing(d) || fab.Config.OnKernel() { // there the kernel carries it, not the ranks' threads
		return nil
	}
	h, err := host.Measure(ctx, busyThreads(ranks), glanceTime)
	if err != nil {
		return err
	}
	k, why, err := host.Scale(h, d, host.VerdictLimits())
	switch have := fab.TimeScale(); {
	case err != nil:
		g.warn("%s asks for more than this host carries, so the verdict will likely be INVALID: %v", fab.Config.Name, err)
	case k > have:
		g.warn("%s asks for more than this host carries at time scale %d, so the verdict will likely be INVALID: %s; at --time-scale %d it should be VALID", fab.Config.Name, have, why, k)
	}
	return nil
}

// ranksOf is how many ranks fab is made for: one per node if it does not say.
func ranksOf(fab *fabric.Fabric) int {
	return fab.Config.Nodes * max(fab.Config.GPUsPerNode, 1)
}
