// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The page of a job whose links were changed while it ran shows the rates before and after, and when that was.
func TestReportAfterChange(t *testing.T) {
	w := newUser(t)
	w.Run("up", "--profile", "eth10", "--nodes", "2")
	dir, file := filepath.Join(t.TempDir(), "t"), filepath.Join(t.TempDir(), "x.html")
	job := w.Command(t.Context(), "bench", "allreduce", "--fabric", "eth10", "--ranks", "2", "-b", "4M", "-e", "4M",
		"-n", "200", "--trace", dir)
	said := &strings.Builder{}
	job.Stderr = said
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	w.awaitBytes("eth10", 50e6)
	w.Run("shape", "--fabric", "eth10", "--bw", "5Gbps")
	if err := job.Wait(); job.ProcessState.ExitCode() != 0 && job.ProcessState.ExitCode() != 3 { // 3: the host was late
		t.Fatalf("the job ended with %v: %s", err, said)
	}
	w.Run("report", dir, "-o", file)
	b := open(t, "file://"+file)
	rates := regexp.MustCompile(`node0 tx(10 Gb/s, 5 Gb/s from \d[\d.]* m?s)`)
	if !rates.MatchString(b.text("body")) {
		t.Error("the table of links shows no change from 10 to 5 Gb/s")
	}
	b.noErrors()
}

// awaitBytes waits until a port of a fabric has sent so many bytes.
func (w *user) awaitBytes(fabric string, bytes uint64) {
	w.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var got struct{ Ports []counted }
		if err := json.Unmarshal([]byte(w.Run("status", "--fabric", fabric, "--json")), &got); err != nil {
			w.Fatal(err)
		}
		for _, p := range got.Ports {
			if p.Bytes > bytes {
				return
			}
		}
	}
	w.Fatalf("no port of %s sent %d bytes within a minute", fabric, bytes)
}
