// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/capture/extcap"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// extcapOptions are the flags of extcap. Wireshark gives all but the first two.
type extcapOptions struct {
	Install, Uninstall bool

	Interfaces, DLTs, Config, Capture bool

	Version, Interface, Fifo, Filter string
	ControlIn, ControlOut            string
	SnapLen                          int
}

// NewExtcapCommand is `ddlemu extcap`.
func NewExtcapCommand(g *cli.Global) *cobra.Command {
	o := &extcapOptions{}
	cmd := &cobra.Command{
		Use:   "extcap --install",
		Short: "Show the links of fabrics as interfaces in Wireshark",
		Long: `Make Wireshark and tshark show each link of the fabrics of the kernel datapath as an interface.
Its toolbar (View, Interface Toolbars) changes rate, latency and loss of the link. With --install,
write a script that calls ddlemu into your folder of extcap programs. Wireshark gives the other flags.

` + cli.ExitHelp + `
Page: docs/capture.md`,
		Example: `  ddlemu extcap --install
  tshark -D
  tshark -i ddlemu:lab:node0:node1`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runExtcap(cmd.Context(), g, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.Install, "install", false, "install ddlemu for your Wireshark")
	f.BoolVar(&o.Uninstall, "uninstall", false, "undo --install")
	f.BoolVar(&o.Interfaces, "extcap-interfaces", false, "list the interfaces")
	f.BoolVar(&o.DLTs, "extcap-dlts", false, "list the link types of an interface")
	f.BoolVar(&o.Config, "extcap-config", false, "list the options of an interface")
	f.BoolVar(&o.Capture, "capture", false, "capture to --fifo")
	f.StringVar(&o.Version, "extcap-version", "", "Wireshark's `version`")
	f.StringVar(&o.Interface, "extcap-interface", "", "the `interface`: ddlemu:FABRIC:LINK")
	f.StringVar(&o.Fifo, "fifo", "", "write packets to this `pipe`")
	f.StringVar(&o.Filter, "extcap-capture-filter", "", "capture `filter`: none is supported")
	f.StringVar(&o.ControlIn, "extcap-control-in", "", "read the toolbar's messages from this `pipe`")
	f.StringVar(&o.ControlOut, "extcap-control-out", "", "write messages to the toolbar to this `pipe`")
	f.IntVar(&o.SnapLen, "snaplen", defaultSnapLen, fmt.Sprintf("the first `N` bytes of each packet, at most %d",
		tap.MaxSnap))
	return cmd
}

func runExtcap(ctx context.Context, g *cli.Global, o *extcapOptions) error {
	switch {
	case o.Install && o.Uninstall:
		return cli.BadInput("both --install and --uninstall are given: give one of them")
	case o.Install:
		return installExtcap(ctx, g)
	case o.Uninstall:
		return uninstallExtcap(ctx, g)
	case o.Interfaces:
		return printInterfaces(g)
	case o.DLTs:
		fmt.Fprint(g.Stdout, extcap.Sentence("dlt", extcap.Field{Key: "number", Value: "1"},
			extcap.Field{Key: "name", Value: "EN10MB"}, extcap.Field{Key: "display", Value: "Ethernet"}))
		return nil
	case o.Config:
		fmt.Fprint(g.Stdout, extcap.Sentence("arg", extcap.Field{Key: "number", Value: "0"},
			extcap.Field{Key: "call", Value: "--snaplen"},
			extcap.Field{Key: "display", Value: "Bytes of each packet"}, extcap.Field{Key: "type", Value: "integer"},
			extcap.Field{Key: "range", Value: fmt.Sprintf("1,%d", tap.MaxSnap)},
			extcap.Field{Key: "default", Value: fmt.Sprint(defaultSnapLen)}))
		return nil
	case o.Capture:
		return extcapCapture(ctx, g, o)
	}
	return cli.BadInput("extcap: give --install, then choose a link in Wireshark; see `ddlemu extcap --help`")
}

// interfacePrefix begins the names of interfaces: ddlemu:FABRIC:LINK.
const interfacePrefix = "ddlemu:"

// parseInterface returns the fabric and the link of an interface.
func parseInterface(name string) (fab, link string, err error) {
	rest, ok := strings.CutPrefix(name, interfacePrefix)
	fab, link, found := strings.Cut(rest, ":")
	if !ok || !found || fab == "" || link == "" {
		return "", "", cli.BadInput(
			"--extcap-interface: %q is not one of ddlemu's: `ddlemu extcap --extcap-interfaces` lists them", name)
	}
	return fab, link, nil
}

// printInterfaces prints the interfaces and the toolbar. Fabrics that cannot be read are left out: Wireshark calls this
// at each start.
func printInterfaces(g *cli.Global) error {
	fmt.Fprint(g.Stdout, extcap.Sentence("extcap", extcap.Field{Key: "version", Value: cli.Version()},
		extcap.Field{Key: "display", Value: "Links of emulated fabrics (ddlemu)"}))
	dir, err := g.OpenDir(false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer dir.Close()
		names, err := dir.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			printLinks(g, dir, name)
		}
	}
	for i, c := range controls {
		fmt.Fprint(g.Stdout, extcap.Sentence("control", extcap.Field{Key: "number", Value: fmt.Sprint(i)},
			extcap.Field{Key: "type", Value: c.kind},
			extcap.Field{Key: "display", Value: c.display}, extcap.Field{Key: "tooltip", Value: c.tooltip}))
	}
	return nil
}

// printLinks prints the interfaces of a fabric of the kernel datapath.
func printLinks(g *cli.Global, dir *state.Dir, name string) {
	file, err := g.OpenIn(dir, name)
	if err != nil {
		return
	}
	defer file.Close()
	fab, err := fabricfile.Read(file)
	if err != nil || !fab.Config.OnKernel() || !file.Served() {
		return
	}
	for i, h := range fab.Hops {
		if h.Kind == link.Link {
			from, to := fab.EndNames(h.Kind, h.Src, h.Dst)
			fmt.Fprint(g.Stdout,
				extcap.Sentence("interface",
					extcap.Field{Key: "value", Value: interfacePrefix + name + ":" + fab.HopName(i)},
					extcap.Field{Key: "display", Value: fmt.Sprintf("Link from %s to %s, fabric %s", from, to, name)}))
		}
	}
}

// extcapCapture captures the packets of an interface for Wireshark.
func extcapCapture(ctx context.Context, g *cli.Global, o *extcapOptions) error {
	name, link, err := parseInterface(o.Interface)
	if err != nil {
		return err
	}
	switch {
	case o.Fifo == "":
		return cli.BadInput("--capture needs --fifo: Wireshark gives it")
	case o.Filter != "":
		return cli.BadInput("capture filter %q: links of ddlemu have none: clear it, and use a display filter",
			o.Filter)
	}
	from, to, _ := strings.Cut(link, ":")
	g.Fabric = name
	want := liveOptions{Link: from + ">" + to, SnapLen: o.SnapLen}
	if err := want.check(); err != nil {
		return err
	}
	c, err := openLive(g, want)
	if err != nil {
		return err
	}
	defer c.Close()
	fifo, err := os.OpenFile(o.Fifo, os.O_WRONLY, 0)
	if err != nil {
		return cli.BadInput("--fifo: %w", err)
	}
	defer fifo.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		waitForReader(fifo)
	}()
	if o.ControlIn != "" && o.ControlOut != "" {
		t, err := openToolbar(ctx, g, c, o.ControlIn, o.ControlOut)
		if err != nil {
			return err
		}
		defer t.close()
	}
	if _, err = c.write(ctx, fifo); errors.Is(err, syscall.EPIPE) {
		return nil // Wireshark has ended the capture
	}
	return errors.Join(err, c.whyCut())
}

// waitForReader returns when nobody reads from the pipe any more. Without that, a capture without packets would not
// end.
func waitForReader(fifo *os.File) {
	raw, err := fifo.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}
