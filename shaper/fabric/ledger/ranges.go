// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"strings"
)

// maxDepth is how deep ranges nest at most: more is damage.
const maxDepth = 1 << 20

func (r *RangeRecord) isSane() bool {
	return r.Begun >= 0 && r.Begun <= maxTime && (r.Ended == 0 || r.Ended >= r.Begun && r.Ended <= maxTime) &&
		r.Style <= Mark && r.Depth <= maxDepth
}

// read is the range of a record, with its names.
func (r *RangeRecord) read(names []byte) Range {
	return Range{
		Number: r.Number, Thread: r.Thread, Name: nameAt(names, r.Name), Domain: nameAt(names, r.Domain),
		Style: r.Style,
		Depth: int(r.Depth), Order: r.Order, Begun: r.Begun, Ended: r.Ended,
	}
}

// namesOf is the names in a file with so many bytes written.
func namesOf(b []byte, used uint64) []byte {
	if len(b) < namesAt {
		return nil
	}
	return b[namesAt:min(uint64(len(b)), namesAt+min(used, namesSize))]
}

// nameAt is the name at a place, "" if there is no whole one.
func nameAt(names []byte, at uint32) string {
	if at == 0 || uint64(at) >= uint64(len(names)) {
		return ""
	}
	end := bytes.IndexByte(names[at:], 0)
	return strings.ToValidUTF8(string(names[at:][:max(end, 0)]), "\uFFFD")
}
