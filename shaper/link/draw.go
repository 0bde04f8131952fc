// SPDX-License-Identifier: Apache-2.0

package link

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
