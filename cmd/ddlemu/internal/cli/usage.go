// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// firstFlags are those that most users give, in the order in which the help shows them. The other flags of a command
// follow in alphabetical order.
var firstFlags = []string{"profile", "file", "nodes", "ranks", "bw", "lat", "gpu", "clock", "set", "minbytes",
	"maxbytes", "stepfactor", "stepbytes", "iters", "torch-alias", "trace"}

// sharedFlags mean the same in every command that has them. The help of ddlemu describes them once.
var sharedFlags = []string{"fabric", "nccl", "soft-cuda", "json", "force", "quiet", "verbose", "dir", "owner", "help"}

// SharedHelp describes sharedFlags.
const SharedHelp = `SHARED FLAGS
============

  --fabric name   a fabric that is up (default: $DDLEMU_FABRIC; else the only one, or a new one)
  --nccl version  version (2.22 or 2.29) of NCCL for the software CUDA, or path of libnccl.so.2
  --soft-cuda     use the software CUDA even if there is a GPU
  --json          print JSON, errors included
  --force         replace files that exist
  --quiet         show no progress
  --verbose       print all reasons for INVALID, not only the worst three
  --dir folder    folder of the fabrics (default: $DDLEMU_DIR, else /dev/shm/ddlemu-UID)
  --owner user    user who owns the fabrics; for root (default: the user who called sudo)
  -h, --help      help for a command
`

// ShortUsage lets the help of the commands below cmd describe their own flags, and only name the shared ones.
func ShortUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.HasSubCommands() {
			ShortUsage(c)
			continue
		}
		c.SetUsageFunc(usage)
	}
}

// usage prints the usage of a command that has no commands below it.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	own, shared := divide(cmd)
	if own.HasFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsages())
	}
	fmt.Fprintf(&b, "\nShared flags, see `%s --help`: %s\n", cmd.Root().Name(), strings.Join(shared, ", "))
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

// divide returns the flags of cmd that its help describes, in order, and the names of the shared ones.
func divide(cmd *cobra.Command) (own *pflag.FlagSet, shared []string) {
	var all []*pflag.Flag // in alphabetical order
	add := func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case slices.Contains(sharedFlags, f.Name):
			shared = append(shared, "--"+f.Name)
		default:
			all = append(all, f)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	place := func(f *pflag.Flag) int {
		if i := slices.Index(firstFlags, f.Name); i >= 0 {
			return i
		}
		return len(firstFlags)
	}
	slices.SortStableFunc(all, func(a, b *pflag.Flag) int { return place(a) - place(b) })
	own = pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	for _, f := range all {
		own.AddFlag(f)
	}
	return own, shared
}
