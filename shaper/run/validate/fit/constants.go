// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Constant is a figure of the section time: of a kind of GPU.
type Constant struct {
	Name string // its keys, such as ll.step
	path []int  // of the field, see reflect.Value.FieldByIndex
}

// constantsOf are the figures of t that are above 0, in the order of the fields. The others are not in the file, and
// have a default.
func constantsOf(t *configs.GPUTime) (all []Constant) {
	var walk func(v reflect.Value, name string, path []int)
	walk = func(v reflect.Value, name string, path []int) {
		if isFigure(v) {
			if valueOf(v) > 0 {
				all = append(all, Constant{name, path})
			}
			return
		}
		if v.Kind() != reflect.Struct {
			return
		}
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			switch {
			case key == "": // inline
				key = name
			case name != "":
				key = name + "." + key
			}
			walk(v.Field(i), key, append(path[:len(path):len(path)], i))
		}
	}
	walk(reflect.ValueOf(t).Elem(), "", nil)
	return all
}

// isFigure says whether a field is a number.
func isFigure(v reflect.Value) bool {
	return v.CanInt() || v.CanUint() || v.CanFloat()
}

func valueOf(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// of is the constant's value in t: ns, bits per second, or a number.
func (c *Constant) of(t *configs.GPUTime) float64 {
	return valueOf(reflect.ValueOf(t).Elem().FieldByIndex(c.path))
}

// leastNumber is the least value of figures that are a ratio, see [configs.ActionTime].
const leastNumber = 1

// set sets the constant in t.
func (c *Constant) set(t *configs.GPUTime, x float64) {
	v := reflect.ValueOf(t).Elem().FieldByIndex(c.path)
	switch {
	case v.CanInt():
		v.SetInt(int64(math.Round(x)))
	case v.CanUint():
		v.SetUint(uint64(math.Round(x)))
	default:
		v.SetFloat(max(x, leastNumber))
	}
}

// Text is the constant's value in t, as a file has it.
func (c *Constant) Text(t *configs.GPUTime) string {
	switch x := reflect.ValueOf(t).Elem().FieldByIndex(c.path).Interface().(type) {
	case time.Duration:
		return fmt.Sprintf("%dns", x.Nanoseconds())
	case units.Bandwidth:
		const bitsPerByte, giga = 8, 1e9
		return fmt.Sprintf("%.2fGB/s", float64(x)/bitsPerByte/giga)
	case float64:
		return fmt.Sprintf("%.3f", x)
	default:
		return fmt.Sprint(x)
	}
}

// Kind are the figures of a kind of GPU.
type Kind struct {
	Time *configs.GPUTime
	// Links is the raw rate in bits per second of a GPU's links to the others of its node.
	Links float64
}

// KindOf returns the figures of g, which has times.
func KindOf(g *configs.GPU) Kind {
	if g.NVLink.Links > 0 {
		return Kind{g.Time, float64(g.NVLink.Links) * float64(g.NVLink.Rate)}
	}
	const firstGeneration = 2.5e9 * 0.8 // bits per second of a lane: 2.5 GT/s, with a code of 8 bits in 10
	return Kind{g.Time, firstGeneration * math.Exp2(float64(g.PCIe.Generation-1)) * float64(g.PCIe.Lanes)}
}

// linkRate is the figure that is in proportion to the raw rate of the links.
const linkRate = "links.rate"

// independent returns figures of a kind that owe nothing to the tables that the kind was fitted to: for each constant
// the geometric mean of the different values that other kinds have; of the rate of the links, of its ratio to the raw
// rate. A value that equals own's is taken to be copied from it, and is no other one. free says which constants have
// such a value; the rest keep own's.
func independent(own Kind, constants []Constant, others []Kind) (start *configs.GPUTime, free []bool) {
	copied := *own.Time
	start, free = &copied, make([]bool, len(constants))
	for i := range constants {
		c := &constants[i]
		seen := map[float64]bool{0: true, c.of(own.Time): true}
		sum, n := 0.0, 0.0
		for _, k := range others {
			x := c.of(k.Time)
			if seen[x] {
				continue
			}
			seen[x] = true
			if c.Name == linkRate {
				x *= own.Links / k.Links
			}
			sum, n = sum+math.Log(x), n+1
		}
		if free[i] = n > 0; free[i] {
			c.set(start, math.Exp(sum/n))
		}
	}
	return start, free
}
