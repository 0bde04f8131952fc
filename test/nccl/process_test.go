// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// A communicator that is made after the last one was destroyed uses the plugin too. NCCL unloads the plugin in between,
// and some versions forget its name.
func TestInitDestroyInit(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, version := range []string{"2.22", "2.29"} {
		dir, logs := folder(t), t.TempDir()
		env := []string{"ROUNDS=3", "NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=" + logs + "/%p"}
		out, err := ddlemu(t.Context(), t, dir, env, "run", "--profile", "eth10", "--soft-cuda", "--nccl", version,
			"--", bin).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		files, _ := filepath.Glob(logs + "/*")
		if len(files) != 2 {
			t.Fatalf("%d logs of 2 ranks", len(files))
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			ours := regexp.MustCompile(`via NET/goemu`).FindAll(text, -1)
			others := regexp.MustCompile(`via (P2P|SHM|NET/(Socket|IB))\S*`).FindAllString(string(text), -1)
			inits := strings.Count(string(text), "Init COMPLETE")
			if inits != 3 || len(ours) < 3 || len(others) > 0 {
				t.Errorf("NCCL %s: %d communicators, %d connections via NET/goemu, others %v", version, inits,
					len(ours), others)
			}
		}
	}
}

// The ranks share only the folder of fabrics: each has separate mount and pid namespaces, and a /dev/shm of 64 MB,
// which 4 ranks with 16 channels each do not fill.
func TestContainersThatShareOnlyTheFolder(t *testing.T) {
	t.Parallel()
	needs.Root(t, "a namespace for each rank")
	bin, dir := program(t), folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := ddlemu(ctx, t, dir, nil, "up", "--profile", "eth10", "--nodes", "4", "--name",
		"shared").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() {
		if out, err := ddlemu(context.Background(), t, dir, nil, "down").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	const world = 4
	script := `mkdir -p "$KEEP" && mount --bind "$DDLEMU_DIR" "$KEEP" && mount -t tmpfs -o size=64m tmpfs /dev/shm &&
mkdir -m 700 "$DDLEMU_DIR" && mount --move "$KEEP" "$DDLEMU_DIR" && exec "$0"`
	ids := filepath.Join(t.TempDir(), "id")
	var ranks []*exec.Cmd
	var outs []*strings.Builder
	for r := range world {
		cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "--pid", "--fork",
			"--mount-proc", "sh", "-c", script, bin)
		cmd.Env = append(built.Environ(), "DDLEMU_DIR="+dir, "KEEP="+filepath.Join(t.TempDir(), "keep"),
			"LD_LIBRARY_PATH="+built.Path(t, "softcuda", "lib")+":"+built.Path(t, "lib"),
			"NCCL_NET_PLUGIN=goemu", "NCCL_NET=goemu", "NCCL_SOCKET_IFNAME=lo", "NCCL_MIN_NCHANNELS=16",
			"NCCL_MAX_NCHANNELS=16",
			"DDLEMU_JOB=containers", fmt.Sprintf("RANK=%d", r), fmt.Sprintf("WORLD_SIZE=%d", world), "ID_FILE="+ids)
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ranks, outs = append(ranks, cmd), append(outs, out)
	}
	for r, cmd := range ranks {
		if err := cmd.Wait(); err != nil {
			t.Errorf("rank %d: %v:\n%s", r, err, outs[r])
		}
	}
	carried := uint64(0)
	for _, l := range links(t, dir) {
		carried += l.Bytes
	}
	// With ring or tree, an AllReduce of 4 MiB moves at least 2 x 3/4 of it per rank.
	if least := uint64(3 * world * 6 << 20); carried < least {
		t.Errorf("the links carried %d bytes, want at least %d", carried, least)
	}
}
