// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Link, LinkPatch and linkParams have the same parameters in the same order.
func TestLinkParams(t *testing.T) {
	link, patch := reflect.TypeFor[Link](), reflect.TypeFor[LinkPatch]()
	if link.NumField() != len(linkParams) || patch.NumField() != len(linkParams) {
		t.Fatalf("Link has %d fields, LinkPatch %d, linkParams %d", link.NumField(), patch.NumField(), len(linkParams))
	}
	for i, m := range linkParams {
		l, p := link.Field(i), patch.Field(i)
		key := func(f reflect.StructField) string { key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); return key }
		if l.Name != p.Name || reflect.PointerTo(l.Type) != p.Type || key(l) != m.Key || p.Tag.Get("yaml") != m.Key+
			",omitempty" {
			t.Errorf("parameter %s: Link has %s %v %q, LinkPatch %s %v %q", m.Key, l.Name, l.Type, l.Tag, p.Name,
				p.Type, p.Tag)
		}
	}
}

// examples/two-nodes.yaml has every key of a link, as it says.
func TestExampleHasEveryParameter(t *testing.T) {
	text, err := os.ReadFile("examples/two-nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range linkParams {
		if !strings.Contains(string(text), "\n  "+m.Key+":") {
			t.Errorf("no %s", m.Key)
		}
	}
}

// The text of each parameter sets the value that it was made from.
func TestLinkParamTexts(t *testing.T) {
	l := Link{
		Bandwidth: units.Gbps, Latency: time.Second, Jitter: Jitter{UniformJitter, 1}, Loss: Loss{0.1, 0.2, 0.3, 0.4},
		Queue: Queue{units.MiB, Fair}, ECN: 1000, MTU: 1500, Header: 40, Framing: 38,
	}
	for _, m := range linkParams {
		if m.Key == "up" { // its text is for people
			continue
		}
		var p LinkPatch
		if err := m.Set(&p, m.Text(&l)); err != nil || !m.Given(&p) {
			t.Errorf("%s: %v", m.Key, err)
		}
		var got Link
		if p.Apply(&got); m.Text(&got) != m.Text(&l) {
			t.Errorf("%s %s was set to %s", m.Key, m.Text(&l), m.Text(&got))
		}
		rest := p
		if rest.drop(&p); !rest.Empty() {
			t.Errorf("%s: %+v is left", m.Key, rest)
		}
	}
}

func TestReorder(t *testing.T) {
	for text, want := range map[string]Reorder{
		"none": {}, "1%,50us": {0.01, 50 * time.Microsecond}, "0.5, 1ms": {0.5, time.Millisecond},
		"1e-3,3ns": {1e-3, 3},
	} {
		got, err := ParseReorder(text)
		if err != nil || got != want || got.validate() != nil {
			t.Errorf("ParseReorder(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseReorder(got.String()); err != nil || again != got {
			t.Errorf("%v comes back as %v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "1%", "50us", "1%,", ",50us", "200%,50us", "1%,50", "1%,50us,3"} {
		if got, err := ParseReorder(text); err == nil || !strings.Contains(err.Error(), "1%,50us") {
			t.Errorf("ParseReorder(%q) = %+v, %v; want an error that says what is allowed", text, got, err)
		}
	}
	for _, r := range []Reorder{{0.1, 0}, {0, 1}, {0.1, MaxLatency + 1}} {
		if err := r.validate(); err == nil {
			t.Errorf("%+v is valid", r)
		}
	}
	f := Default()
	f.Datapath, f.Link.Reorder = Kernel, Reorder{0.1, time.Microsecond}
	for shaper, fits := range map[string]bool{"": true, AutoShaper: true, EDTShaper: false, HTBShaper: false,
		NetemShaper: false, WireShaper: true} {
		f.Shaper = shaper
		if err := f.ValidateLink(&f.Link); (err == nil) != fits {
			t.Errorf("shaper %q: %v", shaper, err)
		}
	}
}
