// SPDX-License-Identifier: Apache-2.0

// Package vectors holds worked examples of the link model: what is done on a
// fabric, and what must come of it. Every copy of the arithmetic, in whichever
// language, is held to the same file.
package vectors

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// Scenario is flows on a star of NICs: NIC n's ports are hops 2n (out) and 2n+1
// (in), then the links from each NIC to each other one in order of their numbers.
// A path is [port out, link, port in], of which the link is private.
type Scenario struct {
	Name      string         `json:"name"`
	NICs      int            `json:"nics"`
	Port      link.Spec      `json:"port"`
	Link      link.Spec      `json:"link"`
	Transport link.Transport `json:"transport"` // not scaled
	TimeScale int            `json:"time_scale"`
	Seed      uint64         `json:"seed"`
	Flows     []Flow         `json:"flows"`
	Steps     []Step         `json:"steps"`
	Messages  [][]Message    `json:"messages"` // by flow
}

// Flow is a flow with its id and its ends.
type Flow struct {
	ID       uint64 `json:"id"`
	Src, Dst int
}

// Step is something that happens to a flow at a time (ns): a post, an irecv, or a
// poll, by which the flow's Advance returns Next.
type Step struct {
	Flow int    `json:"flow"`
	Do   string `json:"do"` // post, recv or poll
	Time int64  `json:"time"`
	Size uint64 `json:"size,omitempty"`
	Next int64  `json:"next,omitempty"`
}

// Message is what must be known of a message at the end.
type Message struct {
	Due, Sent, Distortion int64
}

// Player is a copy of the model, with the scenario's fabric and flows.
type Player interface {
	Post(flow int, size uint64, t int64)
	Recv(flow int, t int64)
	Advance(flow int, now int64) (next int64)
	Message(flow int, i uint64) link.Message
}

//go:embed vectors.json
var text []byte

// Load returns the scenarios.
func Load() ([]Scenario, error) {
	var all []Scenario
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the link model's vectors: %w", err)
	}
	return all, nil
}

// LinkHop is the number of the hop of the link from NIC src to NIC dst.
func (s *Scenario) LinkHop(src, dst int) int {
	n := 2*s.NICs + src*(s.NICs-1) + dst
	if dst > src {
		n--
	}
	return n
}

// Path is the hops from NIC src to NIC dst.
func (s *Scenario) Path(src, dst int) [3]int { return [3]int{2 * src, s.LinkHop(src, dst), 2*dst + 1} }

// Check plays the scenario and says where p differs from what must come of it.
func (s *Scenario) Check(p Player) error {
	for i, st := range s.Steps {
		if next := s.do(p, st); st.Do == "poll" && next != st.Next {
			return fmt.Errorf("%s: step %d, flow %d polled at %d: next step at %d, want %d", s.Name, i, st.Flow, st.Time, next, st.Next)
		}
	}
	for f, messages := range s.Messages {
		for i, want := range messages {
			if got := outcome(p, f, i); got != want {
				return fmt.Errorf("%s: flow %d message %d: %+v, want %+v", s.Name, f, i, got, want)
			}
		}
	}
	return nil
}

// Record plays the scenario and fills in what p made of it.
func (s *Scenario) Record(p Player) {
	s.Messages = make([][]Message, len(s.Flows))
	for i := range s.Steps {
		st := &s.Steps[i]
		if next := s.do(p, *st); st.Do == "poll" {
			st.Next = next
		}
	}
	for _, st := range s.Steps {
		if st.Do == "post" {
			s.Messages[st.Flow] = append(s.Messages[st.Flow], outcome(p, st.Flow, len(s.Messages[st.Flow])))
		}
	}
}

func (s *Scenario) do(p Player, st Step) (next int64) {
	switch st.Do {
	case "post":
		p.Post(st.Flow, st.Size, st.Time)
	case "recv":
		p.Recv(st.Flow, st.Time)
	default:
		return p.Advance(st.Flow, st.Time)
	}
	return 0
}

func outcome(p Player, flow, i int) Message {
	m := p.Message(flow, uint64(i))
	return Message{m.Due, m.Sent, m.Distortion}
}
