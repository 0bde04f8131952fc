// SPDX-License-Identifier: Apache-2.0

// Package debian downloads a package from Debian's archive with this machine's apt and installs nothing: lists and
// caches are in separate folders, the mirror is the one that the machine uses, and apt checks the signatures.
package debian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// keyring has the keys of Debian's archive. If it is missing, apt uses its trusted keys.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// ErrUntrusted means that the signature of a suite could not be verified.
var ErrUntrusted = errors.New(
	"the suite's signature cannot be verified with this machine's keys: install a newer debian-archive-keyring")

// Archive is one suite of a mirror.
type Archive struct {
	Package   string // such as libnccl-dev
	Suite     string // such as trixie
	Component string // such as contrib
	Mirror    string // URL
	Dir       string // absolute path of a folder for apt's lists, caches and configuration; created if missing
}

func (a Archive) config() string { return filepath.Join(a.Dir, "apt.conf") }

// prepare writes apt's configuration. It disables the commands that the machine runs after an update, because they
// change the system's cache. It makes apt fetch as root, because apt's default user may have no access to the folder.
func (a Archive) prepare() error {
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "none"} {
		if err := os.MkdirAll(filepath.Join(a.Dir, dir), 0o755); err != nil {
			return fmt.Errorf("prepare apt's folders: %w", err)
		}
	}
	sources := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nTargets: Packages\n", a.Mirror, a.Suite,
		a.Component)
	if _, err := os.Stat(keyring); err == nil {
		sources += "Signed-By: " + keyring + "\n"
	}
	conf := "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
	for _, kv := range [][2]string{
		{"Dir::State::lists", "lists"}, {"Dir::State::status", "status"}, {"Dir::Cache", "cache"},
		{"Dir::Etc::sourcelist", "suite.sources"}, {"Dir::Etc::sourceparts", "none"},
		{"Dir::Etc::preferences", "none/preferences"}, {"Dir::Etc::preferencesparts", "none"},
	} {
		conf += fmt.Sprintf("%s %q;\n", kv[0], filepath.Join(a.Dir, kv[1]))
	}
	conf += "APT::Update::Error-Mode \"any\";\nAPT::Sandbox::User \"root\";\n"
	for name, text := range map[string]string{"suite.sources": sources, "apt.conf": conf, "status": ""} {
		if err := os.WriteFile(filepath.Join(a.Dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("prepare apt's configuration: %w", err)
		}
	}
	return nil
}

// Versions fetches the suite's index and returns the versions of the package in it, newest first.
func (a Archive) Versions(ctx context.Context) ([]string, error) {
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "apt-get", "-c", a.config(), "-q", "update").CombinedOutput(); err != nil {
		return nil, describe("fetch the index of "+a.Suite, out, err)
	}
	out, err := exec.CommandContext(ctx, "apt-cache", "-c", a.config(), "madison", a.Package).CombinedOutput()
	if err != nil {
		return nil, describe("search "+a.Suite, out, err)
	}
	return versionsFrom(string(out), a.Package), nil
}

// Depends returns the packages that the newest version of the package depends on. Call Versions before.
func (a Archive) Depends(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "-c", a.config(), "depends", a.Package).CombinedOutput()
	if err != nil {
		return nil, describe("search "+a.Suite, out, err)
	}
	return dependsFrom(string(out)), nil
}

// dependsFrom parses the output of apt-cache depends: "  Depends: PACKAGE" lines among others.
func dependsFrom(text string) []string {
	var names []string
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "Depends: "); ok {
			names = append(names, name)
		}
	}
	return names
}

// versionsFrom parses the output of apt-cache madison: "PACKAGE | VERSION | SOURCE" lines.
func versionsFrom(madison, pkg string) []string {
	var out []string
	lines := bufio.NewScanner(strings.NewReader(madison))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "|")
		if len(fields) >= 3 && strings.TrimSpace(fields[0]) == pkg {
			out = append(out, strings.TrimSpace(fields[1]))
		}
	}
	return out
}

// Download fetches one version into dir and returns the file. apt verifies it. progress receives the percentage. Call
// Versions before.
func (a Archive) Download(ctx context.Context, version string, dir string, progress func(percent float64)) (string,
	error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", a.Package, err)
	}
	defer read.Close()
	cmd := exec.CommandContext(ctx, "apt-get", "-c", a.config(), "-q", "-o", "APT::Status-Fd=3", "download",
		fmt.Sprintf("%s=%s", a.Package, version))
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{write}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		write.Close()
		return "", fmt.Errorf("download %s: %w", a.Package, err)
	}
	write.Close()
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if percent, ok := percentFrom(lines.Text()); ok {
			progress(percent)
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", describe(fmt.Sprintf("download %s %s", a.Package, version), []byte(output.String()), err)
	}
	found, err := filepath.Glob(filepath.Join(dir, a.Package+"_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("download %s %s: apt downloaded %d files, want 1", a.Package, version, len(found))
	}
	return found[0], nil
}

// percentFrom parses apt's progress lines, "dlstatus:COUNT:PERCENT:TEXT".
func percentFrom(line string) (float64, bool) {
	fields := strings.SplitN(line, ":", 4)
	if len(fields) < 4 || fields[0] != "dlstatus" {
		return 0, false
	}
	percent, err := strconv.ParseFloat(fields[2], 64)
	return percent, err == nil && percent >= 0 && percent <= 100
}

// describe returns an error of one line from a command's output and exit status.
func describe(what string, output []byte, err error) error {
	text := string(output)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && text == "" {
		text = string(exit.Stderr)
	}
	if strings.Contains(text, "NO_PUBKEY") || strings.Contains(text, "is not signed") ||
		strings.Contains(text, "EXPKEYSIG") {
		return fmt.Errorf("%s: %w", what, ErrUntrusted)
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "E: ") {
			return fmt.Errorf("%s: %s", what, strings.TrimPrefix(line, "E: "))
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
