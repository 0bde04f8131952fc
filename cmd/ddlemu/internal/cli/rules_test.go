// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// A command line that breaks a rule gets one line with the cause and the next step; others run.
func TestRules(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "nothing to do: give FOLDER or --all",
		"t":                       "",
		"t --all":                 "FOLDER and --all exclude each other: leave out one of them",
		"t --all=false":           "",
		"--all --link x":          "",
		"--all --link x --node 1": "--link and --node: one says where: leave out one of them",
		"t --steps 0":             "--steps 0: must be at least 1",
		"t --time 1ms":            "--time 1ms: must be 1s to 1m0s",
		"t --time 2m":             "--time 2m0s: must be 1s to 1m0s",
		"t --time 1m":             "",
		"t --via tcp":             "--via tcp: must be net or p2p",
		"t --nccl 2.29":           "--nccl: with --via net no NCCL is used: give --via p2p",
		"t --nccl 2.29 --via p2p": "",
		"t --force":               "--force is for --plot: give both, or leave it out",
		"t --plot .":              "--plot .: it is a folder: name a file",
		"t --plot none.svg":       "",
		"t --plot=":               "",
		"t --fabric a":            "",
		"t --fabric a --fabric b --plot none.svg": "--plot and a second --fabric exclude each other: leave out one of them",
		"--all --node 1": "without --link: a node has links: give --steps",
	} {
		cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true,
			RunE: func(*cobra.Command, []string) error { return nil }}
		fs := cmd.Flags()
		for _, name := range []string{"all", "force"} {
			fs.Bool(name, false, "")
		}
		for name, value := range map[string]string{"link": "", "plot": "", "nccl": "", "via": "net"} {
			fs.String(name, value, "")
		}
		fs.Int("steps", 0, "")
		fs.Int("node", 0, "")
		fs.Duration("time", 0, "")
		fs.StringArray("fabric", nil, "")
		rules := []Rule{Required("FOLDER all", "nothing to do"), AtMostOne("FOLDER all", ""),
			Excludes("link", "node", "one says where"), Least("steps", 1), Range("time", time.Second, time.Minute),
			Among("via", "net", "p2p"), Needs("nccl", "via=p2p", "with --via net no NCCL is used"),
			Needs("force", "plot", ""), Excludes("plot", "fabric+", ""), NewFiles("plot")}
		if strings.HasSuffix(line, "--all --node 1") {
			rules = append(rules, Needs("!link", "steps", "a node has links"))
		}
		Ruled(cmd, rules...).SetArgs(strings.Fields(line))
		switch err := cmd.Execute(); {
		case err == nil && want != "", err != nil && err.Error() != want:
			t.Errorf("%q: %v, want %s", line, err, want)
		case err != nil && ExitStatus(err) != ExitInput:
			t.Errorf("%q: exit status %d", line, ExitStatus(err))
		}
	}
}

// A rule for a flag that the command does not have is a mistake that is found when the command is made.
func TestRuleForNoFlag(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a rule names a flag that does not exist")
		}
	}()
	cmd := &cobra.Command{Use: "x"}
	cmd.Flags().Bool("all", false, "")
	Ruled(cmd, Excludes("all", "FOLDER !lnik", ""))
}
