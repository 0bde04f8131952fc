// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"math"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// lossOf returns the fraction of packets that a hop of path loses, and the factor by which the variance of the number
// of losses exceeds the variance of independent losses. message is the size of a message in bytes.
func (m *Model) lossOf(l link.Loss, path *pathSpec, message int) (part, bursts float64) {
	if l.GoodToBad == 0 || m.transport.Kind != link.RDMA || m.transport.SelectiveRepeat {
		return configs.Loss(l).Mean(), cluster(l)
	}
	first := &m.params[path.hops[0]]
	wasted := link.MaxDiscarded
	if t := first.Serialization(first.Payload); t > 0 {
		round := int64(m.fab.Latency(path.src, path.dst)+m.fab.Latency(path.dst, path.src)) * int64(m.scale)
		wasted = int(min(round/t, link.MaxDiscarded))
	}
	return goBackN(l, wasted, max(message/int(first.Payload), 1))
}

// goBackN is lossOf for the packets that a go-back-N receiver can accept, with messages of so many packets. After a
// loss the chain also advances for each packet that the receiver discards before the sender knows of the loss: wasted
// packets, or the rest of the message. By then the burst is usually over, except at the end of a message.
func goBackN(l link.Loss, wasted, message int) (part, bursts float64) {
	c := chain{Loss: l, wasted: wasted}
	from0, from1 := c.message(0, message), c.message(1, message)
	c.clear()
	c.message(from0/(1-(from1-from0)), message) // each message begins in the state in which the one before ends
	lost := c.good*l.P + c.bad*l.BadP
	if lost == 0 {
		return 0, 1
	}
	l.GoodToBad, l.BadToGood = c.begun/c.good, c.ended/c.bad
	return lost / (c.good + c.bad), max(cluster(l), c.weighed/lost)
}

// chain follows the expected state of a Gilbert-Elliott chain along a go-back-N flow.
type chain struct {
	link.Loss
	wasted int

	good, bad    float64 // transmissions in either state
	begun, ended float64 // changes to the bad state, and back
	weighed      float64 // losses, each times (1+a)/(1-a) with a the chance that it is lost again
}

func (c *chain) clear() { *c = chain{Loss: c.Loss, wasted: c.wasted} }

// message sends a message of so many packets. x is the probability that the chain is in the bad state before it; the
// result is that probability after it.
func (c *chain) message(x float64, packets int) float64 {
	long := c.GoodToBad / (c.GoodToBad + c.BadToGood)
	step := 1 - c.GoodToBad - c.BadToGood
	for left := packets - 1; left >= 0; left-- {
		// kept is how much of the state after a loss remains when the packet is sent again.
		kept := math.Pow(step, float64(min(left, c.wasted)+1))
		goodBad, badBad := long*(1-kept), long+(1-long)*kept
		// Expected transmissions in either state until the packet arrives: the first one, and one for each loss.
		gg, gb := 1-c.P*(1-goodBad), c.P*goodBad
		bg, bb := c.BadP*(1-badBad), 1-c.BadP*badBad
		det := gg*bb - gb*bg
		good, bad := ((1-x)*bb+x*bg)/det, ((1-x)*gb+x*gg)/det
		c.good, c.bad = c.good+good, c.bad+bad
		c.begun += good * ((1-c.P)*c.GoodToBad + c.P*goodBad)
		c.ended += bad * ((1-c.BadP)*c.BadToGood + c.BadP*(1-badBad))
		again := c.BadP * badBad
		c.weighed += (good*c.P + bad*c.BadP) * (1 + again) / (1 - again)
		x = good*(1-c.P)*c.GoodToBad + bad*(1-c.BadP)*(1-c.BadToGood)
	}
	return x
}
