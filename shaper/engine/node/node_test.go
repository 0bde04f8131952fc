// SPDX-License-Identifier: Apache-2.0

package node

import (
	"reflect"
	"testing"
)

func TestTimes(t *testing.T) {
	n := Time{Kernel: 5000, Channels: 700}
	c := Cost{Step: 400.5, PerByte: 0.25, Links: 1.5}
	for _, tc := range []struct {
		what      string
		got, want int64
	}{
		{"launch of one channel", n.Launch(1), 5000},
		{"launch of two channels", n.Launch(2), 5700},
		{"action without bytes", c.Time(0), 401},
		{"action of 2 bytes", c.Time(2), 401},
		{"action of 1 KiB", c.Time(1024), 657},
		{"bytes on a link", int64(c.OnLink(3)), 5},
		{"bytes on a link, not given", int64((&Cost{}).OnLink(3)), 3},
		{"nothing", (&Cost{}).Time(1 << 40), 0},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.what, tc.got, tc.want)
		}
	}
}

// On a clock that runs 4 times slower all times are 4 times longer, and no other field changes.
func TestScaled(t *testing.T) {
	var n Time
	v := reflect.ValueOf(&n).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int64:
			f.SetInt(int64(i + 1))
		default:
			if send, ok := f.Addr().Interface().(*SendCost); ok {
				*send = SendCost{Cost{float64(i), 0.5, 1.5}, 3, 5}
				continue
			}
			f.Set(reflect.ValueOf(Cost{float64(i), 0.5, 1.5}))
		}
	}
	got := n.Scaled(4)
	g := reflect.ValueOf(got)
	for i := range v.NumField() {
		want := any(Cost{4 * float64(i), 2, 1.5})
		switch v.Field(i).Interface().(type) {
		case int64:
			want = int64(4 * (i + 1))
		case SendCost:
			want = SendCost{want.(Cost), 12, 20}
		}
		if g.Field(i).Interface() != want {
			t.Errorf("%s: %v, want %v", v.Type().Field(i).Name, g.Field(i), want)
		}
	}
}

// A copy of NVLSTree costs something else where a node has a parent, if that is known.
func TestCopyOfNVLS(t *testing.T) {
	n := Time{NVLSCopy: Cost{Step: 1, PerByte: 2}}
	if got := *n.CopyOfNVLS(true); got != n.NVLSCopy {
		t.Errorf("without a cost of its own: %v, want that of NVLS, %v", got, n.NVLSCopy)
	}
	n.NVLSTreeCopy = Cost{Step: 1, PerByte: 3}
	if got := *n.CopyOfNVLS(true); got != n.NVLSTreeCopy {
		t.Errorf("with a parent: %v, want %v", got, n.NVLSTreeCopy)
	}
	if got := *n.CopyOfNVLS(false); got != n.NVLSCopy {
		t.Errorf("without a parent: %v, want %v", got, n.NVLSCopy)
	}
	if got := n.Scaled(4).NVLSTreeCopy; got != (Cost{Step: 4, PerByte: 12}) {
		t.Errorf("four times slower: %v", got)
	}
}
