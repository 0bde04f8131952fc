// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

const (
	extcapScript = "ddlemu" // name of the script in Wireshark's folder
	extcapMark   = "# Written by `ddlemu extcap --install`."
)

// extcapFolders are the folders in which Wireshark looks for a user's extcap programs: since 4.2, and before.
func extcapFolders(getenv func(string) string) (since42, before string, err error) {
	home := getenv("HOME")
	if home == "" {
		return "", "", cli.BadInput("HOME is not set: it has the folder of Wireshark's extcap programs")
	}
	config := cmp.Or(getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	return filepath.Join(home, ".local", "lib", "wireshark", "extcap"), filepath.Join(config, "wireshark", "extcap"),
		nil
}

// extcapFolder is the one of the installed Wireshark. Since 4.2, it says that it has a personal one.
func extcapFolder(ctx context.Context, getenv func(string) string) (string, error) {
	since42, before, err := extcapFolders(getenv)
	if err != nil {
		return "", err
	}
	for _, program := range []string{"tshark", "wireshark"} {
		out, err := exec.CommandContext(ctx, program, "-G", "folders").Output()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(out)) {
			if path, ok := strings.CutPrefix(line, "Personal Extcap path:"); ok {
				return strings.TrimSpace(path), nil
			}
		}
		return before, nil
	}
	return since42, nil
}

// installExtcap writes the script.
func installExtcap(ctx context.Context, g *cli.Global) error {
	folder, err := extcapFolder(ctx, g.Getenv)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the ddlemu command: %w", err)
	}
	path := filepath.Join(folder, extcapScript)
	if err := checkExtcapScript(path); err != nil {
		return err
	}
	command := cli.Quote(self)
	dir := cmp.Or(g.Dir, g.Getenv(cli.DirEnv))
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return cli.BadInput("--dir: %w", err)
		}
		command += " --dir " + cli.Quote(dir)
	}
	if g.Owner != "" {
		command += " --owner " + cli.Quote(g.Owner)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return cli.BadInput("%w", err)
	}
	text := fmt.Sprintf("#!/bin/sh\n%s\nexec %s extcap \"$@\"\n", extcapMark, command)
	// Wireshark may be starting, so the script is whole or not there.
	if err := os.WriteFile(path+".new", []byte(text), 0o755); err != nil {
		return cli.BadInput("%w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return cli.BadInput("%w", err)
	}
	fmt.Fprintf(g.Stdout, "installed %s: start Wireshark again, or `tshark -D`\n", path)
	return nil
}

// checkExtcapScript refuses to touch a file that ddlemu did not write. The error wraps os.ErrNotExist if there is none
// and the caller needs one.
func checkExtcapScript(path string) error {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return cli.BadInput("%w", err)
	case !strings.Contains(string(text), extcapMark):
		return cli.BadInput("%s was not written by ddlemu: move it away", path)
	}
	return nil
}

// uninstallExtcap removes the script from all folders in which --install may have put it.
func uninstallExtcap(ctx context.Context, g *cli.Global) error {
	folder, err := extcapFolder(ctx, g.Getenv)
	if err != nil {
		return err
	}
	since42, before, err := extcapFolders(g.Getenv)
	if err != nil {
		return err
	}
	removed := false
	for _, f := range []string{folder, since42, before} {
		path := filepath.Join(f, extcapScript)
		if err := checkExtcapScript(path); err != nil {
			return err
		}
		switch err := os.Remove(path); {
		case err == nil:
			removed = true
			fmt.Fprintf(g.Stdout, "removed %s\n", path)
		case !errors.Is(err, os.ErrNotExist):
			return cli.BadInput("%w", err)
		}
	}
	if !removed {
		fmt.Fprintf(g.Stdout, "nothing was installed in %s\n", folder)
	}
	return nil
}
