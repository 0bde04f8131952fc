// SPDX-License-Identifier: Apache-2.0

package schedule

// Sends says whether the step sends messages.
func (s *Step) Sends() bool { return s.Count > 0 && s.Kind.Sends() }

// Receives says whether the step receives messages.
func (s *Step) Receives() bool { return s.Count > 0 && s.Kind.Receives() }

// Moves says whether the step sends, receives, copies or adds anything.
func (s *Step) Moves() bool { return s.Count > 0 && s.Kind != NopStep }

// Messages is the number of messages that a block sends and receives in a call.
func (c *Cut) Messages(b *Block) (out, in uint64) {
	for i := range b.Steps {
		s := &b.Steps[i]
		n := uint64((s.Count+c.Group-1)/c.Group) * uint64(c.Slices) * uint64(c.Loops)
		if s.Kind.WithoutData() {
			n = uint64(c.Loops)
		}
		if s.Kind.Sends() {
			out += n
		}
		if s.Kind.Receives() {
			in += n
		}
	}
	return out, in
}

// EachMessage calls f for the messages that a block sends in a call, messages of equal size together.
func (c *Cut) EachMessage(b *Block, f func(payload, wire, times uint64)) {
	last := c.Chunk - uint64(c.Loops-1)*c.Piece // bytes of a chunk in the last loop
	for i := range b.Steps {
		s := &b.Steps[i]
		if !s.Kind.Sends() {
			continue
		}
		if s.Kind.WithoutData() {
			f(0, signalBytes, uint64(c.Loops))
			continue
		}
		full, rest := s.Count/c.Group, s.Count%c.Group
		for _, op := range []struct{ chunks, times int }{{c.Group, full}, {rest, min(rest, 1)}} {
			if op.times == 0 {
				continue
			}
			for k := range c.Slices {
				if c.Loops > 1 {
					payload, wire := c.Message(s.Proto, c.Piece*uint64(op.chunks), k)
					f(payload, wire, uint64(op.times)*uint64(c.Loops-1))
				}
				payload, wire := c.Message(s.Proto, last*uint64(op.chunks), k)
				f(payload, wire, uint64(op.times))
			}
		}
	}
}
