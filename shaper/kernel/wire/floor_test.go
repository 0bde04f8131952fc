// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

func TestFloor(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: network namespaces need root")
	}
	f, err := MeasureFloor(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.P50 <= 0 || f.P50 > 5*time.Millisecond || f.P99 < f.P50 {
		t.Errorf("%+v is not plausible", f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := MeasureFloor(ctx); err == nil {
		t.Error("no error although the context is done")
	}
	remaining, err := netns.List("ddlemu-")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range remaining {
		if len(name) > 16 && name[16:] == "floor-switch" {
			t.Errorf("network namespace %s was not removed", name)
		}
	}
}
