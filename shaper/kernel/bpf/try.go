// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Try is nil if this kernel takes the programs, with stamp also those that compute
// departure times: it loads them and attaches them to an interface of the namespace
// that the thread is in.
func Try(dev string, stamp bool) error {
	spec, err := wanted(stamp)
	if err != nil {
		return err
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load the BPF programs: %w", err)
	}
	defer c.Close()
	p := &Programs{}
	err = errors.Join(
		p.attachTo(dev, ebpf.AttachTCXEgress, c.Programs[shapeProgTx]),
		p.attachTo(dev, ebpf.AttachTCXIngress, c.Programs[shapeProgRx]))
	for _, a := range p.attached {
		err = errors.Join(err, a.Close())
	}
	if err != nil {
		return fmt.Errorf("attach the BPF programs: %w", err)
	}
	return nil
}
