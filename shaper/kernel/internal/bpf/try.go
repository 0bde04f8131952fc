// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Try loads the programs and attaches them to the interface called dev in the thread's namespace, then removes them. It
// returns nil if this kernel supports them. With edt, the programs compute departure times.
func Try(dev string, edt bool) error {
	spec, err := loadSpec(edt)
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
