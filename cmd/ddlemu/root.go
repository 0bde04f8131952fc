// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/runcmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/schedulecmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/workloadcmd"
)

func newRootCommand(g *cli.Global) *cobra.Command {
	root := &cobra.Command{
		Use:   "ddlemu",
		Short: "Run NCCL on a network that you do not have",
		Long: `ddlemu makes one machine behave like a cluster. NCCL loads its net plugin
libgoemu.so, and every byte between two emulated nodes crosses an emulated link
with the bandwidth, latency, jitter and loss of a fabric. Each run ends with a
verdict: whether this host really kept to these figures.

Bandwidths are bits per second (100Gbps, 25Gbit; 12.5GB/s for bytes), latencies are Go
durations (5us, 1.2ms), and sizes are as in nccl-tests (8, 64K, 1G).

Exit status: 0; 1 on failure; 2 for bad input, no such fabric or something that this host lacks;
3 if the verdict is INVALID (bench, run, record and replay: with --strict), or no rank of run took
part; 4 if a time is longer than in --baseline; 130 if interrupted. run, record and exec end with
the status of their program.
Pages: docs/README.md lists them by what you want to do.

` + cli.SharedHelp,
		Example: `  # what NCCL would do on 400 Gb/s InfiniBand
  ddlemu bench allreduce --profile ndr400 --ranks 2

  # a fabric for any job that loads the plugin
  ddlemu up --profile eth10 --nodes 2
  NCCL_NET_PLUGIN=libgoemu.so torchrun --nproc-per-node 2 train.py
  ddlemu shape --bw 1Gbps --lat 1ms
  ddlemu down`,
		Version:       cli.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return firstSteps(cmd.OutOrStdout()) },
	}
	root.SetVersionTemplate("ddlemu {{.Version}}\n")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetIn(g.Stdin)
	root.SetOut(g.Stdout)
	root.SetErr(g.Stderr)
	fs := root.PersistentFlags()
	fs.StringVar(&g.Dir, "dir", "", "`folder` of the fabrics (default: $"+cli.DirEnv+", else /dev/shm/ddlemu-UID)")
	fs.StringVar(&g.Owner, "owner", "",
		"`user` who owns the fabrics; only for root (default: under sudo, the user who called it)")
	addCommands(root, g)
	cli.OnceOnly(root)
	cli.AcceptOtherLetter(root)
	cli.CompleteFlags(root)
	cli.ShortUsage(root)
	return root
}

// firstSteps is what ddlemu alone prints: a command for each way in.
func firstSteps(out io.Writer) error {
	_, err := io.WriteString(out, `ddlemu makes one machine behave like a cluster for NCCL.
  run a job:      ddlemu run --profile eth10 --nodes 2 -- torchrun --nproc-per-node 2 train.py
  measure:        ddlemu bench allreduce --profile ndr400 --ranks 2
  only a number:  ddlemu expect allreduce --profile ndr400 --ranks 2
All commands: ddlemu --help. All fabrics: ddlemu profiles.
`)
	return err
}

// groups are the parts of the list of commands, in the order of a user's work.
func groups(g *cli.Global) []struct {
	title    string
	commands []*cobra.Command
} {
	return []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a job", []*cobra.Command{
			runcmd.NewRunCommand(g),
			fabriccmd.NewExecCommand(g),
			fabriccmd.NewSSHCommand(g),
			fabriccmd.NewHostfileCommand(g),
			runcmd.NewRecordCommand(g),
			runcmd.NewReplayCommand(g),
		}},
		{"Measure and calculate", []*cobra.Command{
			runcmd.NewBenchCommand(g),
			runcmd.NewJoinCommand(g),
			runcmd.NewExpectCommand(g),
			runcmd.NewVerifyCommand(g),
			runcmd.NewValidateCommand(g),
			runcmd.NewFitCommand(g),
			schedulecmd.NewScheduleCommand(g),
			fabriccmd.NewDoctorCommand(g),
		}},
		{"Look at a job that was recorded", []*cobra.Command{
			tracecmd.NewWhyCommand(g),
			tracecmd.NewWhatIfCommand(g),
			tracecmd.NewDiffCommand(g),
			tracecmd.NewReportCommand(g),
			tracecmd.NewMessagesCommand(g),
			tracecmd.NewTraceCommand(g),
			tracecmd.NewCaptureCommand(g),
			tracecmd.NewPendingCommand(g),
		}},
		{"Fabrics", []*cobra.Command{
			fabriccmd.NewProfilesCommand(g),
			fabriccmd.NewGPUsCommand(g),
			fabriccmd.NewFabricCommand(g),
			fabriccmd.NewUpCommand(g),
			fabriccmd.NewShapeCommand(g),
			fabriccmd.NewStatusCommand(g),
			fabriccmd.NewTopCommand(g),
			fabriccmd.NewServeCommand(g),
			fabriccmd.NewMetricsCommand(g),
			fabriccmd.NewDownCommand(g),
			fabriccmd.NewGCCommand(g),
		}},
		{"Files", []*cobra.Command{workloadcmd.NewWorkloadCommand(g)}},
	}
}

// otherNames are the names that other tools have for a command.
var otherNames = map[string][]string{
	"status": {"ps", "ls", "list", "info"}, "down": {"stop", "rm", "delete", "destroy"}, "up": {"start", "create"},
	"shape": {"tc", "set", "change"}, "bench": {"test", "perf", "nccl-tests"}, "exec": {"enter"},
	"capture": {"tcpdump", "pcap"}, "expect": {"predict", "model"}, "profiles": {"systems", "presets"},
}

// removed are the commands of earlier versions, with what to use instead.
var removed = map[string]string{
	"dev":    "give an interface of the host its rate and latency with tc (`tc qdisc add dev eth0 root netem ...`)",
	"extcap": "look at packets as they come with `ddlemu capture -w - | wireshark -k -i -`",
}

// addCommands adds all commands to root, in their groups.
func addCommands(root *cobra.Command, g *cli.Global) {
	cobra.EnableCommandSorting = false
	for _, group := range groups(g) {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, c := range group.commands {
			c.GroupID = group.title
			c.SuggestFor = otherNames[c.Name()]
			root.AddCommand(c)
		}
	}
	for name, instead := range removed {
		root.AddCommand(&cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return cli.BadInput("%s was removed: %s", name, instead) }})
	}
	root.AddCommand(fabriccmd.NewDaemonCommand(g), newGuardCommand(g), cli.NewVersionCommand(g), newManCommand())
}
