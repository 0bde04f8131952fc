// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// FreeSubnet skips a subnet that is in use. The test runs in a namespace, in place of the host.
func TestFreeSubnet(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: network namespaces need root")
	}
	name := fmt.Sprintf("ddlemu-test-%d", os.Getpid())
	if err := netns.Create(name); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(name)
	if !netns.Exists(name) {
		t.Error("Exists is false for a namespace that exists")
	}
	err := netns.Do(name, func() error {
		if s, err := FreeSubnet(); err != nil || s != "10.77.0.0/16" {
			return fmt.Errorf("on an empty host: %s, %w", s, err)
		}
		if err := addRoute("10.77.3.0/24"); err != nil {
			return err
		}
		if s, err := FreeSubnet(); err != nil || s != "10.78.0.0/16" {
			return fmt.Errorf("with a route in the first: %s, %w", s, err)
		}
		if used, err := OverlappingRoute("10.77.0.0/16"); err != nil || !strings.Contains(used, "10.77.3.0/24") {
			return fmt.Errorf("OverlappingRoute: %q, %w", used, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func addRoute(dst string) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := h.LinkSetUp(lo); err != nil {
		return err
	}
	_, n, err := net.ParseCIDR(dst)
	if err != nil {
		return err
	}
	return h.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: n, Scope: netlink.SCOPE_LINK})
}
