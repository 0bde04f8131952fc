// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// MergeEnvironment returns base with the variables of extra, which replace variables of the same names. An empty value
// in extra removes the variable. Of several values of one variable, the last counts.
func MergeEnvironment(base, extra []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, v := range slices.Backward(extra) {
		if name, value, _ := strings.Cut(v, "="); !seen[name] {
			seen[name] = true
			if value != "" {
				out = append(out, v)
			}
		}
	}
	for _, v := range slices.Backward(base) {
		if name, _, _ := strings.Cut(v, "="); !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	return out
}

// InterfaceEnvironment returns the variables by which NCCL and gloo use the node's interfaces. A variable of base that
// names interfaces of nodes is not changed. Interfaces of the host do not exist on a node.
func InterfaceEnvironment(base []string, node *netns.Node) []string {
	var env []string
	for _, v := range []struct{ name, value string }{{"NCCL_SOCKET_IFNAME", "eth"},
		{"GLOO_SOCKET_IFNAME", node.NICs[0].Name}} {
		list := ""
		for _, s := range base {
			if value, ok := strings.CutPrefix(s, v.name+"="); ok {
				list = value
			}
		}
		if !namesNodeInterfaces(list) {
			env = append(env, v.name+"="+v.value)
		}
	}
	return env
}

// namesNodeInterfaces reports whether a list of interfaces, in the format of NCCL, names interfaces of a node only.
func namesNodeInterfaces(list string) bool {
	for name := range strings.SplitSeq(strings.TrimLeft(list, "^="), ",") {
		if !strings.HasPrefix(name, "eth") {
			return false
		}
	}
	return true
}

// LoginEnvironment returns the environment of a login of user a: the user's variables, and those variables of base with
// which the same programs are found and the terminal works, and the variables of ddlemu: the settings a job was started
// with hold for all of its nodes.
func LoginEnvironment(a Account, base []string) []string {
	env := []string{"HOME=" + a.Home, "USER=" + a.Name, "LOGNAME=" + a.Name, "SHELL=" + a.Shell}
	keep := []string{"PATH", "LD_LIBRARY_PATH", "LANG", "TERM", "TZ"}
	for _, v := range base {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "DDLEMU_") || slices.Contains(keep, name) {
			env = append(env, v)
		}
	}
	return env
}
