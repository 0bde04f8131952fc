// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
)

// FittedRows are the rows of a measured table that figures were fitted to.
type FittedRows struct {
	Table string     // name of the file, without its folder
	UpTo  units.Size // the largest size of these rows; 0 = all rows
}

const upTo = " up to "

// ParseFittedRows reads the name of a table, such as x.csv, or "x.csv up to 32K".
func ParseFittedRows(s string) (r FittedRows, err error) {
	name, size, some := strings.Cut(s, upTo)
	if r.Table = strings.TrimSpace(name); r.Table == "" || strings.Contains(r.Table, "/") || !printable(r.Table) {
		return r, fmt.Errorf("%q: must be the name of a table's file, without its folder", s)
	}
	if !some {
		return r, nil
	}
	if r.UpTo, err = units.ParseSize(size); err == nil && r.UpTo == 0 {
		err = errors.New("must be above 0")
	}
	if err != nil {
		return r, fmt.Errorf("%q: %w", s, err)
	}
	return r, nil
}

// String is the text that ParseFittedRows reads.
func (r FittedRows) String() string {
	if r.UpTo == 0 {
		return r.Table
	}
	return r.Table + upTo + r.UpTo.String()
}

// MarshalText writes what ParseFittedRows reads.
func (r FittedRows) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// FittedUpTo is the largest size in bytes of the rows of a table that figures of f or of its kind of GPU were fitted
// to; 0 if there are none.
func (f *Fabric) FittedUpTo(table string) (size int64) {
	all := f.FittedTo
	if f.GPU != nil && f.GPU.Time != nil && f.NodeTime {
		all = append(all[:len(all):len(all)], f.GPU.Time.FittedTo...)
	}
	for _, r := range all {
		switch {
		case r.Table != table:
		case r.UpTo == 0:
			return math.MaxInt64
		default:
			size = max(size, int64(r.UpTo))
		}
	}
	return size
}
