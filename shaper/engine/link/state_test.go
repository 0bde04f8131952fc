// SPDX-License-Identifier: Apache-2.0

package link

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// stateless are the fields of a flow that do not determine what it does next, where no hop draws and nothing has a
// congestion window.
var stateless = map[string]string{
	"magic": "constant", "fabric_id": "constant", "id": "constant", "size": "constant", "ring_off": "constant",
	"ring_size": "constant",
	"path":      "the engine has a copy, which is constant", "lock": "of the plugin",
	"written": "of the plugin", "sends_done": "of the plugin", "consumed": "of the plugin",
	"receives_done": "of the plugin",
	"sender_closed": "of the plugin", "receiver_closed": "of the plugin", "receive_error": "of the plugin",
	"posted": "Flow has the same number", "receives_posted": "Flow has the same number",
	"published.next": "that of results", "published.posts_seen": "that of results",
	"published.receives_seen": "that of results",
	"published.arrived":       "that of results", "published.due_count": "that of results",
	"published.complete_count": "that of results",
	"stalls":                   "counts for the user", "times.distortion": "counts for the user",
	"next_look": "of paths that are down",
	"segments":  "names draws", "packets": "names draws", "attempt": "of losses", "bad": "of losses",
	"kept.number": "names draws",
	"window":      "of congestion control", "kept.recovered": "of congestion control",
	"kept.first_copy":   "of congestion control",
	"receives.capacity": "of the plugin",
}

// Whoever changes a field that matters to what a flow does next changes its state. A new field of the engine's structs
// must get into AppendState, or into the list above.
func TestStateHasEveryField(t *testing.T) {
	net, f := stateNetwork(t)
	defer net.Close()
	const now = stateTestNow
	want := f.AppendState(nil, now)
	base := reflect.ValueOf(f.flow).UnsafePointer()
	fields := stateFields(reflect.TypeOf(f.flow).Elem(), "", 0,
		map[int]uintptr{MaxHops: 1, MaxMessages: 1, MaxSegments: uintptr(f.flow.oldest)})
	if len(fields) < 60 {
		t.Fatalf("%d fields", len(fields))
	}
	for _, field := range fields {
		p := (*byte)(unsafe.Add(base, field.offset))
		changed := false
		for _, bit := range []byte{1, 64} {
			*p ^= bit
			changed = changed || !slices.Equal(f.AppendState(nil, now), want)
			*p ^= bit
		}
		ignored := false
		for name := field.name; name != ""; name, _ = cutLast(name) {
			ignored = ignored || stateless[name] != ""
		}
		if changed == ignored {
			t.Errorf("%s: a change of it changes the state: %v; it is in the list of fields that do not: %v",
				field.name, changed, ignored)
		}
	}
	if !slices.Equal(f.AppendState(nil, now), want) {
		t.Error("the test has left the flow in another state")
	}
}

// The same for what a hop remembers. A buffer that is free before the hop is delays nothing.
func TestStateHasEveryFieldOfAHop(t *testing.T) {
	net, _ := stateNetwork(t)
	defer net.Close()
	h := &net.Hops[0]
	h.BufferFree = h.NextFree + 1000
	want := net.AppendState(nil, stateTestNow)
	of := reflect.ValueOf(h).Elem()
	matters := []string{"NextFree", "HostFree", "BufferFree"}
	for i := range of.NumField() {
		name, field := of.Type().Field(i).Name, (*byte)(of.Field(i).Addr().UnsafePointer())
		*field ^= 1
		if changed := !slices.Equal(net.AppendState(nil, stateTestNow), want); changed != slices.Contains(matters,
			name) {
			t.Errorf("%s: a change of it changes the state: %v", name, changed)
		}
		*field ^= 1
	}
	if known := []string{"ID", "Kind", "Src", "Dst", "Block", "Changes", "Counters", "Classes"}; of.NumField() != len(
		matters)+len(known)+3 {
		t.Errorf("a hop has %d fields: does what it does next depend on the new ones?", of.NumField())
	}
	h.BufferFree = h.NextFree
	want = net.AppendState(nil, stateTestNow)
	if h.BufferFree--; !slices.Equal(net.AppendState(nil, stateTestNow), want) {
		t.Error("a buffer that is free before the hop is changes the state")
	}
}

func cutLast(name string) (string, bool) {
	i := strings.LastIndex(name, ".")
	return name[:max(i, 0)], i >= 0
}

// stateField is a field of struct ddlemu_flow.
type stateField struct {
	name   string
	offset uintptr
}

// stateFields are the fields of a struct, with one element of each array: by its length, that at a place which is in
// use.
func stateFields(of reflect.Type, prefix string, offset uintptr, place map[int]uintptr) (out []stateField) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, typ, at := prefix+field.Name, field.Type, offset+field.Offset
		if field.Name == "_" || strings.HasPrefix(field.Name, "unused") {
			continue
		}
		if typ.Kind() == reflect.Array && typ.Elem().Kind() != reflect.Uint8 {
			typ, at = typ.Elem(), at+place[typ.Len()]*typ.Elem().Size()
		}
		if typ.Kind() == reflect.Struct {
			out = append(out, stateFields(typ, name+".", at, place)...)
			continue
		}
		out = append(out, stateField{name, at})
	}
	return out
}

// stateTestNow is in the middle of message 1.
const stateTestNow = 220_000

// stateNetwork has a flow with messages 1 and 2 and segment 2 under way.
func stateNetwork(t *testing.T) (*Network, *Flow) {
	t.Helper()
	port, err := NewParams(Spec{Bandwidth: 10e9, MTU: 1500, Header: 40, Framing: 38, Latency: 10_000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	tr := Transport{Kind: RDMA, RTO: 67e6, DownTimeout: 500e6, Host: Host{PerMessage: 1000}}
	net := NewNetwork([]Params{port, port}, &tr, nil, 1)
	path := []PathHop{{Hop: 0}, {Hop: 1}}
	f := net.NewFlow(1, path, []int{1})
	if !net.Recurs(f) {
		t.Fatal("the state of a flow that draws nothing does not determine what it does")
	}
	for range 4 {
		f.Recv(0)
	}
	for range 3 {
		f.Post(200_000, 0)
	}
	f.Advance(stateTestNow)
	if f.Message(0).Sent > stateTestNow {
		t.Fatal("the first message is not done")
	}
	f.Take()
	return net, f
}
