// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Jitter is the variation of a link's latency, drawn for each segment.
type Jitter struct {
	Kind  string
	Value time.Duration // its meaning depends on the kind
}

// Kinds of jitter.
const (
	NoJitter      = "none"    // Value is 0
	UniformJitter = "uniform" // between -Value and +Value
	NormalJitter  = "normal"  // standard deviation Value
	ParetoJitter  = "pareto"  // 0 and up with mean Value, shape 3
	TableJitter   = "table"   // the fabric's JitterTable times Value
)

const (
	jitterHelp = "write 2us or normal:2us (standard deviation), uniform:2us (half width), pareto:2us (mean), table:2us " +
		"(times jitter_table) or none"
)

// ParseJitter reads a jitter from a file or flag: KIND:DURATION, a DURATION alone for
// normal, or none.
func ParseJitter(s string) (Jitter, error) {
	kind, value, ok := strings.Cut(s, ":")
	if !ok {
		kind, value = NormalJitter, s
	}
	if s == NoJitter || s == "0" {
		return Jitter{Kind: NoJitter}, nil
	}
	switch kind {
	case UniformJitter, NormalJitter, ParetoJitter, TableJitter:
	default:
		return Jitter{}, fmt.Errorf("%q has the unknown kind %q: %s", s, kind, jitterHelp)
	}
	d, err := ParseDuration(value)
	if err != nil {
		return Jitter{}, fmt.Errorf("%q is not a jitter: %s", s, jitterHelp)
	}
	if d == 0 {
		return Jitter{Kind: NoJitter}, nil
	}
	return Jitter{Kind: kind, Value: d}, nil
}

// String returns j in the form that ParseJitter reads.
func (j Jitter) String() string {
	if j.Kind == NoJitter {
		return NoJitter
	}
	return j.Kind + ":" + j.Value.String()
}

// MarshalText is String, for Encode.
func (j Jitter) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// validate refuses a jitter that no link may have.
func (j Jitter) validate() error {
	switch j.Kind {
	case NoJitter:
		if j.Value != 0 {
			return fmt.Errorf("none with the value %v: must have none", j.Value)
		}
	case UniformJitter, NormalJitter, ParetoJitter, TableJitter:
		if j.Value <= 0 || j.Value > MaxLatency {
			return fmt.Errorf("%v is out of range: its value must be 1ns to %v, or none", j, MaxLatency)
		}
	default:
		return fmt.Errorf("%q is an unknown kind: %s", j.Kind, jitterHelp)
	}
	return nil
}

// Loss is the loss of packets on a link. The zero value loses none. If GoodToBad is 0,
// each packet is lost independently with probability P. Otherwise losses follow the
// Gilbert-Elliott chain of two states, which makes a step at each packet and starts in
// the good state.
type Loss struct {
	P         float64 // in the good state, 0 to 1
	BadP      float64 // in the bad state
	GoodToBad float64 // probability of a change of state, per packet
	BadToGood float64
}

const (
	noLoss      = "none"
	gilbertKind = "gilbert"
	lossHelp    = "write 0.1% or 1e-3 for independent losses, gilbert:P,R[,LOSSBAD[,LOSSGOOD]] for bursts that begin " +
		"with probability P and end with R per packet, or none"
)

// ParseLoss reads a loss from a file or flag: a probability, as a number from 0 to 1 or
// in percent, for independent losses; gilbert:p,r[,lossbad[,lossgood]] for bursts; or
// none. In bursts, each packet changes the good state to bad with probability p and bad
// to good with r, and is lost with lossbad (default 1) in the bad state and lossgood
// (default 0) in the good one.
func ParseLoss(s string) (Loss, error) {
	if s == noLoss {
		return Loss{}, nil
	}
	if kind, list, ok := strings.Cut(s, ":"); ok {
		if kind != gilbertKind {
			return Loss{}, fmt.Errorf("%q has the unknown kind %q: %s", s, kind, lossHelp)
		}
		return parseGilbert(s, list)
	}
	p, err := parseProbability(s)
	if err != nil {
		return Loss{}, fmt.Errorf("%q is not a loss: %w; %s", s, err, lossHelp)
	}
	return Loss{P: p}, nil
}

func parseGilbert(s, list string) (Loss, error) {
	l := Loss{BadP: 1}
	dst := []*float64{&l.GoodToBad, &l.BadToGood, &l.BadP, &l.P}
	values := strings.Split(list, ",")
	if len(values) < 2 || len(values) > len(dst) {
		return Loss{}, fmt.Errorf("%q has %d probabilities: %s", s, len(values), lossHelp)
	}
	for i, value := range values {
		p, err := parseProbability(strings.TrimSpace(value))
		if err != nil {
			return Loss{}, fmt.Errorf("%q is not a loss: %w; %s", s, err, lossHelp)
		}
		*dst[i] = p
	}
	if l.GoodToBad == 0 || l.BadToGood == 0 {
		return Loss{}, fmt.Errorf("%q: P and R must be above 0; %s", s, lossHelp)
	}
	return l, nil
}

// parseProbability reads 0 to 1, or 0% to 100%. A percent sign becomes the exponent e-2
// in the text, so that 0.1% is exactly the number 0.001.
func parseProbability(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	number = strings.TrimSpace(number)
	if strings.Trim(number, "0123456789.e+-") != "" {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if percent && !strings.Contains(number, "e") {
		number += "e-2"
	} else if percent {
		return 0, fmt.Errorf("%q has both an exponent and a percent sign", s)
	}
	p, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if p < 0 || p > 1 {
		return 0, fmt.Errorf("%q is not within 0 to 1 (0%% to 100%%)", s)
	}
	return math.Abs(p), nil // -0 is 0
}

// String returns l in the form that ParseLoss reads.
func (l Loss) String() string {
	number := func(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }
	switch {
	case l == Loss{}:
		return noLoss
	case l.GoodToBad == 0:
		return number(l.P)
	}
	return gilbertKind + ":" + number(l.GoodToBad) + "," + number(l.BadToGood) + "," + number(l.BadP) + "," +
		number(l.P)
}

// text is l for people, in a form that ParseLoss reads.
func (l Loss) text() string {
	if l.GoodToBad != 0 || l.P == 0 {
		return l.String()
	}
	return percent(l.P)
}

// percent is a probability for people, in a form that parseProbability reads: 0.01 as 1%.
func percent(p float64) string {
	const digits = 15 // all that are sure of a float64
	s := strconv.FormatFloat(100*p, 'g', digits, 64)
	if strings.Contains(s, "e") { // which no percentage has
		return strconv.FormatFloat(p, 'g', -1, 64)
	}
	return s + "%"
}

// MarshalText is String, for Encode.
func (l Loss) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Mean is the long-run probability that a packet is lost.
func (l Loss) Mean() float64 {
	if l.GoodToBad == 0 {
		return l.P
	}
	bad := l.GoodToBad / (l.GoodToBad + l.BadToGood)
	return bad*l.BadP + (1-bad)*l.P
}

// validate refuses a loss that no link may have.
func (l Loss) validate() error {
	for _, p := range []float64{l.P, l.BadP, l.GoodToBad, l.BadToGood} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%v is out of range: must be 0 to 1 (0%% to 100%%)", p)
		}
	}
	if l.GoodToBad == 0 && (l.BadP != 0 || l.BadToGood != 0) || l.GoodToBad != 0 && l.BadToGood == 0 {
		return fmt.Errorf("bursts must both begin and end: %s", lossHelp)
	}
	return nil
}

// validateModelled refuses a loss that the link model of datapath shm cannot reproduce,
// because it sends a packet at most link.MaxAttempts times.
func (l Loss) validateModelled() error {
	if l.repeatFactor() <= MaxLoss || l.GoodToBad != 0 && l.Mean() <= MaxBurstLoss {
		return nil
	}
	return fmt.Errorf(
		"%s is too much: a link of datapath shm can lose %s of the packets, or in long bursts %s on average; %s",
		l.text(), percent(MaxLoss), percent(MaxBurstLoss), downHelp)
}

const downHelp = "to let nothing through, take the link down with `ddlemu shape --down` or, in the file, up: false"

// repeatFactor is the factor by which the probability of n losses in a row falls with
// each further loss: the larger eigenvalue of the chain's transition matrix restricted
// to lost packets.
func (l Loss) repeatFactor() float64 {
	good, bad := l.P*(1-l.GoodToBad), l.BadP*(1-l.BadToGood)
	return (good+bad)/2 + math.Hypot((good-bad)/2, math.Sqrt(l.P*l.GoodToBad*l.BadP*l.BadToGood))
}

// Queue is the queue limit at the start of a link or a receive port, and what happens to
// a segment that finds the queue full.
type Queue struct {
	Bytes  units.Size // 0 = no limit
	Policy string
}

// Queue policies.
const (
	Lossless = "lossless" // the sender is paused, as by PFC or InfiniBand's credits
	TailDrop = "taildrop" // the segment is lost
	Fair     = "fair"     // each flow has a queue of this size, served in turn; a full one pauses its flow
)

const (
	unboundedText = "unbounded"
	queueHelp     = "write lossless:1M, taildrop:1M, fair:1M or, without limit, lossless or fair"
)

// OnKernel reports whether the kernel datapath has such a queue.
func (q Queue) OnKernel() bool { return q.Policy == Lossless || q.Policy == TailDrop }

// ParseQueue reads a queue from a file or flag: POLICY:SIZE, a SIZE alone for lossless,
// or lossless or fair alone for a queue without limit.
func ParseQueue(s string) (Queue, error) {
	policy, size, ok := strings.Cut(s, ":")
	if !ok {
		switch s {
		case Lossless, unboundedText:
			return Queue{Policy: Lossless}, nil
		case Fair:
			return Queue{Policy: Fair}, nil
		case TailDrop:
			return Queue{}, fmt.Errorf("%q has no size: %s", s, queueHelp)
		}
		policy, size = Lossless, s
	}
	if policy != Lossless && policy != TailDrop && policy != Fair {
		return Queue{}, fmt.Errorf("%q has the unknown policy %q: %s", s, policy, queueHelp)
	}
	n, err := units.ParseSize(size)
	if err != nil {
		return Queue{}, fmt.Errorf("%q is not a queue: %s", s, queueHelp)
	}
	if n == 0 {
		return Queue{}, fmt.Errorf("%q has no space: %s", s, queueHelp)
	}
	return Queue{Bytes: n, Policy: policy}, nil
}

// String returns q in the form that ParseQueue reads.
func (q Queue) String() string {
	if q.Bytes == 0 {
		return q.Policy
	}
	return q.Policy + ":" + q.Bytes.String()
}

// MarshalText is String, for Encode.
func (q Queue) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// validate refuses a queue that no link may have, such as one smaller than least bytes.
func (q Queue) validate(least units.Size) error {
	switch q.Policy {
	case Lossless, Fair:
	case TailDrop:
		if q.Bytes == 0 {
			return fmt.Errorf("taildrop without a size never drops: %s", queueHelp)
		}
	default:
		return fmt.Errorf("%q is an unknown policy: %s", q.Policy, queueHelp)
	}
	if q.Bytes == 0 {
		return nil
	}
	if q.Bytes < least || q.Bytes > MaxQueue {
		return fmt.Errorf("%v is out of range: must be %v to %v, so that a segment fits", q, least, MaxQueue)
	}
	return nil
}

// ParseECN reads an ECN threshold from a file or flag: a size, or none.
func ParseECN(s string) (units.Size, error) {
	if s == "none" {
		return 0, nil
	}
	n, err := units.ParseSize(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not an ECN threshold: write 200K or none", s)
	}
	return n, nil
}

// ParseCongestion reads the congestion control of tcp: reno, cubic or none.
func ParseCongestion(s string) (string, error) {
	switch s {
	case NoCongestion, Reno, Cubic:
		return s, nil
	}
	return "", fmt.Errorf("%q is not one of %s, %s, %s", s, NoCongestion, Reno, Cubic)
}

// assign sets dst to what parse makes of text; on an error dst keeps its value.
func assign[T any](dst *T, parse func(string) (T, error), text string) error {
	v, err := parse(text)
	if err == nil {
		*dst = v
	}
	return err
}
