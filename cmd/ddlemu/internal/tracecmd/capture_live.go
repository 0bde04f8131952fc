// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/capture/traffic"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// liveOptions say which packets of a fabric that is up are captured.
type liveOptions struct {
	Link     string        // pattern; empty for all links
	Duration time.Duration // 0: until the user or the fabric ends it
	Count    int           // packets; 0: all
	SnapLen  int           // bytes of each packet
}

// liveCapture is a capture of a fabric of the kernel datapath that is up.
type liveCapture struct {
	*cli.Opened
	fab    *fabric.Fabric
	links  []int
	stream *tap.Stream
	o      liveOptions
	cut    bool // the daemon has ended the capture
}

// openLive begins to capture. The caller closes what it returns.
func openLive(g *cli.Global, o liveOptions) (_ *liveCapture, err error) {
	up, err := g.OpenKernel()
	if err != nil {
		return nil, err
	}
	c := &liveCapture{Opened: up, o: o}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.fab, err = fabricfile.Read(up.File); err != nil {
		return nil, err
	}
	name := up.File.Name()
	switch {
	case !c.fab.Config.OnKernel():
		return nil, cli.BadInput(
			"fabric %s is on datapath shm, which has no packets: record a job with `ddlemu run --trace t -- ...`, "+
				"then `ddlemu capture t -o FILE` makes packets of its messages", name)
	case !up.File.Served():
		return nil, fabriccmd.DaemonGone(name)
	}
	if c.links, err = linksOf(c.fab, o.Link); err != nil {
		return nil, err
	}
	c.stream, err = tap.Open(up.Dir, name, o.SnapLen)
	return c, err
}

// linksOf are the hops of the links that a pattern names, all links if it is empty.
func linksOf(fab *fabric.Fabric, pattern string) (links []int, err error) {
	hops := fab.All()
	if pattern != "" && pattern != "all" {
		if hops, err = fab.Select(pattern); err != nil {
			return nil, cli.BadInput("--link: %w", err)
		}
	}
	for _, hop := range hops {
		if fab.Hops[hop].Kind == link.Link {
			links = append(links, hop)
		}
	}
	if len(links) == 0 {
		return nil, cli.BadInput("--link %s names no link between nodes: `ddlemu status` lists them", pattern)
	}
	return links, nil
}

// Close ends the capture.
func (c *liveCapture) Close() {
	if c.stream != nil {
		_ = c.stream.Close() // only read
	}
	c.Opened.Close()
}

// names are the names of the nodes' addresses.
func (c *liveCapture) names() (map[netip.Addr]string, error) {
	p, err := daemon.Plan(c.Dir.Path, c.fab, c.File.Name())
	if err != nil {
		return nil, err
	}
	names := map[netip.Addr]string{}
	for _, n := range p.Nodes {
		for i, nic := range n.NICs {
			if names[nic.Addr4] = n.Name; i > 0 {
				names[nic.Addr4] += "-" + nic.Name
			}
		}
	}
	return names, nil
}

// write writes packets to w until there are enough, ctx is done or the fabric is taken down. A reader of w sees them at
// once.
func (c *liveCapture) write(ctx context.Context, w io.Writer) (sum traffic.Summary, err error) {
	names, err := c.names()
	if err != nil {
		return sum, err
	}
	if c.o.Duration > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.o.Duration)
		defer cancel()
	}
	stop := context.AfterFunc(ctx, func() { _ = c.stream.Stop() }) // fails if the daemon has ended the stream
	defer stop()
	p := pcapng.NewWriter(w, "ddlemu "+cli.Version(), "the packets on the links of fabric "+c.File.Name())
	t := traffic.NewWriter(p, traffic.Options{
		Fabric: c.fab, Links: c.links, Kind: c.stream.Kind(), Shaper: c.File.Shaper(), Snap: c.o.SnapLen, Names: names,
	})
	if err := p.Flush(); err != nil {
		return sum, err
	}
	for n := 0; c.o.Count == 0 || n < c.o.Count; {
		r, err := c.stream.Read()
		if errors.Is(err, io.EOF) {
			c.cut = ctx.Err() == nil
			break
		}
		if err != nil {
			return sum, fmt.Errorf("capture the packets of fabric %s: %w", c.File.Name(), err)
		}
		if t.Add(&r) {
			n++
		}
		if c.stream.Buffered() {
			continue
		}
		if err := p.Flush(); err != nil {
			return sum, err
		}
	}
	sum = t.Close()
	return sum, p.Close()
}

// runLiveCapture captures to a file or to standard output.
func runLiveCapture(ctx context.Context, g *cli.Global, o *captureOptions) error {
	c, err := openLive(g, o.Live)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.stream.Kind() == tap.Socket {
		fmt.Fprintf(g.Stderr,
			"ddlemu: note: the shaper %s has no eBPF programs: a packet socket at the switch captures the packets "+
				"before the shaper, so drops and departures are not seen\n", c.File.Shaper())
	}
	var sum traffic.Summary
	err = o.write(g, func(w io.Writer) error {
		sum, err = c.write(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	text := describeTraffic(sum, c.stream.Kind(), len(c.links))
	if c.cut && c.File.Down() {
		text += "; the fabric was taken down"
	}
	fmt.Fprintf(o.messages(g), "%s: %s\n", o.name(), text)
	return c.whyCut()
}

// whyCut is an error if the daemon has ended the capture and the fabric is still up.
func (c *liveCapture) whyCut() error {
	if !c.cut || c.File.Down() {
		return nil
	}
	return fmt.Errorf("the daemon of fabric %s has ended the capture: see the events of `ddlemu status --fabric %[1]s`",
		c.File.Name())
}

// describeTraffic says how many packets were captured, and what happened to them.
func describeTraffic(s traffic.Summary, k tap.Kind, links int) string {
	what := units.Count(s.Records, "record")
	if k == tap.Programs {
		what += fmt.Sprintf(" of %s", units.Count(int(s.Packets), "packet"))
	}
	parts := []string{fmt.Sprintf("%s on %s", what, units.Count(links, "link"))}
	for _, x := range []struct {
		n    uint64
		text string
	}{{s.Lost, "%d lost"}, {s.Down, "%d dropped on links that are down"}, {s.Full, "%d dropped by full queues"},
		{s.Marked, "%d with an ECN mark"},
		{s.Missed, "%d more are not in the file: they came faster than they were read"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf(x.text, x.n))
		}
	}
	return strings.Join(parts, ", ")
}
