// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"io"
	"sort"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"
)

// family is a metric in the making.
type family struct{ *dto.MetricFamily }

func newFamily(name, help string, kind dto.MetricType) family {
	return family{&dto.MetricFamily{Name: proto.String(name), Help: proto.String(help), Type: kind.Enum()}}
}

// add adds the value of a counter or gauge. Labels are names and values in turn.
func (f family) add(value float64, labels ...string) {
	m := newMetric(labels)
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: proto.Float64(value)}
	} else {
		m.Gauge = &dto.Gauge{Value: proto.Float64(value)}
	}
	f.Metric = append(f.Metric, m)
}

// addHistogram adds a histogram. Labels are names and values in turn.
func (f family) addHistogram(h *histogram, labels ...string) {
	m := newMetric(labels)
	m.Histogram = &dto.Histogram{SampleSum: proto.Float64(h.sum)}
	seen := uint64(0)
	for i, bound := range h.bounds {
		seen += h.counts[i]
		m.Histogram.Bucket = append(m.Histogram.Bucket,
			&dto.Bucket{UpperBound: proto.Float64(bound), CumulativeCount: proto.Uint64(seen)})
	}
	m.Histogram.SampleCount = proto.Uint64(seen + h.counts[len(h.bounds)])
	f.Metric = append(f.Metric, m)
}

func newMetric(labels []string) *dto.Metric {
	m := &dto.Metric{}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(labels[i]), Value: proto.String(labels[i+1])})
	}
	return m
}

// histogram counts values by size. Values and bounds have the metric's unit.
type histogram struct {
	bounds []float64 // the largest value of each bucket but the last, ascending
	counts []uint64  // of each bucket alone; the last one has the values above all bounds
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// observe counts one value.
func (h *histogram) observe(value float64) {
	h.counts[sort.SearchFloat64s(h.bounds, value)]++
	h.sum += value
}

// writeFamilies writes the metrics that have values.
func writeFamilies(w io.Writer, all []family) error {
	for _, f := range all {
		if len(f.Metric) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(w, f.MetricFamily); err != nil {
			return fmt.Errorf("write the metric %s: %w", f.GetName(), err)
		}
	}
	return nil
}
