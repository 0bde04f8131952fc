// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// make's -ldflags set release to what `git describe` says, and revision to the commit.
var release, revision string

// versionJSON is what version prints with --json.
type versionJSON struct {
	Version string   `json:"version"`
	Commit  string   `json:"commit,omitempty"` // empty if the program was not built in a git repository
	NetAPI  string   `json:"net_api"`
	NCCL    string   `json:"nccl"`      // versions whose schedules the model knows
	Soft    []string `json:"soft_cuda"` // release lines of NCCL for the software CUDA that are installed
	Go      string   `json:"go"`
}

// netAPI are the versions of NCCL's net API that the plugin has (nccl-plugin/vtable.c).
const netAPI = "v6 to v12"

// NewVersionCommand is `ddlemu version`.
func NewVersionCommand(g *Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: Long("docs/install.md", `
Print the version: the tag, such as v0.1.0. A build of a later commit adds the number of commits
since the tag and the commit, as v0.1.0-12-g0123456789ab, and a build of changed files -dirty.
Also print the versions of NCCL that it works with, and which of them the software CUDA has here.`),
		Example: `  ddlemu version
  ddlemu version --json`,
		Args: NoArgs,
		RunE: func(*cobra.Command, []string) error { return runVersion(g) },
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

func runVersion(g *Global) error {
	layout, err := locate.Find()
	if err != nil {
		return err
	}
	soft := append([]string{}, layout.SoftVersions()...) // a list in JSON, also without any
	v := versionJSON{Version(), commit(), netAPI, plan.Versions, soft, runtime.Version()}
	if g.JSON {
		return g.PrintJSON(v)
	}
	fmt.Fprintln(g.Stdout, "ddlemu", v.Version)
	w := tabwriter.NewWriter(g.Stdout, 0, 0, 2, ' ', 0)
	if v.Commit != "" {
		fmt.Fprintf(w, "commit:\t%s\n", v.Commit)
	}
	fmt.Fprintf(w, "NCCL net API:\t%s\n", v.NetAPI)
	fmt.Fprintf(w, "expected times:\tNCCL %s\n", v.NCCL)
	fmt.Fprintf(w, "software CUDA:\t%s\n", softText(v.Soft))
	fmt.Fprintf(w, "built with:\t%s\n", v.Go)
	return w.Flush()
}

// softText says which release lines of NCCL the software CUDA has.
func softText(versions []string) string {
	if len(versions) == 0 {
		return "none: the package ddlemu-softcuda has it (docs/install.md)"
	}
	return "NCCL " + strings.Join(versions, " and ")
}

// commit is what make has set, else the commit that Go recorded.
func commit() string {
	if revision != "" {
		return revision
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}

// Version is what make has set, else the module's version that `go install` or
// `go build` recorded; (devel) without either.
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
