// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// MaxRanks is the maximum number of ranks of a workload.
const MaxRanks = 1 << 20

// Ranks is a list of ranks, in order. In a file it is a text such as "0-7", "0,4" or "0-28:4" (every fourth), or a
// number.
type Ranks []int

// ParseRanks reads the text of a list of ranks.
func ParseRanks(text string) (Ranks, error) {
	var out Ranks
	for _, part := range strings.Split(text, ",") {
		first, last, stride, err := parseRange(part)
		if err != nil {
			return nil, fmt.Errorf("ranks %s: %w", quoted(text), err)
		}
		for r := first; r <= last; r += stride {
			out = append(out, r)
		}
		if len(out) > MaxRanks {
			return nil, fmt.Errorf("ranks %s: more than %d", quoted(text), MaxRanks)
		}
	}
	return out, nil
}

// quoted is a text for a message, the beginning of a long one.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return strconv.Quote(text)
}

// parseRange reads 3, 0-7 or 0-28:4.
func parseRange(text string) (first, last, stride int, err error) {
	text, every, strided := strings.Cut(text, ":")
	from, to, ranged := strings.Cut(text, "-")
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		if e != nil || n < 0 || n >= MaxRanks {
			err = fmt.Errorf("%s is no rank from 0 to %d", quoted(s), MaxRanks-1)
		}
		return n
	}
	first, stride = number(from), 1
	last = first
	if ranged {
		last = number(to)
	}
	if strided {
		if stride, _ = strconv.Atoi(every); stride < 1 || !ranged {
			return 0, 0, 0, fmt.Errorf("%s is no stride, as in 0-28:4", quoted(every))
		}
	}
	if err == nil && last < first {
		err = fmt.Errorf("%d-%d ends before it begins", first, last)
	}
	return first, last, stride, err
}

// String is the shortest text of r that ParseRanks reads as r.
func (r Ranks) String() string {
	var parts []string
	for i := 0; i < len(r); {
		n, stride := r.run(i)
		switch {
		case n == 1:
			parts = append(parts, strconv.Itoa(r[i]))
		case stride == 1:
			parts = append(parts, fmt.Sprintf("%d-%d", r[i], r[i+n-1]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d:%d", r[i], r[i+n-1], stride))
		}
		i += n
	}
	return strings.Join(parts, ",")
}

// Text names the ranks: rank 3, or ranks 0-3.
func (r Ranks) Text() string {
	if len(r) == 1 {
		return "rank " + r.String()
	}
	return "ranks " + r.String()
}

// run is the length and the stride of the arithmetic progression that begins at i and is written as a range.
func (r Ranks) run(i int) (n, stride int) {
	if i+1 >= len(r) || r[i+1] <= r[i] {
		return 1, 1
	}
	stride = r[i+1] - r[i]
	for n = 2; i+n < len(r) && r[i+n]-r[i+n-1] == stride; n++ {
		continue
	}
	if n == 2 && stride > 1 {
		return 1, 1
	}
	return n, stride
}

// MarshalJSON writes a single rank as a number, others as the text.
func (r Ranks) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal(r.String())
}

// UnmarshalJSON reads a number or a text.
func (r *Ranks) UnmarshalJSON(data []byte) error {
	var text rankText
	err := text.UnmarshalJSON(data)
	if err == nil {
		*r, err = ParseRanks(string(text))
	}
	return err
}
