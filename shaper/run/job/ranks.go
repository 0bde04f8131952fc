// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Ranks says on which node each rank is, in a line such as "4 ranks on 2 nodes: node0 ranks 0-1, node1 ranks 2-3".
func Ranks(nodes map[int]int) string {
	on := map[int][]int{}
	for _, rank := range slices.Sorted(maps.Keys(nodes)) {
		on[nodes[rank]] = append(on[nodes[rank]], rank)
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(on)) {
		word := "ranks"
		if len(on[node]) == 1 {
			word = "rank"
		}
		parts = append(parts, fmt.Sprintf("node%d %s %s", node, word, intervals(on[node])))
	}
	const shown = 8
	if len(parts) > shown {
		parts = append(append(parts[:shown-1], "…"), parts[len(parts)-1])
	}
	return fmt.Sprintf("%s on %s: %s", units.Count(len(nodes), "rank"), units.Count(len(on), "node"),
		strings.Join(parts, ", "))
}

// intervals writes sorted numbers as "0-3,5".
func intervals(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		text := fmt.Sprint(numbers[i])
		if last > i {
			text += fmt.Sprintf("-%d", numbers[last])
		}
		parts = append(parts, text)
		i = last + 1
	}
	return strings.Join(parts, ",")
}

// ranksPoll is how often TellRanks looks for ranks: it reads a few words of mapped memory for each.
const ranksPoll = 20 * time.Millisecond

// TellRanks calls tell with a line as Ranks makes it as soon as all ranks of the job have joined the fabric, unless the
// line is announced, which was told before. The caller calls done when the programs have ended: then those ranks are
// told that have joined, if they were not all seen at once.
func (j *Job) TellRanks(announced string, tell func(line string)) (done func()) {
	seen, told := map[int]int{}, false
	look := func() {
		world := j.placeRanks(seen)
		if told || world == 0 || len(seen) < world {
			return
		}
		told = true
		if line := Ranks(seen); line != announced {
			tell(line)
		}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ranksPoll)
		defer tick.Stop()
		for !told {
			select {
			case <-end:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		if !told && announced == "" {
			j.tellJoined(seen, tell)
		}
	}
}

// placeRanks adds the nodes of the ranks that take part now, and returns the number of ranks that the job has, 0 if no
// rank has said it.
func (j *Job) placeRanks(nodes map[int]int) (world int) {
	programs := map[int]bool{}
	for _, e := range j.file.JobsOf(j.Key()) {
		programs[e.Index()] = true
	}
	for _, r := range j.file.Ranks() {
		if programs[r.Job] && r.Rank >= 0 {
			nodes[r.Rank] = r.Node
			world = max(world, r.World)
		}
	}
	return world
}

// tellJoined tells how many ranks have joined, if they have not all been there at once long enough to be seen.
func (j *Job) tellJoined(seen map[int]int, tell func(line string)) {
	all := j.counters()
	switch nodes := all.NodeSet.Nodes(); {
	case all.Joined == 0:
	case len(seen) == all.Joined:
		tell(Ranks(seen))
	default:
		var names []string
		for _, n := range nodes {
			names = append(names, fmt.Sprintf("node%d", n))
		}
		tell(fmt.Sprintf("%s joined, on %s", units.Count(all.Joined, "rank"), strings.Join(names, ", ")))
	}
}
