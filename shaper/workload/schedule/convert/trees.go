// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/xml"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
)

// forest is ForestColl's XML.
type forest struct {
	XMLName xml.Name `xml:"Algo"`
	Chunks  int      `xml:"nchunkspernode,attr"`
	Trees   []struct {
		Root   int `xml:"root,attr"`
		Chunks int `xml:"nchunks,attr"`
		Sends  []struct {
			Src int `xml:"src,attr"`
			Dst int `xml:"dst,attr"`
		} `xml:"send"`
	} `xml:"tree"`
}

// readTrees reads ForestColl's trees. A tree of several chunks is as many trees. The ranks are the roots, in order of
// their numbers; switches on the paths are left to the fabric.
func readTrees(data []byte, o mk.Options) (*schedule.Schedule, error) {
	var f forest
	if err := xml.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Chunks < 1 || f.Chunks > mk.MaxK {
		return nil, fmt.Errorf("nchunkspernode=%d: must be 1 to %d", f.Chunks, mk.MaxK)
	}
	roots := map[int]bool{}
	for _, t := range f.Trees {
		roots[t.Root] = true
	}
	rank, err := ranksOf(roots)
	if err != nil {
		return nil, err
	}
	var trees []mk.Tree
	next := map[int]int{} // index of a root's next chunk
	for _, t := range f.Trees {
		parent := slices.Repeat([]int{schedule.None}, len(rank))
		for _, s := range t.Sends {
			src, ok := rank[s.Src]
			dst, ok2 := rank[s.Dst]
			if !ok || !ok2 {
				return nil, fmt.Errorf("the tree of root %d has an edge from %d to %d: both must be roots of trees",
					t.Root, s.Src, s.Dst)
			}
			if parent[dst] != schedule.None {
				return nil, fmt.Errorf("the tree of root %d has two edges to %d: that is no tree", t.Root, s.Dst)
			}
			parent[dst] = src
		}
		if t.Chunks < 0 || t.Chunks > f.Chunks {
			return nil, fmt.Errorf("the tree of root %d has nchunks=%d: must be at most %d", t.Root, t.Chunks, f.Chunks)
		}
		for range max(t.Chunks, 1) {
			trees = append(trees, mk.Tree{Root: rank[t.Root], Index: next[t.Root], Parent: parent})
			next[t.Root]++
		}
	}
	o.GPUs, o.K = len(rank), f.Chunks
	return mk.FromTrees("forest", o, trees)
}
