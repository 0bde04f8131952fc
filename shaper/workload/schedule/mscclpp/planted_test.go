// SPDX-License-Identifier: Apache-2.0

package mscclpp_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/mscclpp"
)

// plans are the plans of testdata, and those of the folder DDLEMU_TEST_PLANS.
func plans(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, dir := range []string{"testdata", os.Getenv("DDLEMU_TEST_PLANS")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if dir != "" {
				all[filepath.Base(f)] = data
			}
		}
	}
	if len(all) < 13 {
		t.Fatalf("%d plans", len(all))
	}
	return all
}

// mostBytes is the largest file that the slow oracle executes.
const mostBytes = 60_000

func collective(data []byte) string {
	var head struct {
		Collective string `json:"collective"`
	}
	_ = json.Unmarshal(data, &head)
	return head.Collective
}

// good says whether a plan is read and checked without a finding.
func good(data []byte) (ok bool, why string) {
	s, err := mscclpp.ReadStores(data)
	if err != nil {
		return false, err.Error()
	}
	r, err := check.Check(s)
	if err != nil {
		return false, err.Error()
	}
	for _, w := range r.Warnings {
		if strings.Contains(w, "is relaxed and comes behind") || strings.Contains(w, "two thread blocks") {
			return false, w
		}
	}
	if !r.Good() {
		return false, fmt.Sprintf("%s: %s", r.Findings[0].Kind, r.Findings[0].Text)
	}
	return true, ""
}

// fails executes a plan in random orders and says what goes wrong.
func fails(data []byte, seeds uint64) string {
	coll := collective(data)
	for seed := range seeds {
		o := newOracle(data, seed)
		if !o.run() {
			return "it does not end"
		}
		if n := o.wrong(coll); n > 0 {
			return fmt.Sprintf("%d wrong elements", n)
		}
	}
	return ""
}

// What the check finds good has the right result in every order that is tried.
func TestGoodPlans(t *testing.T) {
	for name, data := range plans(t) {
		ok, why := good(data)
		if !ok {
			t.Logf("%s: %s", name, why)
			if !strings.HasPrefix(name, "reduce_tbg") { // of MSCCL++, its test has a race
				t.Errorf("%s is not good: %s", name, why)
			}
			continue
		}
		if len(data) > mostBytes {
			continue
		}
		if why := fails(data, 20); why != "" {
			t.Errorf("%s is good, but %s", name, why)
		}
	}
}

// A mistake that makes any order of execution fail is found. Operations are left out, and moved by a chunk.
func TestPlantedInPlans(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	planted, harmful, found := 0, 0, 0
	for name, data := range plans(t) {
		if ok, _ := good(data); !ok || len(data) > mostBytes {
			continue
		}
		for range 40 {
			changed, what := plant(data, random)
			planted++
			ok, _ := good(changed)
			if !ok {
				found++
			}
			why := ""
			if _, err := mscclpp.ReadStores(changed); err == nil {
				why = failsSafely(changed)
			}
			if why != "" {
				harmful++
			}
			if ok && why != "" {
				t.Errorf("%s with %s: the check finds it good, but %s", name, what, why)
			}
		}
	}
	t.Logf("%d mistakes planted, %d found by the check, %d of which fail in an order that was tried", planted, found,
		harmful)
	if harmful < planted/10 || found < harmful {
		t.Errorf("of %d mistakes %d fail and %d are found", planted, harmful, found)
	}
}

// failsSafely is fails; a chunk outside of a buffer ends the execution with a panic.
func failsSafely(data []byte) (why string) {
	defer func() {
		if x := recover(); x != nil {
			why = fmt.Sprint(x)
		}
	}()
	return fails(data, 12)
}

// plant makes a mistake: it leaves an operation out, or changes an index.
func plant(data []byte, random *rand.Rand) (changed []byte, what string) {
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		panic(err)
	}
	for {
		gpus := list(doc, "gpus")
		blocks := list(object(gpus[random.IntN(len(gpus))]), "threadblocks")
		if len(blocks) == 0 {
			continue
		}
		holder := object(blocks[random.IntN(len(blocks))])
		ops := list(holder, "ops")
		if len(ops) == 0 {
			continue
		}
		k := random.IntN(len(ops))
		op := object(ops[k])
		if op["name"] == "pipeline" {
			holder, ops = op, list(op, "ops")
			k = random.IntN(len(ops))
			op = object(ops[k])
		}
		if op["name"] == "nop" {
			continue
		}
		what = fmt.Sprintf("%v", op["name"])
		dst := list(op, "dst_buff")
		if len(dst) == 0 || random.IntN(3) == 0 {
			holder["ops"] = slices.Delete(ops, k, k+1)
			what = "no " + what
		} else {
			chunk := object(dst[random.IntN(len(dst))])
			if random.IntN(2) == 0 {
				chunk = object(list(op, "src_buff")[0])
			}
			chunk["index"] = float64((number(chunk, "index") + 1) % 4)
			what += " with another index"
		}
		changed, err := json.Marshal(doc)
		if err != nil {
			panic(err)
		}
		return changed, what
	}
}
