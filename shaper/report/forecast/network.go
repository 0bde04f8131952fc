// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// ports are the NICs of a node of the fabric that a log is judged on.
type ports struct {
	Number  int     // of a node
	Line    float64 // line rate of one, bits per second
	Payload float64 // of which payload, bits per second
}

const (
	// slowRows is how many sizes must agree on the rate between nodes, within slowAgree of their median: the largest of
	// the log. A single one may be a dip.
	slowRows  = 3
	slowAgree = 0.25
	// leastUse is how much of fewer or slower ports a slow network must use, to be taken for it.
	leastUse          = 0.6
	bitsPerByte, giga = 8, 1e9
)

// portRates are the rates of NICs on the market, in Gb/s.
var portRates = []float64{1, 10, 25, 40, 50, 56, 100, 200, 400}

// judgeNetwork adds a line to the summary if the largest calls of the log say that the NICs of a node carry much less
// together than the NICs of the fabric can: by fewer or slower ports, and by what NCCL's own lines say, if the log has
// some.
func (r *Report) judgeNetwork(p ports, log *tables.Table) {
	share := r.slowShare()
	if share == 0 || p.Number < 1 || p.Payload <= 0 {
		return
	}
	carried := share * float64(p.Number) * p.Payload
	text := fmt.Sprintf("network: the NICs of a node carry %.0f GB/s, %.0f %% of what %s of %.0f Gb/s can carry",
		carried/bitsPerByte/giga, 100*share, units.Count(p.Number, "port"), p.Line/giga)
	if like := p.like(share); like != "" {
		text += ": as much as " + like
	}
	r.Summary = append(r.Summary, text+"; "+netText(log.Log.System.Net, p.Number))
}

// slowShare is the share of their rate at which the NICs carried the largest calls of the log, by the bytes that any
// schedule must send; 0 if the log has no such calls, if they are not slower than the model, or do not agree.
func (r *Report) slowShare() float64 {
	bySize := map[int64]*JudgedTime{}
	for i := range r.Log {
		j := &r.Log[i]
		if j.Word != testslog.NotJudged && j.BoundUS > 0 && j.TimeUS > 0 {
			if best := bySize[j.Size]; best == nil || j.TimeUS < best.TimeUS {
				bySize[j.Size] = j
			}
		}
	}
	all := slices.SortedFunc(maps.Values(bySize), func(a, b *JudgedTime) int { return cmp.Compare(b.Size, a.Size) })
	if len(all) < slowRows {
		return 0
	}
	var shares []float64
	for _, j := range all[:slowRows] {
		if j.Word != testslog.Slower {
			return 0
		}
		shares = append(shares, j.BoundUS/j.TimeUS)
	}
	slices.Sort(shares)
	middle := shares[len(shares)/2]
	if shares[0] < (1-slowAgree)*middle || shares[len(shares)-1] > (1+slowAgree)*middle {
		return 0
	}
	return middle
}

// like names the fewer or slower ports that carry this share of what all can; "" if none do.
func (p *ports) like(share float64) string {
	var all []string
	needed := share * float64(p.Number)
	if few := int(math.Ceil(needed)); few < p.Number && needed >= leastUse*float64(few) {
		all = append(all, fmt.Sprintf("%d of %s", few, units.Count(p.Number, "NIC")))
	}
	for _, rate := range portRates {
		if use := share * p.Line / giga / rate; use <= 1 && use >= leastUse && rate < p.Line/giga {
			all = append(all, fmt.Sprintf("ports of %.0f Gb/s", rate))
			break
		}
	}
	return strings.Join(all, ", or ")
}

// netText is what NCCL's lines say of the net of nodes with so many NICs, and what to look at.
func netText(n testslog.Net, nics int) string {
	if n.Ends == 0 {
		return "which NICs NCCL used, and whether with GPUDirect, its own lines say: measure with NCCL_DEBUG=INFO"
	}
	var all []string
	if strings.Contains(n.Name, "Socket") {
		all = append(all, "sockets (NET/Socket) instead of RDMA: NCCL found no RDMA device, or NCCL_IB_DISABLE is set")
	}
	if n.NICs < nics {
		all = append(all, fmt.Sprintf("%d of %s (NCCL_IB_HCA, ports that are down)", n.NICs, units.Count(nics, "NIC")))
	}
	if n.Direct == 0 {
		all = append(all, "no GPUDirect RDMA: all bytes pass the hosts' memory (nvidia_peermem, DMA-BUF, NCCL_NET_GDR_LEVEL)")
	}
	if len(all) == 0 {
		return "by NCCL's lines it used all NICs, with GPUDirect: look at the rate and width of ports and PCI slots (ACS, " +
			"relaxed ordering), and at the switches"
	}
	return "by NCCL's lines it used " + strings.Join(all, "; ")
}
