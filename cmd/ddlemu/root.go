// SPDX-License-Identifier: Apache-2.0

package main

import (
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

` + cli.ExitHelp,
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
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
	root.AddCommand(commands(g)...)
	cli.OnceOnly(root)
	cli.AcceptOtherLetter(root)
	return root
}

// commands are all commands, in the order of a user's work.
func commands(g *cli.Global) []*cobra.Command {
	return []*cobra.Command{
		fabriccmd.NewProfilesCommand(g),
		fabriccmd.NewGPUsCommand(g),
		fabriccmd.NewUpCommand(g),
		fabriccmd.NewDownCommand(g),
		fabriccmd.NewShapeCommand(g),
		fabriccmd.NewFabricCommand(g),
		fabriccmd.NewStatusCommand(g),
		fabriccmd.NewTopCommand(g),
		fabriccmd.NewGCCommand(g),
		fabriccmd.NewDoctorCommand(g),
		runcmd.NewRunCommand(g),
		runcmd.NewBenchCommand(g),
		runcmd.NewRecordCommand(g),
		runcmd.NewReplayCommand(g),
		runcmd.NewExpectCommand(g),
		workloadcmd.NewWorkloadCommand(g),
		runcmd.NewValidateCommand(g),
		runcmd.NewFitCommand(g),
		runcmd.NewVerifyCommand(g),
		schedulecmd.NewScheduleCommand(g),
		tracecmd.NewMessagesCommand(g),
		tracecmd.NewWhyCommand(g),
		tracecmd.NewDiffCommand(g),
		tracecmd.NewWhatIfCommand(g),
		tracecmd.NewPendingCommand(g),
		tracecmd.NewTraceCommand(g),
		tracecmd.NewCaptureCommand(g),
		tracecmd.NewExtcapCommand(g),
		tracecmd.NewReportCommand(g),
		fabriccmd.NewServeCommand(g),
		fabriccmd.NewMetricsCommand(g),
		fabriccmd.NewExecCommand(g),
		fabriccmd.NewSSHCommand(g),
		fabriccmd.NewHostfileCommand(g),
		fabriccmd.NewDevCommand(g),
		fabriccmd.NewDaemonCommand(g),
		newGuardCommand(g),
		cli.NewVersionCommand(g),
		newManCommand(),
	}
}
