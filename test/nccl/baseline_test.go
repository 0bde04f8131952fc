// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// baselines is a folder with JSON outputs, with which later runs are compared.
type baselines struct {
	*world.World
	dir string
}

// keep runs a command, and keeps its output for --baseline.
func (b *baselines) keep(name string, args ...string) {
	b.Helper()
	o := b.Try(append(args, "--json")...)
	if o.Exit != 0 {
		b.Fatalf("%q: exit status %d: %s", args, o.Exit, o.Text())
	}
	b.write(name, o.Stdout)
}

func (b *baselines) write(name, text string) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// compare runs a command with a baseline of this name. Its output must have text that matches each pattern.
func (b *baselines) compare(status int, name string, args []string, patterns ...string) {
	b.Helper()
	o := b.Try(append(args, "--baseline", filepath.Join(b.dir, name))...)
	text := strings.ReplaceAll(o.Text(), b.dir+"/", "")
	if o.Exit != status {
		b.Errorf("%q: exit status %d, want %d: %s", args, o.Exit, status, text)
	}
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			b.Errorf("%q with %s: want %s in\n%s", args, name, p, text)
		}
	}
}

// A run is like itself without any tolerance, because times of a virtual clock and calculated times are exact. If NCCL
// chooses otherwise, the times that grow are named and the exit status is 4. A baseline of other settings is refused
// with their names before anything is run.
func TestBaseline(t *testing.T) {
	t.Parallel()
	b := &baselines{world.New(t), t.TempDir()}
	on := func(command, collective string, more ...string) []string {
		return append([]string{command, collective, "--profile", "eth10", "--ranks", "2"}, more...)
	}
	expect := on("expect", "allreduce", "-b", "64K", "-e", "1M", "-f", "16")
	b.keep("expect.json", expect...)
	b.compare(0, "expect.json", append(expect, "--require", "baseline=0%"),
		"^baseline expect.json: of 2 times, 0 slower and 0 faster by more than 0 %$")
	b.Env = []string{"NCCL_ALGO=Tree"}
	b.compare(4, "expect.json", expect, `^slower: 1048576 bytes float sum: .* us in the baseline \(\+[0-9.]+ %\); NCCL `+
		"chose Tree Simple x2, Ring Simple x2 in the baseline$", `^faster: 65536 bytes float sum: .* \(-[0-9.]+ %\)`,
		"^ddlemu: 1 of 2 times slower than in --baseline expect.json by more than 1%: 1048576 bytes float sum: ")
	b.compare(0, "expect.json", append(expect, "--require", "baseline=50%", "--json"), `"slower": \[\]`)
	b.Env = nil
	b.compare(2, "expect.json", on("expect", "broadcast", "--lat", "1ms", "--set", "seed=7", "-n", "5", "-r", "1"),
		`^ddlemu: --baseline expect.json: it is of other settings: fabric none \(now "eth10 with latency 1ms \(25µs\)"\), `+
			`seed "1" \(now "7"\), collective "all_reduce" \(now "broadcast"\), iterations "20" \(now "5"\), `+
			`root "0" \(now "1"\): make it again`)
	b.compare(2, "expect.json", []string{"expect", "allreduce", "--profile", "roce100", "--ranks", "2"},
		`other settings: profile "eth10" \(now "roce100"\), transport "tcp" \(now "rdma"\), .*\): make it again`)
	b.compare(2, "expect.json", on("expect", "allreduce", "-b", "8", "-e", "8"),
		"^ddlemu: .* none of its times is of this run: it has 65536 bytes float sum, this run has 8 bytes float sum$")
	b.compare(2, "expect.json", append(expect, "--sweep", "bw=1G,2G"), "--baseline and --sweep: ")

	few := func(from, to string) []string {
		return on("bench", "allreduce", "-b", from, "-e", to, "-f", "8", "-n", "2", "-w", "1")
	}
	b.keep("bench.json", few("8", "64")...)
	b.compare(0, "bench.json", append(few("64", "512"), "--require", "baseline=0%"), "^# baseline bench.json: of 2 times, 0 slower and 0 faster",
		"^# not in the baseline: 2 times, such as 512 bytes", "^# only in the baseline: 2 times, such as 8 bytes")
	b.compare(2, "bench.json", on("bench", "allreduce", "-w", "2", "--clock", "real", "--set", "time_scale=2"),
		`other settings: iterations "2" \(now "20"\), clock "virtual" \(now "real"\), warm-up iterations "1" \(now "2"\)`)
	b.compare(2, "expect.json", on("bench", "allreduce"), "it is the output of ddlemu expect, not of ddlemu bench$")

	const head = `{"format":"ddlemu.workload/1","name":"step","ranks":2}` + "\n"
	const call = `{"op":"coll","func":"AllReduce","count":8,"type":"float32"}` + "\n"
	step := b.write("step.jsonl", head+`{"op":"calc","ns":1000000}`+"\n"+call)
	slower := b.write("slower.jsonl", head+`{"op":"calc","ns":1100000}`+"\n"+call)
	junit := filepath.Join(b.dir, "replay.xml")
	for name, args := range map[string][]string{"replay.json": {"replay"}, "workload.json": {"expect", "--workload"}} {
		play := func(file string, more ...string) []string {
			return append(append(append([]string{}, args...), file, "--profile", "eth10", "--nodes", "2"), more...)
		}
		b.keep(name, play(step)...)
		b.compare(0, name, play(step, "--require", "baseline=0%"), "^# baseline "+name+": of 2 times, 0 slower and 0 faster")
		b.compare(0, name, play(slower, "--require", "baseline=10%"), "0 slower and 0 faster")
		b.compare(2, "bench.json", play(step), "the output of ddlemu bench, not of ddlemu ")
		more := []string{}
		if name == "replay.json" {
			more = []string{"--junit", junit}
		}
		b.compare(4, name, play(slower, more...), `^# slower: step 1: .* \(\+9\.[0-9]+ %\)`)
	}
	if text, err := os.ReadFile(junit); err != nil ||
		!strings.Contains(string(text), `<failure message="step 1: `) || !strings.Contains(string(text), `type="baseline"`) {
		t.Errorf("%v: %s", err, text)
	}
}
