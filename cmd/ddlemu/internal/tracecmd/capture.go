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

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/capture"
	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/capture/traffic"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// captureOptions are the flags of capture.
type captureOptions struct {
	Output    string
	Force     bool
	Dissector bool
	Live      liveOptions
}

// write writes to the file, or to standard output if that is named.
func (o *captureOptions) write(g *cli.Global, write func(w io.Writer) error) error {
	if o.Output == cli.StandardOutput {
		return write(g.Stdout)
	}
	return cli.WriteFile("-o", o.Output, o.Force, 0o600, write)
}

// name is the name of the file, for messages.
func (o *captureOptions) name() string {
	if o.Output == cli.StandardOutput {
		return "standard output"
	}
	return o.Output
}

// messages is where messages are printed that are not the capture.
func (o *captureOptions) messages(g *cli.Global) io.Writer {
	if o.Output == cli.StandardOutput {
		return g.Stderr
	}
	return g.Stdout
}

// NewCaptureCommand is `ddlemu capture`.
func NewCaptureCommand(g *cli.Global) *cobra.Command {
	o := &captureOptions{}
	cmd := &cobra.Command{
		Use:   "capture [FOLDER...] -o FILE",
		Short: "Write packets for Wireshark: of a traced job, or of a fabric that is up",
		Long: cli.Long("docs/capture.md", `
Without folders, capture the packets on the links of a fabric of the kernel datapath, until
--duration, --count, Ctrl-C or the end of the fabric. With folders, write the messages of a job
recorded with --trace as a capture file (pcapng) at the senders' NICs, or at the links of --link.

Each packet has a comment that says what it is for. With the dissector that --dissector writes,
tshark -X lua_script:ddlemu.lua -r t.pcapng -Y 'ddlemu.coll == "AllReduce"' filters by it.`),
		Example: `  ddlemu capture t -o t.pcapng
  ddlemu capture t --link 'leaf0>spine1' -o trunk.pcapng
  ddlemu capture --fabric lab --link node0:node1 --duration 10s -o lab.pcapng
  ddlemu capture --dissector -o ddlemu.lua`,
		RunE: func(cmd *cobra.Command, args []string) error { return runCapture(cmd.Context(), g, o, args) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.Output, "output", "o", "", "write this `file`; - is standard output")
	cli.OtherLetter(fs, "output", "w") // tcpdump's letter
	fs.BoolVar(&o.Force, "force", false, "replace the file if it exists")
	fs.BoolVar(&o.Dissector, "dissector", false, "write Wireshark's dissector for the comments instead (Lua)")
	fs.StringVar(&o.Live.Link, "link", "",
		"capture at these `links`, named as for shape (default: all of a fabric that is up; the NICs of a traced job)")
	fs.DurationVar(&o.Live.Duration, "duration", 0, "end after this time (default: Ctrl-C ends it)")
	fs.IntVar(&o.Live.Count, "count", 0, "end after `N` packets")
	fs.IntVar(&o.Live.SnapLen, "snaplen", defaultSnapLen,
		fmt.Sprintf("write the first `N` bytes of each packet, at most %d", tap.MaxSnap))
	g.AddFabricFlag(fs)
	g.AddQuietFlag(fs)
	return cli.Ruled(cmd,
		cli.Excludes("dissector", "FOLDER link fabric duration count snaplen", "the dissector has no packets"),
		cli.Excludes("fabric duration count snaplen", "FOLDER", "a folder has a job that has ended"),
		cli.Least("duration count", 0),
		cli.Range("snaplen", 1, tap.MaxSnap))
}

// defaultSnapLen has room for the headers of TCP over IPv6 with all options, and the begin of the data.
const defaultSnapLen = 128

func runCapture(ctx context.Context, g *cli.Global, o *captureOptions, dirs []string) error {
	if o.Output != cli.StandardOutput {
		if err := cli.CheckFile("-o", o.Output, o.Force); err != nil {
			return err
		}
	}
	switch {
	case o.Dissector:
		return o.write(g, func(w io.Writer) error {
			_, err := io.WriteString(w, capture.Dissector)
			return err
		})
	case len(dirs) == 0:
		return runLiveCapture(ctx, g, o)
	}
	show, stop := g.ShowReplay(ctx, "capture")
	defer stop()
	t, fab, err := show.Load(dirs)
	if err != nil {
		return err
	}
	links, err := tracedLinks(fab, o.Live.Link, dirs[0])
	if err != nil {
		return err
	}
	played, err := replay.Play(fab, t)
	if err != nil {
		return err
	}
	return writeTraced(g, show, o, t, played, links)
}

// writeTraced writes the packets of a traced job at links, or at its NICs if there are none.
func writeTraced(g *cli.Global, show *cli.Replaying, o *captureOptions, t *messages.Trace, played *replay.Replayed,
	links []int) error {
	r := &t.Ranks[0]
	var sum capture.Summary
	err := o.write(g, func(w io.Writer) error {
		w = show.Writer(w, o.Output)
		p := pcapng.NewWriter(w, "ddlemu "+cli.Version(),
			fmt.Sprintf("an emulated network, clock %s: packets made from the messages of a job", cli.ClockName(t)))
		var err error
		sum, err = capture.Write(p, played, capture.Options{Offset: r.BegunRealtime - r.Begun/r.TimeScale,
			Links: links})
		if err != nil {
			return err
		}
		return p.Close()
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s of %s, %d sent again", units.Count(sum.Packets, "packet"),
		units.Count(sum.Messages, "message"), sum.Repeated)
	if sum.Marks > 0 {
		text += ", " + units.Count(int(sum.Marks), "ECN mark")
	}
	fmt.Fprintf(o.messages(g), "%s: %s\n", o.name(), text)
	notes := cli.Missing(t)
	if sum.Skipped > 0 {
		notes = append(notes,
			fmt.Sprintf("%s left out: their posts are not known", units.Count(sum.Skipped, "message")))
	}
	cli.PrintBasis(o.messages(g), t, "", notes)
	return nil
}

// tracedLinks are the hops that a pattern names in the fabric of a traced job, none if it is empty. dir is one of the
// job's folders.
func tracedLinks(fab *replay.Fabric, pattern, dir string) ([]int, error) {
	switch pattern {
	case "":
		return nil, nil
	case "all":
		return fab.All(), nil
	}
	hops, err := fab.Select(pattern)
	if err == nil {
		return hops, nil
	}
	_, file, errRead := ledger.ReadFabric(dir)
	if errRead != nil {
		return nil, cli.BadInput("%w", errRead)
	}
	return nil, cli.BadInput("--link: %w (`ddlemu fabric show -F %s` shows the links)", err, file)
}

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
