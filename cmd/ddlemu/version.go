// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by make's -ldflags to what `git describe` says.
var release string

// versionJSON is what version prints with --json.
type versionJSON struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func newVersionCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version: the tag, as v0.1.0. A build of a later commit also names the
number of commits since the tag and the commit, as v0.1.0-12-g0123456789ab. A build
of changed files ends in -dirty. Without a tag, it is the commit.

` + exitHelp,
		Example: `  ddlemu version
  ddlemu version --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runVersion(g) },
	}
	g.addJSONFlag(cmd.Flags())
	return cmd
}

func runVersion(g *global) error {
	if g.JSON {
		return g.printJSON(versionJSON{version(), runtime.Version()})
	}
	fmt.Fprintln(g.Stdout, "ddlemu", version())
	return nil
}

// version is what make has set, else the module's version that `go install` or
// `go build` recorded; (devel) without either.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
