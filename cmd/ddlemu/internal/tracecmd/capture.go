// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/capture"
	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
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
