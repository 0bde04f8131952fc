// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The calls of the examples match.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../docs/examples/workloads/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		w, err := workload.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if f := run1(t, w); len(f) > 0 {
			t.Errorf("%s: %s", file, text(f))
		}
	}
}

// The calls of ResNet-50 are ready when they started in the trace.
func TestExampleResNet50(t *testing.T) {
	w, err := workload.ReadFile("../../../docs/examples/workloads/resnet50-ddp-2xa100.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ready, now := []int64{}, int64(0)
	elements := int64(0)
	for _, o := range w.Ops {
		switch {
		case o.Kind == workload.Coll:
			ready = append(ready, now/1000)
			if o.Func == workload.AllReduce {
				elements += o.Count
			}
		default:
			now += o.Nanos
		}
	}
	if want := []int64{6070, 8590, 107013, 115346, 121473, 147061, 187844}; !slices.Equal(ready, want) {
		t.Errorf("ready at %v us, want %v", ready, want)
	}
	if elements != 25_557_032 {
		t.Errorf("%d gradients", elements)
	}
}
