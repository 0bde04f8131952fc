// SPDX-License-Identifier: Apache-2.0

package bigfiles

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ddlemu/ddlemu/configs/units"
)

const ddlemu = "../../build/bin/ddlemu"

// maxMemory is the maximum resident memory of convert in bytes.
const maxMemory = 500e6

// size is that of the files, DDLEMU_TEST_BIG such as 1G, else small.
func size(t *testing.T) int64 {
	text := os.Getenv("DDLEMU_TEST_BIG")
	if text == "" {
		text = "1M"
	}
	n, err := units.ParseSize(text)
	if err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

// Files of any size are read in bounded memory, from a file and from standard input. What has more operations than a
// workload may have is refused in one line.
func TestBoundedMemory(t *testing.T) {
	if _, err := os.Stat(ddlemu); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	for _, format := range Formats() {
		t.Run(format, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "big."+format)
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := Make(format, file, size(t)); err != nil {
				t.Fatal(err)
			}
			file.Close()
			flags := []string{"--ranks", "8"}
			if format == "nccllog" {
				flags = nil // the log says how many ranks there are
			}
			convert(t, path, "", flags...)
			convert(t, "-", path, flags...)
		})
	}
}

// convert runs the command, with a pipe of a file as standard input if one is given.
func convert(t *testing.T, path, stdin string, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), ddlemu,
		append([]string{"workload", "convert", path, "-o", filepath.Join(t.TempDir(), "out"), "--force"}, flags...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if stdin != "" {
		in, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		cmd.Stdin = struct{ *os.File }{in} // copied to a pipe: it is no *os.File
	}
	err := cmd.Run()
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	memory, text := usage.Maxrss<<10, strings.TrimSpace(out.String())
	t.Logf("%s: %d MB, %v: %s", path, memory/1e6, cmd.ProcessState.UserTime(), strings.Split(text, "\n")[0])
	if memory > maxMemory {
		t.Errorf("%d bytes of memory, want at most %d", memory, int64(maxMemory))
	}
	tooMany := strings.Contains(text, ": --max-ops N reads more")
	if err != nil && (!tooMany || strings.Count(text, "ddlemu: ") != 1+strings.Count(text, "so far")) {
		t.Errorf("%v: %s", err, text)
	}
}
