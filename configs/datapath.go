// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

var (
	datapaths = []string{Shm, Kernel}
	shapers   = []string{AutoShaper, EDTShaper, NetemShaper, HTBShaper, WireShaper}
)

// ParseDatapath reads Shm or Kernel.
func ParseDatapath(s string) (string, error) { return oneOf(s, datapaths) }

// HasGPUDirect reports whether f's NICs access the GPUs' memory directly.
func (f *Fabric) HasGPUDirect() bool {
	if f.GPUDirect != nil {
		return *f.GPUDirect
	}
	return f.Transport.Kind == RDMA
}

// ParseShaper reads a shaper of the kernel datapath.
func ParseShaper(s string) (string, error) { return oneOf(s, shapers) }

func oneOf(s string, allowed []string) (string, error) {
	if !slices.Contains(allowed, s) {
		return "", fmt.Errorf("%q is not one of %s", s, strings.Join(allowed, ", "))
	}
	return s, nil
}

// among returns a function that reads one of these words.
func among(allowed ...string) func(string) (string, error) {
	return func(s string) (string, error) { return oneOf(s, allowed) }
}

// ParseSubnet reads a private IPv4 network (RFC 1918) with a prefix of 16 bits.
func ParseSubnet(s string) (string, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Bits() != 16 || p.Masked() != p || !p.Addr().IsPrivate() {
		return "", fmt.Errorf("%q is not a private IPv4 network of 16 bits, like 10.77.0.0/16", s)
	}
	return s, nil
}

// OnKernel reports whether f uses the kernel datapath.
func (f *Fabric) OnKernel() bool { return f.Datapath == Kernel }

// DatapathName is f's datapath, Shm or Kernel.
func (f *Fabric) DatapathName() string { return cmp.Or(f.Datapath, Shm) }

// MaxKernelNodes is the most nodes that the kernel datapath has addresses for.
const MaxKernelNodes = 254

// validateDatapath checks the datapath, and the values that only the kernel datapath has.
func (f *Fabric) validateDatapath() error {
	if f.Datapath != "" && !slices.Contains(datapaths, f.Datapath) {
		return Errorf("datapath", "%q is not one of %s", f.Datapath, strings.Join(datapaths, ", "))
	}
	if f.OnKernel() {
		if f.Nodes > MaxKernelNodes {
			return Errorf("nodes", "%d: must be 1 to %d on the kernel datapath", f.Nodes, MaxKernelNodes)
		}
		if f.Shaper != "" && !slices.Contains(shapers, f.Shaper) {
			return Errorf("shaper", "%q is not one of %s", f.Shaper, strings.Join(shapers, ", "))
		}
		if f.Subnet != "" {
			if _, err := ParseSubnet(f.Subnet); err != nil {
				return Errorf("subnet", "%w", err)
			}
		}
		return nil
	}
	if f.Shaper != "" && f.Shaper != AutoShaper {
		return Errorf("shaper", "%q given for the datapath shm: only kernel has shapers", f.Shaper)
	}
	if f.Subnet != "" {
		return Errorf("subnet", "%s given for the datapath shm: only kernel has addresses", f.Subnet)
	}
	return nil
}

// validateKernel refuses features of the link model that the kernel datapath lacks,
// because the kernel's own TCP runs between network namespaces. ValidateLink checks the
// links.
func (f *Fabric) validateKernel() error {
	if !f.OnKernel() {
		return nil
	}
	if !f.Topology.IsStar() {
		return Errorf("topology", "%s: the kernel datapath has the topology star only; use --set datapath=%s",
			f.Topology.Kind, Shm)
	}
	if f.Transport.Kind != TCP {
		return Errorf("transport", "%s, but the kernel datapath is real TCP: add --set transport=%s, or use --set datapath=%s",
			f.Transport.Kind, TCP, Shm)
	}
	if c := f.Transport.Congestion; c != "" && c != Cubic {
		return Errorf("transport.congestion", "%s given for the datapath kernel: there it is the kernel's own %s", c,
			Cubic)
	}
	return nil
}
