// SPDX-License-Identifier: Apache-2.0

package link

// FlowID is the number of a flow, which selects its random draws. It depends on the ranks at both ends and on how many
// connections the sender made to the receiver before.
func FlowID(sender, receiver int, number uint64) uint64 {
	return Draw(uint64(uint32(sender))<<32|uint64(uint32(receiver)), 0, 0, number, 0)
}

// PathID is what the path of a flow is drawn by, where each flow has a path of its own. It depends on the receiving
// rank and on how many connections that had listened for before. So it is the same in every run, whichever process of
// the sending node makes the connection.
func PathID(receiver int, listened uint64) uint64 {
	return Draw(uint64(uint32(receiver)), 0, 0, 0, listened)
}

// Draw is the counter-based random number generator of the model: 64 bits that
// depend only on the arguments. It is the finaliser of SplitMix64 (Steele, Lea,
// Flood 2014) applied over the words in turn.
func Draw(seed uint64, hop, kind uint32, flow, counter uint64) uint64 {
	h := mix(seed ^ 0x9e3779b97f4a7c15*(uint64(hop)<<8|uint64(kind)))
	h = mix(h ^ flow)
	return mix(h ^ counter)
}

func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
