// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
)

// completions are the values of flags that a shell completes, by the flag's name. Flags of one name mean the same
// everywhere.
var completions = map[string]func() []string{
	"profile": configs.AllProfileNames,
	"gpu":     configs.GPUNames,
	"nccl":    func() []string { return locate.SoftVersions },
	"clock":   func() []string { return []string{"virtual", "real"} },
	"set":     configs.Keys,
}

// CompleteFlags lets shells complete the values of flags of cmd and of all commands below it.
func CompleteFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := completions[f.Name]
		if _, set := cmd.GetFlagCompletionFunc(f.Name); values == nil || set {
			return
		}
		// The error is that a flag does not exist or has a function already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name,
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				if f.Name == configs.SetFlag { // a "=" and the value follow
					return values(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
				}
				return values(), cobra.ShellCompDirectiveNoFileComp
			})
	})
	for _, c := range cmd.Commands() {
		CompleteFlags(c)
	}
}
