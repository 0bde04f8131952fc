// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
)

// The list can be searched, and each entry says what its class needs.
func TestList(t *testing.T) {
	withReason := []Class{Plugin, CUDA, Set, Off, Other}
	classes := append([]Class{Used, Modelled, Topology, Debug, Log, Host, Node, Ranks, GDR, IB, Socket, Symbol},
		withReason...)
	list := List()
	for i, v := range list {
		if i > 0 && list[i-1].Name >= v.Name {
			t.Errorf("%s is behind %s", v.Name, list[i-1].Name)
		}
		if !slices.Contains(classes, v.Class) {
			t.Errorf("%s: class %q", v.Name, v.Class)
		}
		if slices.Contains(withReason, v.Class) == (v.Reason == "") {
			t.Errorf("%s of class %s: reason %q", v.Name, v.Class, v.Reason)
		}
		if (len(v.In) == 0) != (v.Class == Other) {
			t.Errorf("%s of class %s is in %q", v.Name, v.Class, v.In)
		}
		for _, version := range v.In {
			if !slices.Contains(Versions, version) {
				t.Errorf("%s is in %s", v.Name, version)
			}
		}
	}
}

func TestNotes(t *testing.T) {
	virtual := Situation{NCCL: "2.22", Soft: true, Timeless: true, Starts: true, OwnRanks: true}
	gpu := Situation{Starts: true, Kernel: true}
	run := Situation{Soft: true, Starts: true}
	for _, tc := range []struct {
		s    Situation
		env  string
		want string // "" for no note
	}{
		{virtual, "NCCL_ALGO=Ring", ""},
		{virtual, "NCCL_BUFFSIZE=1048576", ""},
		{virtual, "NCCL_BUFFSIZE=4M", "NCCL_BUFFSIZE=4M is not what it seems: NCCL reads this as 4: give a number"},
		{virtual, "NCCL_DEBUG=INFO", ""},
		{virtual, "NCCL_IB_QPS_PER_CONNECTION=4",
			"NCCL_IB_QPS_PER_CONNECTION=4 has no effect here: it is for NCCL's NET/IB, and NCCL uses the plugin instead"},
		{gpu, "NCCL_IB_HCA=mlx5_0",
			"NCCL_IB_HCA=mlx5_0 has no effect here: it is for NCCL's NET/IB, and NCCL uses the plugin instead"},
		{virtual, "NCCL_NSOCKS_PERTHREAD=4",
			"NCCL_NSOCKS_PERTHREAD=4 has no effect here: it is for NCCL's NET/Socket, and NCCL uses the plugin instead"},
		{virtual, "NCCL_NVLS_ENABLE=0", ""}, // used by GPUs that have NVLS, as on a cluster
		{virtual, "NCCL_CUMEM_ENABLE=1", "NCCL_CUMEM_ENABLE=1 has no effect here: the software CUDA has no cuMem"},
		{gpu, "NCCL_CUMEM_ENABLE=1", ""},
		{virtual, "NCCL_NET_GDR_LEVEL=SYS", ""},
		{gpu, "NCCL_NET_GDR_LEVEL=SYS",
			"NCCL_NET_GDR_LEVEL=SYS has no effect here: the plugin's NICs reach no memory of a real GPU"},
		{virtual, "NCCL_SET_THREAD_NAME=1",
			"NCCL_SET_THREAD_NAME=1 has no effect here: it changes only what the host does, which takes no time here"},
		{run, "NCCL_SET_THREAD_NAME=1", ""},
		{virtual, "NCCL_P2P_NVL_CHUNKSIZE=1",
			"NCCL_P2P_NVL_CHUNKSIZE=1 has no effect here: it changes how data moves within a node, which takes no time here"},
		{virtual, "NCCL_NET=Socket", "NCCL_NET=Socket has no effect here: ddlemu sets it to goemu"},
		{virtual, "NCCL_NET=goemu", ""},
		{virtual, "NCCL_HOSTID=mine", "NCCL_HOSTID=mine has no effect here: ddlemu sets it in its own ranks"},
		{run, "NCCL_HOSTID=mine", ""},
		{Situation{}, "NCCL_NET=Socket", ""},
		{gpu, "NCCL_GIN_TYPE=2", "NCCL_GIN_TYPE=2 has no effect here: ddlemu sets NCCL_GIN_ENABLE=0"},
		{virtual, "NCCL_COLLNET_ENABLE=1", "NCCL_COLLNET_ENABLE=1 has no effect here: the plugin has no CollNet"},
		{virtual, "NCCL_DEBUG_SUBSYS=ALL",
			"NCCL_DEBUG_SUBSYS=ALL has no effect here: NCCL writes no log without NCCL_DEBUG"},
		{virtual, "NCCL_DEBUG_SUBSYS=ALL NCCL_DEBUG=INFO", ""},
		{virtual, "NCCL_PAT_ENABLE=1",
			"NCCL_PAT_ENABLE=1 has no effect here: NCCL 2.22.3 does not have it, 2.29.7 does"},
		{Situation{NCCL: "2.29.7"}, "NCCL_PAT_ENABLE=1", ""},
		{Situation{}, "NCCL_PAT_ENABLE=1", ""},
		{virtual, "NCCL_IB_QPS=4",
			"NCCL_IB_QPS=4 has no effect here: NCCL 2.22.3 has no such variable: did you mean NCCL_IB_QPS_PER_CONNECTION?"},
		{run, "NCCL_CHUNKSIZE=4",
			"NCCL_CHUNKSIZE=4 has no effect here: NCCL (2.22.3, 2.29.7) has no such variable: did you mean NCCL_CHUNK_SIZE?"},
		{virtual, "NCCL_SPLIT_NOCOLOR=1", "NCCL_SPLIT_NOCOLOR=1 has no effect here: NCCL 2.22.3 has no such variable"},
		{virtual, "NCCL_FASTRAK_LLCM_DEVICE=1",
			"NCCL_FASTRAK_LLCM_DEVICE=1 has no effect here: NCCL 2.22.3 has no such variable"},
		{virtual, "NCCL_BLOCKING_WAIT=1",
			"NCCL_BLOCKING_WAIT=1 has no effect here: it is for PyTorch, which this command does not run"},
		{run, "NCCL_BLOCKING_WAIT=1", ""},
		{virtual, "NCCL_VERSION=2.22.3", ""},
		{virtual, "NCCL_IB_HCA=", ""},
		{virtual, "DDLEMU_LAT=1ms", ""},
		{virtual, "DDLEMU_LATENCY=1ms",
			"DDLEMU_LATENCY=1ms has no effect here: ddlemu has no such variable: did you mean DDLEMU_LAT?"},
		{virtual, "DDLEMU_TEST_LONG=1", ""},
		{virtual, "DDLEMU_STREAMS=2", "DDLEMU_STREAMS=2 has no effect here: it is for datapath kernel"},
		{gpu, "DDLEMU_STREAMS=2", ""},
		{gpu, "DDLEMU_SOFT_GPUS=2", "DDLEMU_SOFT_GPUS=2 has no effect here: it is for the software CUDA"},
		{run, "DDLEMU_COMPUTE=cpu:1", "DDLEMU_COMPUTE=cpu:1 has no effect here: it is for a virtual clock"},
		{Situation{Fabric: "lab"}, "DDLEMU_LAT=1ms",
			"DDLEMU_LAT=1ms has no effect here: fabric lab is up, and `ddlemu shape` changes it"},
		{Situation{Fabric: "lab"}, "DDLEMU_PROFILE=eth1",
			"DDLEMU_PROFILE=eth1 has no effect here: fabric lab is up, and `ddlemu shape` changes it"},
		{Situation{Fabric: "lab"}, "DDLEMU_NCCL_VIEW=host", ""},
		{virtual, "PATH=/bin", ""},
	} {
		got := strings.Join(Notes(tc.s, Read(tc.s.NCCL, strings.Fields(tc.env), "")), "\n")
		if got != tc.want {
			t.Errorf("%s in %+v:\n%q, want\n%q", tc.env, tc.s, got, tc.want)
		}
	}
}

// Every variable of ddlemu that describes a fabric is known.
func TestSettingsAreKnown(t *testing.T) {
	for _, s := range configs.Settings() {
		if notes := Notes(Situation{}, []Setting{{Name: s.Env, Value: "1"}}); len(notes) > 0 {
			t.Error(notes)
		}
	}
}

// NCCL reads the environment, then the user's file or the one that is named, then the host's file.
func TestRead(t *testing.T) {
	files := map[string]string{
		"/home/u/.nccl.conf": "# NCCL_ALGO=Tree\nNCCL_ALGO=Ring\nNCCL_PROTO=LL\nno variable\nNCCL_IB_HCA =mlx5_0\nPATH=/bin\n",
		"/etc/nccl.conf":     "NCCL_ALGO=Tree\nNCCL_TOPO_FILE=/opt/topo.xml", // no newline at the end
		"/mine":              "NCCL_PROTO=Simple\n",
	}
	open := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}
	const user, host = "/home/u/.nccl.conf", "/etc/nccl.conf"
	for name, tc := range map[string]struct {
		nccl string
		env  []string
		home string
		want []Setting
	}{
		"files": {"2.22", []string{"PATH=/bin", "NCCL_PROTO=LL128", "NCCL_PROTO=", "NCCL_PROTO=LL128"}, "/home/u",
			[]Setting{{"NCCL_PROTO", "LL128", ""}, {"NCCL_ALGO", "Ring", user}, {"NCCL_IB_HCA ", "mlx5_0", user},
				{"NCCL_TOPO_FILE", "/opt/topo.xml", host}}},
		"no home": {"2.22", nil, "", []Setting{{"NCCL_ALGO", "Tree", host}, {"NCCL_TOPO_FILE", "/opt/topo.xml", host}}},
		"a file of its own": {"2.29", []string{"NCCL_CONF_FILE=/mine"}, "/home/u",
			[]Setting{{"NCCL_CONF_FILE", "/mine", ""}, {"NCCL_PROTO", "Simple", "/mine"}, {"NCCL_ALGO", "Tree", host},
				{"NCCL_TOPO_FILE", "/opt/topo.xml", host}}},
		"2.22 knows none": {"2.22", []string{"NCCL_CONF_FILE=/mine"}, "",
			[]Setting{{"NCCL_CONF_FILE", "/mine", ""}, {"NCCL_ALGO", "Tree", host},
				{"NCCL_TOPO_FILE", "/opt/topo.xml", host}}},
	} {
		got := read(tc.nccl, tc.env, tc.home, open)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	set := read("2.22", nil, "/home/u", open)
	if got := Getenv(set)("NCCL_PROTO"); got != "LL" {
		t.Errorf("NCCL_PROTO is %q", got)
	}
	want := []string{
		"NCCL_IB_HCA =mlx5_0 (/home/u/.nccl.conf) has no effect here: a space is part of the name \"NCCL_IB_HCA \": remove it",
	}
	if d := cmp.Diff(want, Notes(Situation{NCCL: "2.22"}, set)); d != "" {
		t.Error(d)
	}
}

// What NCCL uses may be why it fails.
func TestGiven(t *testing.T) {
	set := Read("", []string{"NCCL_CHUNK_SIZE=4", "NCCL_IB_HCA=x", "NCCL_DEBUG=INFO", "NCCL_GRAPH_FILE=g.xml",
		"NCCL_NOBODY=1", "NCCL_ALGO="}, "")
	if d := cmp.Diff([]string{"NCCL_CHUNK_SIZE=4", "NCCL_GRAPH_FILE=g.xml"},
		slices.Sorted(slices.Values(Given(set)))); d != "" {
		t.Error(d)
	}
}

// The numbers are those of strtoll with base 0.
func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{"65536": 65536, "0x8000": 32768, "0X10": 16, "010": 8, "0": 0, "-2": -2,
		"+7": 7, " 5": 5} {
		if n, err := ParseInt(text); n != want || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]string{
		"4M": "NCCL reads this as 4", "0x": "as 0", "0xg": "as 0", "x": "as 0", "-": "as 0", "08": "as 0",
		"1e6": "as 1", "5 ": "as 5", "1_000": "as 1", "0x1_0": "as 1",
		"0b1": "as 0", "0o7": "as 0", "9223372036854775808": "out of range",
	} {
		if n, err := ParseInt(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v, want %q", text, n, err, want)
		}
	}
}
