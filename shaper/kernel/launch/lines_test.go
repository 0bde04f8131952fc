// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a line", "hello\n", "n|hello\n"},
		{"no newline at the end", "hello\nworld", "n|hello\nn|world\n"},
		{"empty lines", "\n\na\n", "n|\nn|\nn|a\n"},
		{"carriage returns", "\r1%\r2%\r3%\n", "n|1%\nn|2%\nn|3%\n"},
		{"CRLF", "a\r\nb\r\n", "n|a\nn|b\n"},
		{"an empty line with CRLF", "a\r\n\r\nb", "n|a\nn|b\n"},
		{"as long as MaxLine", long + "\n", "n|" + long + "\n"},
		{"longer than MaxLine", long + "yz\n", "n|" + long + "\nn|yz\n"},
		{"longer than two of MaxLine", long + long + "z", "n|" + long + "\nn|" + long + "\nn|z\n"},
		{"not text", "\x00\xff\n", "n|\x00\xff\n"},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			if got := printed(t, c.in, step); got != c.want {
				t.Errorf("%s, in writes of %d bytes: got %.80q, want %.80q", c.name, step, got, c.want)
			}
		}
	}
}

// printed returns the output when in is written step bytes at a time.
func printed(t interface{ Fatal(...any) }, in string, step int) string {
	var out bytes.Buffer
	s := LinePrinter{&out, &sync.Mutex{}}.Stream("n|")
	for rest := []byte(in); len(rest) > 0; {
		n := min(step, len(rest))
		if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		rest = rest[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// However the input is divided into writes, all text is printed, in order, and each line has its prefix.
func TestLinesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching(`[a-c\n\r]{0,200}`).Draw(t, "in")
		step := rapid.IntRange(1, 50).Draw(t, "step")
		got, strip := printed(t, in, step), strings.NewReplacer("\r", "", "\n", "")
		if whole := printed(t, in, 1<<20); got != whole {
			t.Fatalf("got %q in small writes and %q in one", got, whole)
		}
		if text := strip.Replace(strings.ReplaceAll(got, "n|", "")); text != strip.Replace(in) {
			t.Fatalf("got the text %q of %q", text, in)
		}
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "n|") || !strings.HasSuffix(line, "\n") {
				t.Fatalf("line %q of %q", line, got)
			}
		}
	})
}

// Lines of concurrent streams are never mixed.
func TestConcurrentLineStreams(t *testing.T) {
	var (
		out bytes.Buffer
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for n := range 4 {
		all.Go(func() {
			s := LinePrinter{&out, &mu}.Stream(fmt.Sprintf("%d|", n))
			for range 1000 {
				fmt.Fprint(s, n, n)
				fmt.Fprintln(s, n, n)
			}
		})
	}
	all.Wait()
	lines := 0
	for line := range strings.Lines(out.String()) {
		n := line[:1]
		if want := fmt.Sprintf("%s|%[1]s %[1]s%[1]s %[1]s\n", n); line != want {
			t.Fatalf("got %q, want %q", line, want)
		}
		lines++
	}
	if lines != 4000 {
		t.Errorf("%d lines of 4000", lines)
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestLinesToBrokenOutput(t *testing.T) {
	s := LinePrinter{broken{}, &sync.Mutex{}}.Stream("")
	if _, err := s.Write([]byte("a")); err != nil {
		t.Errorf("before a line is complete: %v", err)
	}
	if _, err := s.Write([]byte("\n")); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want the output's error", err)
	}
}
