// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs/units"
)

func TestParseJitter(t *testing.T) {
	for text, want := range map[string]Jitter{
		"none": {Kind: NoJitter}, "0": {Kind: NoJitter}, "0s": {Kind: NoJitter}, "uniform:0s": {Kind: NoJitter},
		"2us": {NormalJitter, 2000}, "normal:2us": {NormalJitter, 2000}, "uniform:1.5us": {UniformJitter, 1500},
		"pareto:1ms": {ParetoJitter, time.Millisecond}, "table:3ns": {TableJitter, 3},
	} {
		if got, err := ParseJitter(text); err != nil || got != want {
			t.Errorf("ParseJitter(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "-2us", "normal:", "normal:2", "normal:-1us", "gauss:2us", ":2us",
		"none:2us"} {
		if got, err := ParseJitter(text); err == nil || !strings.Contains(err.Error(), "uniform:2us") {
			t.Errorf("ParseJitter(%q) = %+v, %v; want an error that says what is allowed", text, got, err)
		}
	}
}

func TestParseLoss(t *testing.T) {
	for text, want := range map[string]Loss{
		"none": {}, "0": {}, "0%": {}, "0.1%": {P: 0.001}, "1e-4": {P: 1e-4}, "0.5": {P: 0.5}, "100%": {P: 1},
		"1":                       {P: 1},
		"7%":                      {P: 0.07}, // 7.0/100 is another number
		"gilbert:1%,50%":          {GoodToBad: 0.01, BadToGood: 0.5, BadP: 1},
		"gilbert:0.01,0.5,0.8":    {GoodToBad: 0.01, BadToGood: 0.5, BadP: 0.8},
		"gilbert:0.01,0.5,1,1e-3": {GoodToBad: 0.01, BadToGood: 0.5, BadP: 1, P: 1e-3},
	} {
		if got, err := ParseLoss(text); err != nil || got != want {
			t.Errorf("ParseLoss(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "%", "5", "101%", "-1%", "nan", "inf", "0x1p-2", "1e-2%", "1_0%", "bursts", "gilbert:", "gilbert:0.1",
		"gilbert:0,0.5", "gilbert:0.5,0", "gilbert:0.1,2", "gilbert:0.1,0.1,0.1,0.1,0.1", "ge:0.1,0.2",
	} {
		if got, err := ParseLoss(text); err == nil || !strings.Contains(err.Error(), "gilbert:P,R") {
			t.Errorf("ParseLoss(%q) = %+v, %v; want an error that says what is allowed", text, got, err)
		}
	}
}

func TestLossText(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "1%": "1%", "0.01": "1%", "0.001": "0.1%", "7%": "7%", "100%": "100%", "1e-5": "0.001%",
		"1e-7": "1e-07", "gilbert:1e-3,0.1": "gilbert:0.001,0.1,1,0",
	} {
		l, err := ParseLoss(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseLoss(l.text()); l.text() != want || err != nil || again != l {
			t.Errorf("%s: text %q, want %q; read back %+v, %v", text, l.text(), want, again, err)
		}
	}
}

func TestLossMean(t *testing.T) {
	for _, c := range []struct {
		loss Loss
		want float64
	}{
		{Loss{}, 0}, {Loss{P: 0.25}, 0.25},
		// A third of the time in the bad state.
		{Loss{GoodToBad: 0.1, BadToGood: 0.2, BadP: 0.9, P: 0.3}, 0.9/3 + 0.3*2/3},
	} {
		if got := c.loss.Mean(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: mean %v, want %v", c.loss, got, c.want)
		}
	}
}

// A loss at which the link model would deliver too many packets after its last attempt is refused. On the kernel
// datapath it is not, because the number of attempts has no limit there.
func TestLossesBeyondTheModel(t *testing.T) {
	for text, ok := range map[string]bool{
		"none": true, "1e-3": true, "72%": true, "73%": false, "100%": false,
		"gilbert:0.002,0.1": true, "gilbert:1e-5,1e-4": true, "gilbert:0.1,1": true, "gilbert:0.5,0.5": true, // bursts
		"gilbert:1e-4,1e-4": false, "gilbert:0.5,0.1": false, "gilbert:0.5,1e-9": false,
		"gilbert:0.5,0.1,0.7": true, "gilbert:0.5,0.1,0.9": false, "gilbert:0.5,0.5,1,0.9": false,
		"gilbert:1e-9,0.5,0,1": false,
	} {
		l, err := ParseLoss(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.validateModelled(); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		f := Default()
		f.Link.Loss, f.Nodes, f.Datapath, f.Transport = l, 2, Kernel, DefaultTransport(TCP)
		if err := f.Validate(); err != nil {
			t.Errorf("%s on the kernel datapath: %v", text, err)
		}
	}
}

func TestParseQueue(t *testing.T) {
	for text, want := range map[string]Queue{
		"1M": {units.MiB, Lossless}, "lossless:64K": {64 * units.KiB, Lossless}, "taildrop:2M": {2 * units.MiB,
			TailDrop}, "fair:2M": {2 * units.MiB, Fair}, "fair": {0, Fair},
		"lossless": {0, Lossless}, "unbounded": {0, Lossless},
	} {
		if got, err := ParseQueue(text); err != nil || got != want {
			t.Errorf("ParseQueue(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "taildrop", "lossless:0", "red:1M", "taildrop:", "taildrop:1KB", "-1M"} {
		if got, err := ParseQueue(text); err == nil || !strings.Contains(err.Error(), "taildrop:1M") {
			t.Errorf("ParseQueue(%q) = %+v, %v; want an error that says what is allowed", text, got, err)
		}
	}
}

func drawJitter(t *rapid.T) Jitter {
	kind := rapid.SampledFrom([]string{NoJitter, UniformJitter, NormalJitter, ParetoJitter}).Draw(t, "jitter")
	if kind == NoJitter {
		return Jitter{Kind: kind}
	}
	return Jitter{kind, time.Duration(rapid.Int64Range(1, int64(MaxLatency)).Draw(t, "value"))}
}

func drawLoss(t *rapid.T) Loss {
	p := func(name string, least float64) float64 { return rapid.Float64Range(least, 1).Draw(t, name) }
	switch rapid.IntRange(0, 2).Draw(t, "loss") {
	case 0:
		return Loss{}
	case 1:
		return Loss{P: p("p", 0)}
	}
	return Loss{P: p("p", 0), BadP: p("bad", 0), GoodToBad: p("good to bad", 1e-300),
		BadToGood: p("bad to good", 1e-300)}
}

func drawQueue(t *rapid.T, least units.Size) Queue {
	q := Queue{Policy: rapid.SampledFrom([]string{Lossless, TailDrop, Fair}).Draw(t, "policy")}
	if q.Policy == TailDrop || rapid.Bool().Draw(t, "bounded") {
		q.Bytes = units.Size(rapid.Int64Range(int64(least), int64(MaxQueue)).Draw(t, "queue"))
	}
	return q
}

func TestImpairmentsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, l, q := drawJitter(t), drawLoss(t), drawQueue(t, 1)
		if got, err := ParseJitter(j.String()); err != nil || got != j {
			t.Fatalf("%+v prints as %q, which reads as %+v, %v", j, j, got, err)
		}
		if got, err := ParseLoss(l.String()); err != nil || got != l {
			t.Fatalf("%+v prints as %q, which reads as %+v, %v", l, l, got, err)
		}
		if got, err := ParseQueue(q.String()); err != nil || got != q {
			t.Fatalf("%+v prints as %q, which reads as %+v, %v", q, q, got, err)
		}
	})
}

// What is accepted is valid and prints as something that reads back the same.
func FuzzImpairments(f *testing.F) {
	for _, s := range []string{"2us", "uniform:2us", "0.1%", "gilbert:1e-3,0.2,1,0", "lossless:1M", "taildrop:64K",
		"none", "0", "1e-400", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if j, err := ParseJitter(s); err == nil {
			if again, err := ParseJitter(j.String()); err != nil || again != j {
				t.Errorf("jitter %q: %q reads as %+v, %v", s, j, again, err)
			}
		}
		if l, err := ParseLoss(s); err == nil {
			if err := l.validate(); err != nil {
				t.Errorf("loss %q: %v", s, err)
			}
			if again, err := ParseLoss(l.String()); err != nil || again != l {
				t.Errorf("loss %q: %q reads as %+v, %v", s, l, again, err)
			}
		}
		if q, err := ParseQueue(s); err == nil {
			if again, err := ParseQueue(q.String()); err != nil || again != q {
				t.Errorf("queue %q: %q reads as %+v, %v", s, q, again, err)
			}
		}
	})
}
