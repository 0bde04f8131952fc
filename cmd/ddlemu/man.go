// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the man pages and the completion files, for packages",
		Hidden: true, // `make install` runs it
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual writes a man page per command to folder/man/man1, and the completion files to the folders below share
// that bash, zsh and fish read.
func writeManual(root *cobra.Command, folder string) error {
	root.DisableAutoGenTag = true // no date: the same version gives the same pages
	man := filepath.Join(folder, "man", "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return fmt.Errorf("make the folder of the man pages: %w", err)
	}
	header := &doc.GenManHeader{Section: "1", Source: "ddlemu " + cli.Version(), Manual: "ddlemu"}
	if err := doc.GenManTree(root, header, man); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	for path, write := range map[string]func(string) error{
		"bash-completion/completions/ddlemu": func(path string) error {
			return root.GenBashCompletionFileV2(path,
				true)
		},
		"zsh/site-functions/_ddlemu": root.GenZshCompletionFile,
		"fish/vendor_completions.d/ddlemu.fish": func(path string) error {
			return root.GenFishCompletionFile(path,
				true)
		},
	} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the folder of a completion file: %w", err)
		}
		if err := write(path); err != nil {
			return fmt.Errorf("write completion file %s: %w", path, err)
		}
	}
	return nil
}
