// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A program whose calls wait for each other on GPUs gets an error here too, on both clocks. It says what the other rank
// does, and the job is not VALID.
func TestHangs(t *testing.T) {
	t.Parallel()
	const crossing = "both ranks send first, and NCCL executes the calls of a pair of ranks in their order"
	cases := []struct {
		name     string
		ranks    int
		realToo  bool
		of0, of1 []string // what the errors of ranks 0 and 1 contain
	}{
		{name: "isend_irecv", realToo: true,
			of0: []string{"send to rank 1 number 2", "rank 1 has called its recv from rank 0, number 2", crossing},
			of1: []string{"send to rank 0 number 2", "rank 0 has called its recv from rank 1, number 2", crossing}},
		{name: "unconnected", realToo: true,
			of0: []string{"send to rank 1 number 1", "rank 1 has called send too", crossing},
			of1: []string{"send to rank 0 number 1", "rank 0 has called send too", crossing}},
		{name: "send_first", of0: []string{"rank 1 has not called its recv from rank 0, number 2", crossing},
			of1: []string{"waits in send to rank 1 number 2 of the pair 0 and 1", crossing}},
		{name: "recv_first", of0: []string{"rank 1 has not called its send to rank 0, number 2", "both ranks receive first"},
			of1: []string{"recv from rank 0 number 2", "both ranks receive first"}},
		{name: "two_groups", realToo: true,
			of0: []string{"rank 1 has not called it (its last call is number 1) and waits in all_reduce number 2 of group 2"},
			of1: []string{"rank 0 has not called it (its last call is number 1) and waits in all_reduce number 2 of group 1"}},
		{name: "no_receiver", of0: []string{"rank 1 has not called its recv from rank 0, number 2", "all_reduce number 2"},
			of1: []string{"rank 0 has not called it", "waits in send to rank 1 number 2"}},
		{name: "batch", of0: []string{"rank 1 has not called its recv from rank 0, number 1", "all_reduce number 2"},
			of1: []string{"all_reduce number 2", "rank 0 has not called it"}},
		{name: "barrier", of0: []string{"barrier number 2", "rank 1 has not called it", "waits in recv from rank 0"},
			of1: []string{"rank 0 has not called its send to rank 1, number 2", "waits in barrier number 2"}},
		{name: "types", of0: []string{"sends 4 elements of torch.float32 to rank 1, which receives 3 of torch.float64"},
			of1: []string{"rank 0 sends 4 elements of torch.float32"}},
		{name: "batch_types", of0: []string{"sends 4 elements of torch.float32 to rank 1, which receives 3"},
			of1: []string{"rank 0 sends 4 elements of torch.float32"}},
		{name: "ring", ranks: 3, of0: []string{"send to rank 1", "makes a communicator"},
			of1: []string{"send to rank 2", "rank 2 did not come; rank 2 waits in send to rank 0"}},
	}
	each(t, func(t *testing.T, python string) {
		for _, c := range cases {
			for _, clock := range []string{"virtual", "real"} {
				if clock == "real" && !c.realToo {
					continue
				}
				t.Run(c.name+" "+clock, func(t *testing.T) {
					flags := []string{"--profile", "eth10", "--clock", clock}
					if c.ranks == 3 {
						flags = append(flags, "--nodes", "3")
					}
					o := job{python: python, ranks: c.ranks, flags: flags}.run(t, "hangs.py", c.name)
					wantTold(t, o.Stdout, 0, c.of0, c.of1)
					wantTold(t, o.Stdout, 1, c.of1, c.of0)
					if strings.Contains(o.Stderr, "verdict: VALID") {
						t.Errorf("the job is VALID: %s", o.Stderr)
					}
				})
			}
		}
	})
}

// wantTold checks that an output has one line of a rank, and that it contains some texts. If the other rank has failed
// first, the line repeats what that one says: then it has the other's texts, but for the call that begins the line.
func wantTold(t *testing.T, output string, rank int, texts, others []string) {
	t.Helper()
	begin := fmt.Sprintf("rank %d: ddlemu: ", rank)
	lines := slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, begin)
	})
	if len(lines) != 1 {
		t.Errorf("%d lines begin with %q: %s", len(lines), begin, output)
		return
	}
	if strings.Contains(lines[0], fmt.Sprintf("rank %d failed: ", 1-rank)) {
		texts = slices.DeleteFunc(slices.Clone(others), func(text string) bool {
			return strings.HasPrefix(text, "send to ") || strings.HasPrefix(text, "recv from ")
		})
	}
	for _, text := range texts {
		if !strings.Contains(lines[0], text) {
			t.Errorf("%q is not in the line: %s", text, lines[0])
		}
	}
}
