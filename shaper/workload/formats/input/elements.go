// SPDX-License-Identifier: Apache-2.0

package input

import "github.com/ddlemu/ddlemu/shaper/workload"

// Elements are bytes of each of so many parts as elements of a type that divides them: the type of the options, else
// float32, float16 or int8. If the type of the options does not divide them, the count is rounded up.
func (o Options) Elements(bytes int64, parts int) (count int64, typ string) {
	n := int64(max(parts, 1))
	if size, err := workload.TypeSize(o.Type); err == nil {
		return roundUp(bytes, size*n), o.Type
	}
	for _, typ := range []string{"float32", "float16"} {
		if size, err := workload.TypeSize(typ); err == nil && bytes%(size*n) == 0 {
			return bytes / (size * n), typ
		}
	}
	return roundUp(bytes, n), "int8"
}

func roundUp(a, b int64) int64 {
	n := a / b
	if a%b > 0 {
		n++
	}
	return n
}
