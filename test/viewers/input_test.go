// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/test/needs"
)

// Bad input is one line, with the next step, and leaves no file behind.
func TestBadInput(t *testing.T) {
	dir := record(t, "allreduce", "--profile", "ndr400", "--ranks", "2", "-b", "64K", "-e", "64K", "-n", "1")
	work := t.TempDir()
	in := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	there := in("there", "mine")
	out := filepath.Join(work, "out")
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"give --force", []string{"trace", dir, "-o", there}},
		{"give --output", []string{"trace", dir}},
		{"is a folder", []string{"trace", dir, "-o", work}},
		{"no such file", []string{"trace", dir, "-o", filepath.Join(work, "no", "where")}},
		{"virtual time", []string{"trace", dir, "-o", out, "--with", there}},
		{"no ledger", []string{"trace", work, "-o", out}},
		{"give --force", []string{"capture", dir, "-o", there}},
		{"name the file", []string{"capture", dir}},
		{"no fabric is up", []string{"capture", "-o", out}},
		{"--dissector and FOLDER: ", []string{"capture", dir, "--dissector", "-o", out}},
		{"no ledger", []string{"capture", work, "-o", out}},
		{"the fabric has node 0 to 1", []string{"capture", dir, "-o", out, "--link", "node0:node7"}},
		{"name links as node0:node1", []string{"capture", dir, "-o", out, "--link", "leaf0>spine1"}},
		{"fabric.yaml` shows the links", []string{"capture", dir, "-o", out, "--link", "node0:node7"}},
		{"--dissector and --link: ", []string{"capture", "--dissector", "-o", out, "--link", "node0:node1"}},
		{"give --force", []string{"report", dir, "-o", there}},
		{"give --json or --output", []string{"report", dir}},
		{"takes the folders", []string{"report", "-o", out}},
		{"--json and --output exclude each other", []string{"report", dir, "--json", "-o", out}},
		{"no ledger", []string{"report", work, "-o", out}},
		{"no regular file", []string{"trace", dir, "-o", "/dev/null", "--force"}},
	} {
		got, err := try(t, tc.args...)
		if err == nil || !strings.Contains(got, tc.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %v: %s, want %q", tc.args, err, got, tc.want)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	left, err := os.ReadDir(work)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A full disk is said, and leaves nothing behind.
func TestFullDisk(t *testing.T) {
	needs.Root(t, "a mount of a small disk")
	dir := record(t, "allreduce", "--profile", "ndr400", "--ranks", "2", "-b", "64K", "-e", "64K", "-n", "1")
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(disk, 0) }()
	for _, args := range [][]string{{"trace"}, {"capture"}, {"report"}} {
		got, err := try(t, append(args, dir, "-o", filepath.Join(disk, "x"))...)
		if err == nil || !strings.Contains(got, "no space left on device") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %v: %s", args, err, got)
		}
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is no trace of PyTorch's is refused before anything is written.
func TestBadTraceOfPyTorch(t *testing.T) {
	dir := record(t, "allreduce", "--profile", "eth10", "--clock", "real", "--set", "time_scale=16", "--ranks", "2", "-b",
		"4K", "-e", "4K", "-n", "1")
	work := t.TempDir()
	for _, tc := range []struct{ name, text, want string }{
		{"empty.json", "", "unexpected EOF"},
		{"cut.json", `{"traceEvents": [{"ph": "X", "ts": 1}`, "unexpected EOF"},
		{"list.json", `[1]`, "without Kineto"},
		{"other.json", `{"a": {"b": [1, 2]}}`, "no trace of PyTorch"},
		{"none.json", `{"traceEvents": []}`, "no trace of PyTorch"},
		{"text.json", "hello", "invalid character"},
		{"packed.json.gz", "no gzip", "unpack"},
	} {
		path := filepath.Join(work, tc.name)
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "x.zip")
		got, err := try(t, "trace", dir, "-o", out, "--with", path)
		if err == nil || !strings.Contains(got, tc.want) || !strings.Contains(got, tc.name) ||
			strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %v: %s, want %q", tc.name, err, got, tc.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a file was written", tc.name)
		}
	}
}
