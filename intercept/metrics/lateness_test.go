// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// Each message of a fabric's file is in the bucket that its lateness belongs to, in seconds of the emulated network,
// and the sum and the count are those of all size classes and links.
func TestLateness(t *testing.T) {
	const scale = 4
	lates := []int64{0, 0, 1, 255, 256, 1000, 5000, 1 << 20, 1<<20 - 1, 4_000_000_000, 100_000_000_000}
	stats := make([]state.LinkStats, len(lates)) // each message on a link of its own
	sum := int64(0)
	for i, late := range lates {
		stats[i].CountDelivery(1<<(2*i), 1000, 2000, 2000+late, scale)
		sum += late
	}
	h := lateMetric(t,
		&status.Reading{Name: "f", TimeScale: scale,
			Jobs: []status.Job{{Number: 2, Counted: state.JobStatus{LinkStats: stats}}}})
	if got, want := h.GetSampleSum(), float64(sum)/scale/1e9; math.Abs(got-want) > 1e-12*want {
		t.Errorf("the sum is %g s, want %g", got, want)
	}
	if got := h.GetSampleCount(); got != uint64(len(lates)) {
		t.Errorf("the count is %d, want %d", got, len(lates))
	}
	for _, b := range h.Bucket {
		want := uint64(0)
		for _, late := range lates {
			if float64(late)/1e9/scale <= b.GetUpperBound() {
				want++
			}
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d messages are at most %g s late, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if n, first, last := len(h.Bucket), h.Bucket[0].GetUpperBound(),
		h.Bucket[len(h.Bucket)-1].GetUpperBound(); n != 27 || first != 0 || !math.IsInf(last, 1) {
		t.Errorf("%d buckets from %g to %g", n, first, last)
	}
}

// A job whose lateness is not known has no histogram, rather than one that says that nothing was late.
func TestLatenessUnknown(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b,
		[]*status.Reading{{Name: "f", TimeScale: 1, Datapath: configs.Kernel,
			Jobs: []status.Job{{Messages: 5}}}}); err != nil {
		t.Fatal(err)
	}
	if _, families := parse(t, b.String()); families["ddlemu_message_late_seconds"] != nil {
		t.Errorf("a histogram of what is not known:\n%s", b.String())
	}
}

// lateMetric is the histogram of the fabric's only job, as Prometheus reads it.
func lateMetric(t *testing.T, f *status.Reading) *dto.Histogram {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, []*status.Reading{f}); err != nil {
		t.Fatal(err)
	}
	_, families := parse(t, b.String())
	late := families["ddlemu_message_late_seconds"]
	if late == nil || len(late.Metric) != 1 || late.Metric[0].Histogram == nil {
		t.Fatalf("want one histogram:\n%s", b.String())
	}
	return late.Metric[0].Histogram
}
