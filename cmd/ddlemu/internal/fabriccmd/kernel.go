// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
)

// canShape returns a function that checks whether the shaper of the fabric supports a link.
func canShape(file *state.File, fab *fabric.Fabric) func(link.Spec) error {
	if !fab.Config.OnKernel() {
		return func(link.Spec) error { return nil }
	}
	return func(s link.Spec) error {
		if err := shapers.CheckLink(file.Shaper(), s); err != nil {
			return &cli.InputError{Err: err}
		}
		return nil
	}
}

// warnFloor measures the floor of the shaper wire and prints a warning if the fabric uses it and a link has a shorter
// latency.
func warnFloor(ctx context.Context, g *cli.Global, file *state.File, fab *fabric.Fabric) error {
	if file.Shaper() != configs.WireShaper {
		return nil
	}
	f, err := wire.MeasureFloor(ctx)
	if err != nil {
		return err
	}
	for i, h := range fab.Hops {
		if real := h.Spec.Latency * time.Duration(fab.TimeScale()); h.Kind == link.Link && real < f.P50 {
			g.Warn(
				"the latency of %s, %v, is below the floor of the shaper wire on this host now, %v: the verdict will "+
					"be INVALID; give a longer --lat, --set time_scale=K, or --set datapath=shm", fab.HopName(i),
				h.Spec.Latency, f.P50.Round(100*time.Nanosecond))
			return nil
		}
	}
	return nil
}

// nodeOf returns the number of the node with a name or address, see netns.Plan.FindNode.
func nodeOf(p *netns.Plan, name string) (int, error) {
	if n := p.FindNode(name); n >= 0 {
		return n, nil
	}
	last := fmt.Sprintf(" to node%d", len(p.Nodes)-1)
	if len(p.Nodes) == 1 {
		last = ""
	}
	return 0, cli.BadInput("%q is not a node of fabric %s: it has node0%s", name, p.Fabric, last)
}
