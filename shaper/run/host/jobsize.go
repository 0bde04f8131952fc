// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// How long this host is measured: to select a time scale, and to warn.
const (
	MeasureTime  = time.Second
	measureTries = 6
	warnTime     = 160 * time.Millisecond
)

// JobSize is what a run puts on this host.
type JobSize struct {
	Fabric  *fabric.Fabric
	Ranks   int
	Message uint32 // bytes of the smallest message, see MessageSize
}

// JobSizeOf is the size of a job of as many ranks as f has GPUs, one per node if f does not say, with messages of any
// size.
func JobSizeOf(f *fabric.Fabric) JobSize {
	return JobSize{Fabric: f, Ranks: f.Config.Nodes * max(f.Config.GPUsPerNode, 1), Message: 1}
}

// MessageSize is the size in bytes of the smallest message of a collective of size bytes: a rank's share of it, but no
// more than a message of LL, because the protocol is not known yet.
func MessageSize(size int64, ranks int) uint32 {
	const maxLL = 64 << 10
	return uint32(min(max(size/int64(ranks), 1), maxLL))
}

// BusyThreads is the number of threads that poll without pause: the progress thread of each rank and, with the
// software CUDA, one more per rank that stands for its GPU.
func BusyThreads(ranks int) int {
	if locate.HasGPU() {
		return ranks
	}
	return 2 * ranks
}

// Demand is what j asks of a host. A rank moves at most what the NICs of its node carry, divided by the ranks of the
// node, and at least the rate of one NIC, because NCCL gives each channel to one rank.
func (j JobSize) Demand() Demand {
	c := &j.Fabric.Config
	d := Demand{T: math.MaxInt64}
	tr := j.Fabric.Transport()
	ends := 2 * time.Duration(tr.Overhead+tr.Host.Time(uint64(j.Message)))
	for _, h := range j.Fabric.Hops {
		if h.Kind != link.Link {
			continue
		}
		l := fabric.LinkOf(h.Spec)
		d.Rate = max(d.Rate, l.PayloadRate())
		p, err := link.NewParams(h.Spec, 1)
		if err != nil {
			continue // a valid fabric has no such link
		}
		d.T = min(d.T, j.Fabric.Latency(h.Src, h.Dst)+time.Duration(p.Serialization(j.Message))+ends)
	}
	if d.T == math.MaxInt64 {
		d.T = 0
	}
	perNode := max((j.Ranks+c.Nodes-1)/c.Nodes, 1)
	d.Rate *= math.Max(1, float64(c.NICsPerNode)/float64(perNode))
	return d
}

func (d Demand) none() bool { return d.Rate == 0 && d.T == 0 }

// Selection is a time scale, the reason for it, and the measurement that it is based on, zero if none was needed.
type Selection struct {
	Scale  int
	Reason string
	Host   Host
}

// SelectScale measures this host with as many busy threads as j has and returns the smallest time scale at which it
// carries j. If there is none, the error is a *configs.Error.
func SelectScale(ctx context.Context, j JobSize) (Selection, error) {
	d := j.Demand()
	if d.none() {
		return Selection{Scale: 1, Reason: "enough: nothing is shaped"}, nil
	}
	if j.Fabric.Config.OnKernel() {
		latency := JobSize{j.Fabric, j.Ranks, 1}.Demand().T
		k, reason, err := KernelScale(d, latency, VerdictLimits())
		if err != nil {
			return Selection{}, noScale(err, "")
		}
		return Selection{Scale: k, Reason: "chosen for the kernel datapath: " + reason}, nil
	}
	// Other work on the host only makes it look slower, so measure again before refusing.
	var slow error
	var h Host
	for range measureTries {
		var err error
		if h, err = Measure(ctx, BusyThreads(j.Ranks), MeasureTime); err != nil {
			return Selection{}, err
		}
		var s Selection
		if s.Scale, s.Reason, slow = Scale(h, d, VerdictLimits()); slow == nil {
			s.Reason, s.Host = "chosen for this host: "+s.Reason, h
			return s, nil
		}
	}
	return Selection{}, noScale(slow, j.Nearest(h, nil)+"; or use fewer ranks, or ")
}

// noScale refuses a job for which this host has no time scale. others are other ways out.
func noScale(why error, others string) error {
	return configs.Errorf("", "%w: %sgive --set time_scale=K to run it all the same", why, others)
}

// Nearest names in words the profile that h can carry and whose rate is nearest to j's rate. accept, if not nil,
// must hold for the profile at the time scale that it would have.
func (j JobSize) Nearest(h Host, accept func(c *configs.Fabric) bool) string {
	all, err := configs.Profiles()
	if err != nil {
		return "no profile fits"
	}
	rate, best, text := j.Demand().Rate, math.Inf(1), "no profile fits"
	for _, c := range all {
		f, err := fabric.New(c)
		if err != nil || c.Link.Bandwidth == 0 || c.Name == j.Fabric.Config.Name {
			continue
		}
		d := JobSize{f, j.Ranks, j.Message}.Demand()
		if c.TimeScale, _, err = Scale(h, d, VerdictLimits()); err != nil || (accept != nil && !accept(c)) {
			continue
		}
		if off := math.Abs(math.Log(max(d.Rate, 1) / max(rate, 1))); off < best {
			best, text = off, "the nearest profile that fits is "+c.Name
		}
	}
	return text
}

// Warning measures this host briefly and returns a warning if it cannot carry j at the fabric's time scale, else "".
// It returns "" for the kernel datapath too, where the kernel carries the traffic and not the ranks' threads.
func Warning(ctx context.Context, j JobSize) (string, error) {
	d, c := j.Demand(), &j.Fabric.Config
	if d.none() || c.OnKernel() {
		return "", nil
	}
	h, err := Measure(ctx, BusyThreads(j.Ranks), warnTime)
	if err != nil {
		return "", err
	}
	scale := j.Fabric.TimeScale()
	slow, late := h.lacks(scale, d, VerdictLimits())
	reason := cmp.Or(slow, late)
	if reason == "" {
		return "", nil
	}
	next := "no time scale is enough; use fewer ranks, or a virtual clock if the job runs on the software CUDA"
	if k, _, err := Scale(h, d, VerdictLimits()); err == nil {
		next = fmt.Sprintf("with --set time_scale=%d it should be VALID", k)
	}
	return fmt.Sprintf(
		"%s asks for more than this host carries at time scale %d, so the verdict will likely be INVALID: %s; %s",
		c.Name, scale, reason, next), nil
}
