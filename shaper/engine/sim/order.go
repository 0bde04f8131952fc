// SPDX-License-Identifier: Apache-2.0

package sim

// #include "sim.h"
import "C"

import "slices"

// Order is the order of a flow on a virtual clock: by sender, distance to the receiver and number (flow_order in
// sim.h).
func Order(sender, receiver int, number uint64) uint64 {
	return uint64(C.flow_order(0, C.uint64_t(sender), C.uint64_t(receiver), C.uint64_t(number)))
}

// Orders puts n flows in an order and returns the number of each in it. compare must not be 0 for two of them unless
// their own numbers say which is first.
func Orders(n int, compare func(a, b int) int) []uint64 {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	orders := make([]uint64, n)
	for at, i := range order {
		orders[i] = uint64(at)
	}
	return orders
}
