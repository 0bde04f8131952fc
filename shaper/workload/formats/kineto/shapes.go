// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// shapes are the arguments of an operator: their dimensions and their types.
type shapes struct {
	dims  []json.RawMessage
	types []string
}

func (a *args) shapes() (s shapes) {
	if json.Unmarshal(a.Dims, &s.dims) != nil || json.Unmarshal(a.Types, &s.types) != nil {
		return shapes{}
	}
	return s
}

// dtype is the type of the elements of a tensor; "" if it is not recorded, as for a list.
func (s shapes) dtype(i int) string {
	if i >= len(s.types) || strings.HasSuffix(s.types[i], "List") || s.types[i] == "Scalar" {
		return ""
	}
	return s.types[i]
}

// elements is the number of elements of a tensor, or of the tensors of a list; -1 if it is not recorded.
func (s shapes) elements(i int) int64 {
	if i >= len(s.dims) {
		return -1
	}
	var list []json.RawMessage
	if json.Unmarshal(s.dims[i], &list) != nil {
		return -1
	}
	if len(list) == 0 {
		if s.dtype(i) != "" { // a tensor without dimensions has one element
			return 1
		}
		return -1
	}
	if list[0][0] != '[' {
		return product(s.dims[i])
	}
	sum := int64(0)
	for _, one := range list {
		n := product(one)
		if n < 0 || sum > math.MaxInt64-n {
			return -1
		}
		sum += n
	}
	return sum
}

// all is the number of elements of all tensors; -1 if one of them is not recorded, or if there is none.
func (s shapes) all() int64 {
	sum := int64(-1)
	for i := range s.dims {
		n := s.elements(i)
		if n < 0 || max(sum, 0) > math.MaxInt64-n {
			return -1
		}
		sum = max(sum, 0) + n
	}
	return sum
}

// product is the product of dimensions such as [8, 6]; -1 if it is none.
func product(dims json.RawMessage) int64 {
	var shape []int64
	if json.Unmarshal(dims, &shape) != nil || slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }) {
		return -1
	}
	n := int64(1)
	for _, d := range shape {
		if d > 0 && n > math.MaxInt64/d {
			return -1
		}
		n *= d
	}
	return n
}

// row is the number of elements of a tensor for each of its first dimension; 0 if it is not recorded.
func (s shapes) row() int64 {
	if len(s.dims) == 0 {
		return 0
	}
	dims := s.dims[0]
	var list []json.RawMessage
	if json.Unmarshal(dims, &list) == nil && len(list) == 1 && list[0][0] == '[' {
		dims = list[0]
	}
	var shape []int64
	if json.Unmarshal(dims, &shape) != nil || len(shape) == 0 || shape[0] < 1 {
		return 0
	}
	return max(product(dims), 0) / shape[0]
}
