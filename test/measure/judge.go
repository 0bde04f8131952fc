// SPDX-License-Identifier: Apache-2.0

package measure

import "fmt"

const (
	// costs is how much of its rate a shaper may lose, per share of the time for which timers are late. HTB loses that
	// share: while processors were stopped so that timers were late for 6, 10 and 22 % of the time, a rate of 1 Gb/s
	// was 6, 9 and 21 % too low. The rest is for the sender, the receiver and the acknowledgements, which may be late
	// too.
	costs = 1.5
	// disturbed is the share of the time for which timers are late from which on a right rate proves nothing: a rate
	// that is 10 % too high would be at most 4.5 % lower, and so still above the largest tolerance, 5 %.
	disturbed = 0.03
	// tooLate is the share of the time for which timers are late from which on a rate may be lower by any amount: a
	// sender or receiver on the processor that stops the most loses more than the mean of all processors.
	tooLate = 0.1
	// enough is how many tries must be judged. One right try can be luck; three of five are not for a shaper that is
	// right once in ten (1 %).
	enough = 3
	// leastJudged is the share of all tries that must be judged before a check fails. After a stop a shaper in user
	// space sends at once what it owes, so that a few tries of a right shaper are too high on a machine that stops.
	leastJudged = 0.25
)

// Result is what one try of a measurement found. It is right if nothing is low, late or wrong.
type Result struct {
	Got    string  // as text
	IsRate bool    // it has a rate, which late timers make lower
	Low    float64 // by which share a rate is too low, beyond its tolerance
	Late   bool    // packets came later than they may
	Wrong  bool    // what late timers cannot cause: too high a rate, too early a packet, a loss, another verdict
}

// Rate is the result of a measured rate, which may differ from want by a relative tolerance.
func Rate(got, want, tolerance float64) Result {
	return Result{Got: fmt.Sprintf("%.4g, want %.4g", got, want), IsRate: true, Low: max(0, 1-tolerance-got/want),
		Wrong: !(got <= want*(1+tolerance))} // also NaN
}

// Exact is the result of a measurement that late timers cannot change: it is right or wrong.
func Exact(got any, right bool) Result { return Result{Got: fmt.Sprint(got), Wrong: !right} }

// judgement is what a try says of what was measured.
type judgement int

const (
	setAside judgement = iota // the machine's timers were late: the try says nothing
	right
	wrong
)

// judge judges a result. late is how late timers were while it was measured. Other programs take time from senders,
// receivers and shapers in user space, so their timers count for rates that are too low or packets that are late. A
// right rate must be measured on a machine that is in time.
func (r Result) judge(late lateness) judgement {
	most := max(late.machine, late.programs)
	switch {
	case r.Wrong:
		return wrong
	case r.Late && most <= disturbed:
		return wrong
	case r.Low > costs*most && most <= tooLate:
		return wrong
	case r.Late, r.Low > 0, r.IsRate && late.machine > disturbed:
		return setAside
	}
	return right
}

// Verdict is what all tries of a check say.
type Verdict int

// Verdicts of a check.
const (
	Passes Verdict = iota
	Fails
	NotJudged // the machine's timers were late in too many tries
)

func (v Verdict) String() string { return [...]string{"passes", "fails", "not judged"}[v] }

// tally counts tries by what they say.
type tally struct{ tries, right, wrong int }

func (t *tally) add(j judgement) {
	t.tries++
	switch j {
	case right:
		t.right++
	case wrong:
		t.wrong++
	case setAside:
	}
}

// verdict is Passes if enough tries are right. Otherwise it is what the check has to say if there are no further tries.
func (t *tally) verdict() Verdict {
	judged := t.right + t.wrong
	switch {
	case t.right >= enough && t.right >= t.wrong:
		return Passes
	case judged >= enough && float64(judged) >= leastJudged*float64(t.tries):
		return Fails
	}
	return NotJudged
}
