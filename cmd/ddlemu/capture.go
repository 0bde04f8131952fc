// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/capture"
	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/replay"
)

// captureOptions are the flags of capture.
type captureOptions struct {
	Output    string
	Force     bool
	Dissector bool
}

func newCaptureCommand(g *global) *cobra.Command {
	o := &captureOptions{}
	cmd := &cobra.Command{
		Use:   "capture FOLDER... -o FILE",
		Short: "Write what a traced job has sent as packets for Wireshark",
		Long: `Writes the messages that a job has recorded with --trace as a capture file (pcapng) for
Wireshark and tshark: RoCEv2 for transport rdma, TCP for transport tcp, as a capture at
the NIC of each sender would have them, with acknowledgements and with what was sent
again after losses. The packets have headers only; a ledger holds no data of the job.

Each packet has a comment that says what it is for. With the dissector that --dissector
writes, the comment becomes fields to filter by:

  tshark -X lua_script:ddlemu.lua -r t.pcapng -Y 'ddlemu.coll == "AllReduce"'

` + exitHelp,
		Example: `  ddlemu capture t -o t.pcapng
  ddlemu capture --dissector -o ddlemu.lua`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !o.Dissector:
				return traceFolders(cmd, args)
			case len(args) > 0:
				return badInput("--dissector writes only the dissector: leave out the folders")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runCapture(g, o, args) },
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.Output, "output", "o", "", "write this `file`")
	fs.BoolVar(&o.Force, "force", false, "replace the file if it exists")
	fs.BoolVar(&o.Dissector, "dissector", false, "write Wireshark's dissector for the comments instead (Lua)")
	return cmd
}

func runCapture(g *global, o *captureOptions, dirs []string) error {
	if err := checkOutput(o.Output, o.Force); err != nil {
		return err
	}
	if o.Dissector {
		return writeOutput(o.Output, o.Force, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, capture.Dissector)
			return err
		})
	}
	t, fab, err := loadTraces(dirs)
	if err != nil {
		return err
	}
	played, err := replay.Play(fab, t)
	if err != nil {
		return err
	}
	r := &t.Ranks[0]
	var sum capture.Summary
	err = writeOutput(o.Output, o.Force, 0o600, func(w io.Writer) error {
		p := pcapng.NewWriter(w, "ddlemu "+version(), fmt.Sprintf("an emulated network, clock %s: packets made from the messages of a job", clockName(t)))
		sum, err = capture.Write(p, played, r.BegunRealtime-r.Begun/r.TimeScale)
		if err != nil {
			return err
		}
		return p.Close()
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s: %s of %s, %d sent again\n", o.Output, units.Count(sum.Packets, "packet"), units.Count(sum.Messages, "message"), sum.Repeated)
	notes := missing(t)
	if sum.Skipped > 0 {
		notes = append(notes, fmt.Sprintf("%s left out: their posts are not known", units.Count(sum.Skipped, "message")))
	}
	printBasis(g.Stdout, t, "", notes)
	return nil
}
