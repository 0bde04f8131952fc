// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// countEnv is how many inputs each reader gets, and onlyEnv the names of the readers that are tried, separated by
// commas.
const (
	countEnv = "DDLEMU_TEST_INPUTS"
	onlyEnv  = "DDLEMU_TEST_READERS"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		child(job)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// No input of at most 1 MB makes a reader use more than 500 MB of memory or 10 s of a processor, or end the process.
// Without DDLEMU_TEST_INPUTS each reader gets its bombs and few other inputs.
func TestInputs(t *testing.T) {
	count := 0
	if text := os.Getenv(countEnv); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 1 {
			t.Fatalf("%s=%s: must be how many inputs each reader gets", countEnv, text)
		}
	}
	for _, r := range readers {
		if only := os.Getenv(onlyEnv); only != "" && !strings.Contains(","+only+",", ","+r.name+",") {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			to := count
			if to == 0 {
				to = len(r.bombs) + fewInputs
			}
			var memory, time result
			measure(t, r, 0, to, func(x result) {
				if x.failed != "" || x.memory > maxMemory || x.cost.time > maxTime {
					t.Errorf("input %d (%s): %s; it took %s", x.number, x.how, x.failed, x.cost)
				}
				if x.memory > memory.memory {
					memory = x
				}
				if x.cost.time > time.cost.time {
					time = x
				}
			})
			t.Logf("%d inputs: at most %d MB (input %d, %s) and %.2f s (input %d, %s)", to, memory.memory>>20,
				memory.number, memory.how, time.cost.time.Seconds(), time.number, time.how)
		})
	}
}

// fewInputs is how many inputs each reader gets beside its bombs where countEnv says nothing.
const fewInputs = 12

func (c cost) String() string { return fmt.Sprintf("%d MB and %.2f s", c.memory>>20, c.time.Seconds()) }
