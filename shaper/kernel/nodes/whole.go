// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"
)

// whole is a list that the kernel gave in one piece: one that changes meanwhile, as
// when a namespace is going, is asked for again.
func whole[T any](list func() ([]T, error)) ([]T, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		all, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || time.Now().After(end) {
			return all, err
		}
	}
}
