// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Skew is by how much some experts are chosen more often than others. The n-th expert has the weight n^-Zipf. At most
// one of the two is set; the zero value is no skew.
type Skew struct {
	Zipf float64
	// Hottest is how many times the mean of all experts the first expert gets; its Zipf exponent follows.
	Hottest float64
}

// ParseSkew reads zipf:1.2, or 3x.
func ParseSkew(text string) (Skew, error) {
	if exponent, ok := strings.CutPrefix(text, "zipf:"); ok {
		if x, err := strconv.ParseFloat(exponent, 64); err == nil && x >= 0 && x <= 20 {
			return Skew{Zipf: x}, nil
		}
	}
	if ratio, ok := strings.CutSuffix(text, "x"); ok {
		if x, err := strconv.ParseFloat(ratio, 64); err == nil && x >= 1 && x <= 1e6 {
			return Skew{Hottest: x}, nil
		}
	}
	return Skew{}, fmt.Errorf(
		"%q is no skew: write 3x, if the hottest expert gets 3 times the mean, or zipf:1.2 for a Zipf exponent of "+
			"0 to 20", text)
}

// String is the text that ParseSkew reads.
func (s Skew) String() string {
	switch {
	case s.Hottest > 0:
		return fmt.Sprintf("%gx", s.Hottest)
	case s.Zipf > 0:
		return fmt.Sprintf("zipf:%g", s.Zipf)
	}
	return ""
}

// Routing says how the tokens of a mixture of experts choose their experts. The zero value sends each expert as many.
type Routing struct {
	Skew Skew
	// Capacity is the capacity factor: an expert takes at most Capacity * tokens * top-k / experts of the tokens of a
	// rank, rounded up, and the others are dropped (Lepikhin et al. 2020, arXiv:2006.16668). 0 is no limit.
	Capacity float64
	// Drawn draws the experts of each token from Seed, and which experts are the hot ones for each layer. Else each
	// expert gets its expected number of tokens, and the first expert of each layer is the hottest.
	Drawn bool
	Seed  uint64
}

// uneven says whether experts can get different numbers of tokens.
func (r *Routing) uneven() bool { return r.Skew != Skew{} || r.Drawn || r.Capacity > 0 }

func (r *Routing) validate(experts, topK int) error {
	if experts == 0 {
		if r.uneven() {
			return errors.New("a skew, a capacity factor and a seed are of experts: give the number of experts")
		}
		return nil
	}
	if most := float64(experts) / float64(topK); r.Skew.Hottest > most {
		return fmt.Errorf(
			"skew %v: a token chooses an expert once, so the hottest of %d experts gets at most %g times the mean "+
				"with top-k %d", r.Skew, experts, most, topK)
	}
	if !(r.Capacity >= 0 && r.Capacity <= 1e6) {
		return fmt.Errorf("capacity factor %g: must be above 0, and 1000000 at most", r.Capacity)
	}
	return nil
}

// chances are for each expert, from the hottest on, the chance that a token chooses it. They add up to topK.
func (r *Routing) chances(experts, topK int) []float64 {
	if r.Skew.Hottest <= 0 {
		return zipf(r.Skew.Zipf, experts, topK)
	}
	low, high := 0.0, 64.0
	for range 60 {
		middle := (low + high) / 2
		if zipf(middle, experts, topK)[0]*float64(experts)/float64(topK) < r.Skew.Hottest {
			low = middle
		} else {
			high = middle
		}
	}
	return zipf(high, experts, topK)
}

// zipf are the chances of experts with weights n^-exponent. A token chooses an expert once, so none is above 1: what
// the first experts cannot take, the others share by their weights.
func zipf(exponent float64, experts, topK int) []float64 {
	chances, rest := make([]float64, experts), 0.0
	for i := range chances {
		chances[i] = math.Pow(float64(i+1), -exponent)
		rest += chances[i]
	}
	full := 0
	for ; full < topK && chances[full]*float64(topK-full) >= rest; full++ {
		rest -= chances[full]
		chances[full] = 1
	}
	for i := full; i < experts; i++ {
		if rest > 0 {
			chances[i] *= float64(topK-full) / rest
		}
	}
	return chances
}

// router distributes the tokens of a layer.
type router struct {
	*Routing
	experts, topK int
	chances       []float64
	sums          []float64 // of the chances up to each expert
	// routed and dropped are the choices of tokens so far.
	routed, dropped int64
}

func newRouter(r *Routing, experts, topK int) *router {
	out := &router{Routing: r, experts: experts, topK: topK, chances: r.chances(experts, topK)}
	sum := 0.0
	for _, p := range out.chances {
		sum += p
		out.sums = append(out.sums, sum)
	}
	return out
}

// take returns how many of the tokens of a rank each expert gets. place numbers the calls of a layer, so that equal
// numbers draw the same.
func (r *router) take(tokens int64, layer int, place uint64) []int64 {
	counts := make([]int64, r.experts)
	if !r.Drawn {
		copy(counts, apportion(r.chances, tokens, int64(r.topK)))
	} else {
		order := rand.New(rand.NewPCG(r.Seed, uint64(layer))).Perm(r.experts)
		draw := rand.New(rand.NewPCG(r.Seed^0x9e3779b97f4a7c15, place))
		for range tokens {
			r.choose(draw.Float64(), func(expert int) { counts[order[expert]]++ })
		}
	}
	for i, n := range counts {
		r.routed += n
		if r.Capacity > 0 {
			kept := min(n, int64(math.Ceil(r.Capacity*float64(tokens)*float64(r.topK)/float64(r.experts))))
			r.dropped += n - kept
			counts[i] = kept
		}
	}
	return counts
}

// choose calls add for the experts of a token: one for each whole number that the sum of the chances passes, counted
// from start, which is uniform in [0, 1). So each expert is chosen with its chance, and none twice (systematic
// sampling).
func (r *router) choose(start float64, add func(expert int)) {
	next := 0
	for n := range r.topK {
		i, _ := slices.BinarySearchFunc(r.sums, start+float64(n), func(sum, passed float64) int {
			if sum <= passed {
				return -1
			}
			return 1
		})
		i = min(max(i, next), r.experts-r.topK+n) // a sum of chances of 1 may be rounded to either side
		add(i)
		next = i + 1
	}
}

// apportion returns whole numbers close to chances times tokens whose sum is tokens * topK: rounded down, and one more
// for those with the largest remainders.
func apportion(chances []float64, tokens, topK int64) []int64 {
	counts, order := make([]int64, len(chances)), make([]int, len(chances))
	rest := tokens * topK
	part := func(i int) float64 { return chances[i] * float64(tokens) }
	for i := range chances {
		order[i] = i
		counts[i] = min(int64(part(i)), tokens)
		rest -= counts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(part(b)-float64(counts[b]), part(a)-float64(counts[a]))
	})
	for _, i := range order {
		if rest > 0 && counts[i] < tokens {
			counts[i]++
			rest--
		}
	}
	return counts
}

// exchange is how many tokens each expert parallel rank sends to each other, by source and destination.
type exchange [][]int64

// exchange routes the tokens of each of ep ranks to the ranks of their experts.
func (r *router) exchange(ep int, tokens int64, layer int, place uint64) exchange {
	out := make(exchange, ep)
	for source := range ep {
		out[source] = make([]int64, ep)
		for expert, n := range r.take(tokens, layer, place*uint64(ep)+uint64(source)) {
			out[source][expert/(r.experts/ep)] += n
		}
	}
	return out
}

// received is how many tokens a rank gets.
func (x exchange) received(rank int) (sum int64) {
	for _, sends := range x {
		sum += sends[rank]
	}
	return sum
}

// calls are what a rank calls in an all-to-all of these tokens, of so many elements each: a group of sends and
// receives. Back is the reverse, from the experts to the tokens' ranks. PyTorch does the same for all_to_all_single
// with split sizes.
func (x exchange) calls(rank int, elements int64, back bool, comm, kind string) (parts []workload.Op) {
	add := func(what workload.Kind, peer int, tokens int64) {
		if tokens > 0 {
			parts = append(parts, workload.Op{Kind: what, Comm: comm, Peer: peer, Count: tokens * elements, Type: kind})
		}
	}
	for peer := range x {
		sends, receives := x[rank][peer], x[peer][rank]
		if back {
			sends, receives = receives, sends
		}
		add(workload.Send, peer, sends)
		add(workload.Recv, peer, receives)
	}
	return parts
}

// note says what the routing was.
func (r *router) note() string {
	if !r.uneven() {
		return "experts: each gets as many tokens as any other"
	}
	text := fmt.Sprintf("experts: the hottest is chosen %.3g times as often as the mean",
		r.chances[0]*float64(r.experts)/float64(r.topK))
	if r.Drawn {
		text += fmt.Sprintf("; the experts of each token, and which are hot in each layer, are drawn from seed %d",
			r.Seed)
	} else {
		text += "; each gets its expected number of tokens, the first experts of each layer are the hot ones"
	}
	if r.Capacity > 0 {
		text += fmt.Sprintf("; capacity factor %g drops %.3g %% of the choices", r.Capacity,
			100*float64(r.dropped)/float64(max(r.routed, 1)))
	}
	return text + "; experts compute in proportion to their tokens, as long as given with the mean"
}
