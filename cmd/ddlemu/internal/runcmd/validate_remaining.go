// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"runtime"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
)

// remaining says how long a comparison of many tables still takes: by what each table is expected to take, in
// proportion to what those before it took.
type remaining struct {
	expected []time.Duration // of each table
	next     int             // the first table that is not done
	took     time.Duration   // by those before it
	begun    time.Time
	clock    func() time.Time
}

// What a table takes, as measured on one core: NCCL of each rank starts and connects to others, and the model plays
// each row.
const (
	timeOfRank = 300 * time.Millisecond // of CPU, to start and connect
	timeOfRow  = 20 * time.Millisecond  // of CPU, for each rank
)

// remaining is the remaining time of tables, by their ranks and rows. Without --model it is not known how long they
// take.
func (o *validateOptions) remaining(files []string) remaining {
	r := remaining{begun: time.Now(), clock: time.Now}
	if !o.Model {
		return r
	}
	cores := time.Duration(runtime.GOMAXPROCS(0))
	for _, path := range files {
		t, err := o.table(path)
		if err != nil { // it will be left out
			r.expected = append(r.expected, 0)
			continue
		}
		ranks := time.Duration(t.Ranks)
		r.expected = append(r.expected, (timeOfRank*ranks+timeOfRow*ranks*time.Duration(len(t.Rows)))/cores)
	}
	return r
}

// done says that the tables up to i are done.
func (r *remaining) done(i int) { r.next, r.took = i+1, r.clock().Sub(r.begun) }

// now is how long the tables that are not done take; progress.Unknown if that is not known.
func (r *remaining) now() time.Duration {
	if len(r.expected) == 0 {
		return progress.Unknown
	}
	var before, after time.Duration
	for i, d := range r.expected {
		if i < r.next {
			before += d
		} else {
			after += d
		}
	}
	if before > 0 {
		after = time.Duration(float64(after) * float64(r.took) / float64(before))
	}
	return max(after-(r.clock().Sub(r.begun)-r.took), 0)
}
