// SPDX-License-Identifier: Apache-2.0

package link

// Congestion says what sets the congestion window of tcp.
type Congestion uint32

// Congestion control.
const (
	NoCongestion Congestion = iota // no window but the send buffer and the receiver's
	Reno                           // RFC 5681, losses found as by RFC 6675
	Cubic                          // RFC 9438, without fast convergence
)

// Constants of congestion control, and where they come from.
const (
	initialWindow = 10 // packets, RFC 6928
	leastWindow   = 2  // packets, of the slow start threshold: RFC 5681, equation 4
	// A segment is at most this part of the window, so that what does not fill a whole
	// segment leaves little of the window unused.
	windowParts = 16
	maxBackoff  = 6 // doublings of the RTO
	// maxWindow bounds the window, in 2^-10 bytes, for the arithmetic: 2 GiB, twice the
	// largest buffer.
	maxWindow = 1 << 41
	// maxCubicTime bounds the time that cubic's curve is followed to either side of its
	// middle, in seconds/1024: 128 s, or 840 000 packets.
	maxCubicTime = 1 << 17
)

// window is the congestion window of a flow. Sizes are in 2^-10 bytes, so that what an
// acknowledgement adds to a large window is not lost in rounding.
//
// Acknowledgements are taken in by the times at which they reach the sender, all that
// come before the next segment leaves and no others. So, as everywhere, the result does
// not depend on when that is computed.
type window struct {
	size      uint64 // 0 = nothing was sent yet
	threshold uint64 // below it the window grows by slow start

	next    uint64 // first segment whose acknowledgement was not taken in
	acked   uint64 // stream offset of those that were
	lastAck int64  // when the last one came, or the timer ran out
	recover uint64 // stream offset sent at the last reduction: one per window
	limited bool   // the last segment filled the window
	timer   int64  // when the retransmission timer runs out, 0 = it does not run
	piece   uint32 // the most that the next segment may hold, bytes

	debt   uint64 // packets dropped from queues and not sent again yet
	riding uint64 // bytes of those that are under way again

	lastCame int64 // when the last segment, first copy, was at the receiver

	// Cubic's.
	epoch    int64  // when this stage of congestion avoidance began, 0 = it has not
	middle   int64  // K, seconds/1024
	origin   uint64 // W_max
	prior    uint64 // cwnd_prior
	estimate uint64 // W_est
}

// What happened to a segment, for congestion control.
const (
	segmentLost    = 1 << iota // packets of it were lost
	segmentTimeout             // and again when they were sent again
	segmentMarked              // a queue that it passed was above its ECN threshold
	segmentGone                // a queue dropped it: it takes no room behind that
)

// congested says whether the flow has a congestion window.
func (t *Transport) congested() bool { return t.Kind == TCP && t.Congestion != NoCongestion }

// slot is when the sender has the acknowledgement of the segment whose place the next
// one takes: small segments fill the room for them before they fill the buffers.
func (f *Flow) slot() int64 {
	if f.at[0] < MaxSegments {
		return 0
	}
	s := f.seg(f.at[0])
	if s.due == Never {
		return Never
	}
	return s.due + f.reverseLatency()
}

// makeRoom forgets the segment whose place the next one takes. It was acknowledged
// before that leaves.
func (f *Flow) makeRoom() {
	if f.at[0]-f.oldest == MaxSegments && f.oldest < f.arrivedS && f.oldest < f.window.next {
		f.forget()
	}
}

// open is the time from which on the window lets the next n bytes of the stream leave
// that otherwise may at ready, or Never if that is not known yet. What comes by the time
// by is taken in first.
func (f *Flow) open(offset, n uint64, ready, by int64) int64 {
	w := &f.window
	if w.size == 0 {
		w.size, w.threshold = initialWindow*uint64(f.mss())<<10, maxWindow
	}
	for {
		full := w.acked < offset && offset-w.acked+n+w.riding > w.size>>10
		at := int64(Never)
		if w.next < f.at[0] {
			if s := f.seg(w.next); s.due != Never {
				at = s.came + f.reverseLatency()
			} else if full {
				return Never
			}
		}
		timer := w.timer != 0 && w.timer <= at
		if timer {
			at = w.timer
		}
		if !full && at > by || at == Never {
			return max(ready, w.lastAck)
		}
		if timer {
			f.timeout(offset)
		} else {
			f.acknowledge(offset, at)
		}
	}
}

// acknowledge takes in the next segment's acknowledgement at time at, when the stream
// was sent up to offset.
func (f *Flow) acknowledge(offset uint64, at int64) {
	w, s := &f.window, f.seg(f.window.next)
	w.next++
	n := s.end - w.acked
	w.acked, w.lastAck = s.end, max(w.lastAck, at)
	w.riding -= min(w.riding, uint64(s.rides)*uint64(f.mss()))
	switch {
	case s.end <= w.recover:
		// Sent before the last reduction: the window stays as it is.
	case s.flags&(segmentLost|segmentMarked) != 0:
		f.reduce(offset)
		if s.flags&segmentTimeout != 0 {
			w.timer = at + f.Transport.RTO
		}
	case w.limited:
		w.grow(f, n, at)
	default:
		w.epoch = 0 // what does not fill its window learns nothing about it
	}
}

// reduce is fast recovery, once for all that was lost of a window.
func (f *Flow) reduce(offset uint64) {
	w := &f.window
	w.prior, w.origin, w.epoch = w.size, w.size, 0
	w.threshold = max(f.backOff(w.size), leastWindow*uint64(f.mss())<<10)
	w.size = w.threshold
	w.recover = offset
}

// timeout is what the retransmission timer does. The loss that it runs for has lowered
// the threshold already.
func (f *Flow) timeout(offset uint64) {
	w := &f.window
	w.size, w.epoch, w.recover = uint64(f.mss())<<10, 0, offset
	w.lastAck, w.timer = max(w.lastAck, w.timer), 0
}

// backOff is the window after a loss.
func (f *Flow) backOff(size uint64) uint64 {
	if f.Transport.Congestion == Cubic {
		return size * 7 / 10 // beta, RFC 9438, 4.6
	}
	return size / 2
}

// grow is what the acknowledgement of n bytes at time at adds.
func (w *window) grow(f *Flow, n uint64, at int64) {
	mss := uint64(f.mss())
	switch {
	case w.size < w.threshold:
		w.size += n << 10
	case f.Transport.Congestion == Reno:
		w.size += mss * n << 20 / w.size // RFC 5681, equation 3
	default:
		w.cubic(f, n, at)
	}
	w.size = min(w.size, maxWindow)
}

// cubic is RFC 9438, 4.2 to 4.5.
func (w *window) cubic(f *Flow, n uint64, at int64) {
	mss, tick := uint64(f.mss()), max(f.Transport.Second>>10, 1)
	if w.epoch == 0 {
		w.epoch, w.middle, w.estimate = at, 0, w.size
		if w.origin > w.size {
			// K^3 = (W_max - cwnd)/C, with C = 0.4 packets per second^3.
			w.middle = int64(cubeRoot((w.origin - w.size) * 5 << 19 / mss))
		} else {
			w.origin = w.size
		}
	}
	// Nine seventeenths is 3(1-beta)/(1+beta), by which growth is as fast as Reno's.
	if w.estimate < w.prior {
		w.estimate += mss * n << 20 / w.size * 9 / 17
	} else {
		w.estimate += mss * n << 20 / w.size
	}
	now := (at - w.epoch) / tick
	if w.curve(now-w.middle, mss) < w.estimate {
		w.size = max(w.size, w.estimate)
		return
	}
	target := w.curve((at-w.epoch+f.roundTrip())/tick-w.middle, mss)
	target = min(max(target, w.size), w.size+w.size/2)
	w.size += (target - w.size) * n / (w.size >> 10)
}

// curve is W_cubic t after its middle, t in seconds/1024.
func (w *window) curve(t int64, mss uint64) uint64 {
	u := uint64(min(max(t, -t), maxCubicTime))
	d := ((u * u * u >> 10) * mss * 2 / 5) >> 10
	if t < 0 {
		return w.origin - min(w.origin, d)
	}
	return w.origin + d
}

// cubeRoot is the integer part of the cube root (Warren, Hacker's Delight, 11-2).
func cubeRoot(x uint64) uint64 {
	y := uint64(0)
	for s := 63; s >= 0; s -= 3 {
		y *= 2
		b := 3*y*(y+1) + 1
		if x>>s >= b {
			x -= b << s
			y++
		}
	}
	return y
}

// leave notes that the stream was sent up to offset, and decides how long the next
// segment may be.
func (f *Flow) leave(offset uint64) {
	w := &f.window
	mss, size := uint64(f.mss()), f.window.size>>10
	w.piece = uint32(min(max(size/windowParts/mss, 1)*mss, MaxSegment))
	flight := offset - w.acked + w.riding
	w.limited = flight+uint64(w.piece) > size || w.size < w.threshold && 2*flight > size
}

// repay is how many packets that queues have dropped go with a segment of so many.
func (f *Flow) repay(offset uint64, packets uint32) uint32 {
	w := &f.window
	if w.acked >= offset {
		w.debt = 0 // there was time for that
	}
	n := min(w.debt, uint64(packets))
	w.debt -= n
	w.riding += n * uint64(f.mss())
	return uint32(n)
}

// mss is the payload of a full packet.
func (f *Flow) mss() uint32 { return f.Path[0].Params.Payload }
