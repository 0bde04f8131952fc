// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// try runs ddlemu in a folder of fabrics of its own.
func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := world.Command(t.Context(), t, world.Folder(t), nil, args...).CombinedOutput()
	return string(out), err
}

func ddlemu(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatalf("ddlemu %q: %v:\n%s", args, err, out)
	}
	return out
}

// record runs a benchmark, and returns the folder of its ledgers.
func record(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t")
	ddlemu(t, append([]string{"bench"}, append(args, "--trace", dir)...)...)
	return dir
}

// message is a message, as `ddlemu messages` has it.
type message struct {
	Sender, Receiver int
	Bytes            uint64
	Function         string
}

func messagesOf(t *testing.T, dir string) []message {
	t.Helper()
	var got struct{ Messages []message }
	if err := json.Unmarshal([]byte(ddlemu(t, "messages", dir, "--json")), &got); err != nil {
		t.Fatal(err)
	}
	return got.Messages
}
