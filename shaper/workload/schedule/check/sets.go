// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// part is one chunk of the input of a rank: rank << 32 | chunk.
type part uint64

// garbage stands for a chunk that nothing has written, unknown for one of which the value depends on an order that is
// not known.
const (
	garbage = part(1<<64 - 1)
	unknown = part(1<<64 - 2)
)

func partOf(rank, chunk int) part { return part(rank)<<32 | part(chunk) }

func (p part) String() string {
	if p == garbage {
		return "something never written"
	}
	return fmt.Sprintf("chunk %d of rank %d", uint32(p), p>>32)
}

// value is the number of a multiset in sets. Equal multisets have equal numbers.
type value int32

// sets are all multisets of parts that occur.
type sets struct {
	all    [][]part // sorted
	byHash map[uint64][]value
	sums   map[[2]value]value
	size   int
	// unknown is a value of which every sum is unknown too; noValue: there is none.
	unknown value
}

const noValue = value(-1)

// Limits of memory: mostParts of all multisets (512 MB), mostCells of the chunks of all GPUs (600 MB if all are used).
const (
	mostParts = 64 << 20
	mostCells = 4 << 20
)

var errTooLarge = errors.New("the schedule is too large to check: its buffers or sums have too many parts")

func newSets() *sets {
	return &sets{byHash: map[uint64][]value{}, sums: map[[2]value]value{}, unknown: noValue}
}

// of is the number of a multiset. It keeps parts.
func (s *sets) of(parts ...part) (value, error) {
	slices.Sort(parts)
	hash := uint64(len(parts))
	for _, p := range parts {
		hash = (hash ^ uint64(p)) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	for _, v := range s.byHash[hash] {
		if slices.Equal(s.all[v], parts) {
			return v, nil
		}
	}
	if s.size += len(parts); s.size > mostParts {
		return 0, errTooLarge
	}
	v := value(len(s.all))
	s.all = append(s.all, parts)
	s.byHash[hash] = append(s.byHash[hash], v)
	return v, nil
}

// certain says whether equal values are equal bytes: those with a chunk that nothing has written may differ.
func (s *sets) certain(v value) bool {
	parts := s.all[v]
	return parts[len(parts)-1] < unknown // they are sorted, and garbage and unknown are the largest
}

// sum is the multiset of both.
func (s *sets) sum(a, b value) (value, error) {
	if a == s.unknown || b == s.unknown {
		return s.unknown, nil
	}
	if a > b {
		a, b = b, a
	}
	if v, ok := s.sums[[2]value{a, b}]; ok {
		return v, nil
	}
	v, err := s.of(slices.Concat(s.all[a], s.all[b])...)
	if err == nil {
		s.sums[[2]value{a, b}] = v
	}
	return v, err
}

// text describes a multiset: the chunk that all ranks have in common first, then the ranks.
func (s *sets) text(v value) string {
	parts := s.all[v]
	if len(parts) == 1 {
		return parts[0].String()
	}
	if slices.Contains(parts, garbage) {
		return "a sum with something never written"
	}
	chunk := uint32(parts[0])
	var ranks []string
	for _, p := range parts {
		if uint32(p) != chunk {
			return list(parts)
		}
		ranks = append(ranks, fmt.Sprint(uint64(p>>32)))
	}
	return fmt.Sprintf("the sum of chunk %d of ranks %s", chunk, short(ranks))
}

func list(parts []part) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.String())
	}
	return "the sum of " + short(out)
}

func short(items []string) string {
	const most = 16
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}
