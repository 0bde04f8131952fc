// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// NVTX loads the plugin unless the user has named another library. The same one by another path is no other.
func TestInjection(t *testing.T) {
	dir := t.TempDir()
	plugin, link, tool := filepath.Join(dir, "libgoemu.so"), filepath.Join(dir, "libnccl-net.so"), filepath.Join(dir, "tool.so")
	for _, path := range []string{plugin, tool} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(plugin, link); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]struct {
		env   []string
		users string
	}{
		"":         {env: []string{"NVTX_INJECTION64_PATH=" + plugin}},
		plugin:     {},
		link:       {},
		tool:       {users: tool},
		"tool.so":  {users: "tool.so"},
		dir + "/x": {users: dir + "/x"},
	} {
		env, users := Layout{Plugin: dir}.Injection(func(string) string { return set })
		if !slices.Equal(env, want.env) || users != want.users {
			t.Errorf("%q: %q, user's %q", set, env, users)
		}
	}
}
