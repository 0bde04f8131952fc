// SPDX-License-Identifier: Apache-2.0

package topofile

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestProblem(t *testing.T) {
	const nic = `<pci busid="0000:50:00.0" class="0x020000"><nic><net name="goemu0"/></nic></pci>`
	gpu := func(id string) string {
		return `<pci busid="ffff:ff:01.0" class="0x060400"><pci busid="` + id +
			`" class="0x030200"><gpu dev="0"/></pci></pci>`
	}
	for name, tc := range map[string]struct{ file, want string }{
		"the rank's GPU":   {gpu("0000:11:00.0"), ""},
		"both of a node":   {gpu("0000:10:00.0") + gpu("0000:11:00.0"), ""},
		"a NIC":            {nic, ""},
		"a NIC and a host": {nic + gpu("0001:00:00.0"), "it has GPU 0001:00:00.0, which is no software GPU"},
		"a NIC of a node":  {nic + gpu("0000:10:00.0"), "it does not have the software GPU 0000:11:00.0"},
		"another node":     {gpu("0000:10:00.0"), "it does not have the software GPU 0000:11:00.0"},
		"a host":           {gpu("0001:00:00.0"), "it has GPU 0001:00:00.0, which is no software GPU"},
		"a host, same bus": {gpu("0000:11:00.0") + gpu("0000:86:00.0"),
			"it has GPU 0000:86:00.0, which is no software GPU"},
		"a host's function": {gpu("0000:11:00.1"), "it has GPU 0000:11:00.1, which is no software GPU"},
		"nothing":           {"", "it does not have the software GPU 0000:11:00.0"},
		"another NIC":       {`<net name="mlx5_0"/>`, "it does not have the software GPU 0000:11:00.0"},
	} {
		got := problem(strings.NewReader(`<system version="1"><cpu numaid="0">`+tc.file+`</cpu></system>`),
			Names{GPU: BusID(1), NIC: "goemu"})
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := problem(strings.NewReader("<pci busid=<"), Names{}); got != "it is not XML" {
		t.Errorf("broken: %q", got)
	}
	if got := Problem(filepath.Join(t.TempDir(), "none.xml"), Names{}); got != "there is no such file" {
		t.Errorf("no file: %q", got)
	}
	if got := Problem(t.TempDir(), Names{}); got == "" {
		t.Error("a folder is a topology file")
	}
}
