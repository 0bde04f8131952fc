// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The bounds of one input of at most 1 MB. Time is that of the processors, so that a busy machine does not change it.
const (
	maxMemory = 500 << 20
	maxTime   = 10 * time.Second
)

// childEnv makes this program a child that reads inputs: the name of the reader, the first input and the one after the
// last.
const childEnv = "DDLEMU_TEST_INPUTS_CHILD"

// cost is what the reading of one input took.
type cost struct {
	memory int64         // the most of the process that was in memory, in bytes
	time   time.Duration // of the processors
}

// result is what a child says of an input.
type result struct {
	number int
	cost
	how    string
	failed string // why the process ended, "" if it did not
}

// memoryNow is a line of the kernel's status of this process, in bytes: VmHWM is the most that was in memory since the
// last resetPeak, with all that Go does not know, such as what SQLite and the stacks take.
func memoryNow(line string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10
}

// resetPeak makes VmHWM what is in memory now (proc(5), clear_refs).
func resetPeak() error {
	if memoryNow("VmRSS") > 64<<20 {
		debug.FreeOSMemory()
	}
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// timeNow is the time that the processors have spent on this process and on those that it has started.
func timeNow() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// child reads inputs of a reader and prints what each took. It ends at the first one that is far over a bound: the
// parent starts another one for those after it.
func child(job string) {
	parts := strings.Split(job, " ")
	from, _ := strconv.Atoi(parts[1])
	to, _ := strconv.Atoi(parts[2])
	r := readerNamed(parts[0])
	dir, err := os.MkdirTemp("", "ddlemu-inputs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	m := r.maker(dir)
	for n := from; n < to; n++ {
		data, how := m.made(n)
		if err := resetPeak(); err != nil {
			panic(err)
		}
		fmt.Printf("begin %d %q\n", n, how)
		begin := timeNow()
		stop := watch(begin)
		err := r.read(data, dir)
		stop()
		took := timeNow() - begin
		fmt.Printf("end %d %d %d\n", n, memoryNow("VmHWM"), int64(took))
		if err != nil && strings.ContainsAny(strings.TrimSpace(err.Error()), "\n\x1b") {
			fmt.Printf("fail %q\n", head("an error of several lines: "+err.Error(), 3000))
		}
	}
}

// watch ends the process when it is far over a bound, before it takes the machine's memory.
func watch(begin time.Duration) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			memory, took := memoryNow("VmRSS"), timeNow()-begin
			if memory > 2*maxMemory || took > maxTime+2*time.Second {
				fmt.Printf("over %d %d\n", memory, int64(took))
				os.Exit(1)
			}
		}
	}()
	return func() { close(done) }
}

// measure lets children read the inputs of a reader and calls each with what each input took.
func measure(t *testing.T, r reader, from, to int, each func(result)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for from < to {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", childEnv, r.name, from, to))
		var problem bytes.Buffer
		cmd.Stderr = &problem
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		// An input that waits for ever takes no time of the processors.
		idle := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() })
		last := result{number: from - 1}
		open := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			idle.Reset(10 * time.Minute)
			word, rest, _ := strings.Cut(lines.Text(), " ")
			switch word {
			case "begin":
				last, open = result{}, true
				_, _ = fmt.Sscanf(rest, "%d %q", &last.number, &last.how)
			case "end":
				_, _ = fmt.Sscanf(rest, "%d %d %d", &last.number, &last.memory, &last.time)
				open = false
				each(last)
			case "over":
				_, _ = fmt.Sscanf(rest, "%d %d", &last.memory, &last.time)
				last.failed = "stopped: far over a bound"
			case "fail":
				why, _ := strconv.Unquote(rest)
				each(result{number: last.number, how: last.how, failed: why})
			}
		}
		err = cmd.Wait()
		idle.Stop()
		switch {
		case open:
			if last.failed == "" {
				last.failed = fmt.Sprintf("%v: %s", err, head(problem.String(), 3000))
			}
			each(last)
		case err != nil:
			t.Fatalf("%s: %v: %s", r.name, err, head(problem.String(), 3000))
		}
		from = last.number + 1
	}
}

func head(text string, most int) string { return text[:min(len(text), most)] }
