// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

// Inference is a decoder that answers requests: a prefill of the prompts, and passes that decode a token of each
// sequence. Each pass is a step.
//
// Tensor parallel ranks are neighbours, then come the expert parallel ones, then the stages of the pipeline. The ranks
// of an expert parallel group have sequences of their own, and share the experts.
type Inference struct {
	Name       string
	Decoder    layers.Decoder
	TP, PP, EP int
	// Batch is the sequences of a batch of each expert parallel rank. InFlight batches are in the pipeline at a time.
	Batch, InFlight int
	// Prefill is the tokens of each prompt, 0 for no prefill. Decode is the number of passes that decode.
	Prefill int
	Decode  int
	// Context is the tokens of a sequence before the first pass that decodes. Only the formula of the computation
	// needs it.
	Context int
	// VLLM makes the stages of a pipeline send what vLLM sends: hidden states and residual, each of them in parts by
	// the tensor parallel ranks, which the next stage gathers. Else each rank sends the hidden states.
	VLLM    bool
	Routing Routing
	Compute InferenceCompute
	Type    string // of activations and weights
}

// InferenceCompute says for how long a rank computes in a pass: the time of the rank that computes longest, or rates
// of a GPU.
type InferenceCompute struct {
	Prefill, Decode time.Duration
	// FLOPS are operations per second, and Memory is bytes per second of the GPU's memory, that the job reaches. With
	// both, a part of a layer takes the longer of the two times.
	FLOPS, Memory float64
}

func (f *Inference) validate() error {
	d := &f.Decoder
	if err := cmp.Or(checkSize("layers", d.Layers), checkSize("hidden", d.Hidden),
		checkSize("intermediate", d.Intermediate), checkSize("kv", d.KeyValue), checkSize("vocab", d.Words),
		checkSize("tp", f.TP), checkSize("pp", f.PP), checkSize("ep", f.EP), checkSize("batch", f.Batch),
		checkSize("in-flight", f.InFlight)); err != nil {
		return err
	}
	if f.Prefill < 0 || f.Prefill > 1<<24 || f.Context < 0 || f.Context > 1<<24 || f.Decode < 0 ||
		f.Decode > 1_000_000 {
		return fmt.Errorf(
			"prefill of %d and context of %d tokens, and %d passes that decode: must be 0 to %d, and 1000000 passes "+
				"at most", f.Prefill, f.Context, f.Decode, 1<<24)
	}
	if f.Prefill == 0 && f.Decode == 0 {
		return errors.New("no pass: give the tokens of a prefill, or the number of passes that decode")
	}
	if _, err := workload.TypeSize(f.Type); err != nil {
		return err
	}
	if err := f.validateShares(); err != nil {
		return err
	}
	return f.Compute.validate(f.Prefill > 0, f.Decode > 0)
}

// validateShares refuses sizes that cannot be shared equally, and those that are too large for a call.
func (f *Inference) validateShares() error {
	d := &f.Decoder
	if ranks := int64(f.TP) * int64(f.PP) * int64(f.EP); ranks > workload.MaxRanks {
		return fmt.Errorf("tp %d, pp %d and ep %d are %d ranks, more than %d", f.TP, f.PP, f.EP, ranks,
			workload.MaxRanks)
	}
	if err := checkShare("layers", d.Layers, "pp", int64(f.PP)); err != nil {
		return err
	}
	if d.Hidden%int64(f.TP) != 0 || d.Intermediate%int64(f.TP) != 0 {
		return fmt.Errorf("hidden %d and intermediate %d: must be multiples of tp, %d", d.Hidden, d.Intermediate, f.TP)
	}
	if err := f.validateExperts(); err != nil {
		return err
	}
	if err := checkProduct("the activations of a pass", int64(f.Batch), int64(max(f.Prefill, 1)), d.Hidden,
		int64(max(d.TopK, 1))); err != nil {
		return err
	}
	return checkProduct("the weights of a layer", 3*d.Hidden, d.Intermediate, int64(max(d.TopK, 1)))
}

func (f *Inference) validateExperts() error {
	d := &f.Decoder
	switch {
	case d.Experts < 0 || d.Experts > 1<<20:
		return fmt.Errorf("experts %d: must be 0 to %d", d.Experts, 1<<20)
	case d.Experts == 0 && f.EP > 1:
		return fmt.Errorf("ep %d: give the number of experts", f.EP)
	case d.Experts > 0 && d.Experts%f.EP != 0:
		return fmt.Errorf("experts %d: must be a multiple of ep, %d", d.Experts, f.EP)
	case d.Experts > 0 && (d.TopK < 1 || d.TopK > d.Experts):
		return fmt.Errorf("top-k %d: must be 1 to the number of experts, %d", d.TopK, d.Experts)
	}
	return f.Routing.validate(d.Experts, d.TopK)
}

func (c *InferenceCompute) validate(prefill, decode bool) error {
	rates := c.FLOPS > 0 || c.Memory > 0
	switch {
	case c.Prefill < 0 || c.Decode < 0 || c.FLOPS < 0 || c.Memory < 0:
		return errors.New("the computation must not be negative")
	case rates && (c.Prefill > 0 || c.Decode > 0):
		return errors.New("give the times of the computation or the rates of the GPU, not both")
	case !rates && prefill && c.Prefill == 0:
		return errors.New("say how long the prefill computes: its time, as 300ms, or the rate of the GPU, as 312TFLOPS")
	case !rates && decode && c.Decode == 0:
		return errors.New(
			"say how long a pass that decodes computes: its time, as 17.5ms, or the rate of the GPU's memory, as 2TB/s")
	}
	return nil
}

// Ranks is the number of ranks.
func (f *Inference) Ranks() int { return f.TP * f.PP * f.EP }

func (f *Inference) passes() int {
	if f.Prefill > 0 {
		return f.Decode + 1
	}
	return f.Decode
}

// Workload makes the workload.
func (f *Inference) Workload() (*workload.Workload, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	perLayer := int64(6)
	if f.Routing.uneven() {
		perLayer += 3*int64(f.EP) + 4*int64(f.EP)*int64(f.EP)
	}
	perPass := int64(f.InFlight) * (f.Decoder.Layers*perLayer + 12*int64(f.PP))
	if perPass > workload.MaxOps {
		return nil, checkOps(workload.MaxOps, 2)
	}
	if err := checkOps(int(perPass), f.passes()); err != nil {
		return nil, err
	}
	j := newJob(f.name(), f.Ranks(), f.notes()...)
	j.w.Head.Source.Missing = []string{"sampling, scheduling and other work of the host: no time is counted for it"}
	j.w.Head.Comms = f.comms()
	var routes *router
	if f.Decoder.Experts > 0 {
		routes = newRouter(&f.Routing, f.Decoder.Experts, f.Decoder.TopK)
	}
	before := make([][]int, f.InFlight) // the message with the tokens of the pass before, by batch
	for n := range f.passes() {
		for stage := range f.PP {
			s := newInferenceStage(f, j, stage, n)
			s.routes = routes
			s.pass(before)
		}
	}
	if routes != nil {
		j.w.Head.Source.Notes = append(j.w.Head.Source.Notes, routes.note())
	}
	return j.done()
}

func (f *Inference) name() string {
	text := fmt.Sprintf("inference of %s, tp %d, pp %d", f.Name, f.TP, f.PP)
	if f.Decoder.Experts > 0 {
		text += fmt.Sprintf(", ep %d", f.EP)
	}
	return fmt.Sprintf("%s, batch %d", text, f.Batch)
}

// usualHead is the size of a head of Llama and Mixtral.
const usualHead = 128

func (f *Inference) notes() []string {
	d, c := &f.Decoder, &f.Compute
	notes := []string{fmt.Sprintf("%s: %d layers, hidden %d, intermediate %d, keys and values %d, %d words", f.Name,
		d.Layers, d.Hidden, d.Intermediate, d.KeyValue, d.Words)}
	if d.Experts > 0 {
		notes[0] += fmt.Sprintf(", %d experts, top-k %d", d.Experts, d.TopK)
	}
	var passes []string
	if f.Prefill > 0 {
		passes = append(passes, fmt.Sprintf("a prefill of %s", units.Count(f.Prefill, "token")))
	}
	if f.Decode > 0 {
		passes = append(passes, units.Count(f.Decode, "pass")+" of one token")
	}
	notes = append(notes, fmt.Sprintf("each step is a pass: %s, of each of %s", strings.Join(passes, ", then "),
		units.Count(f.Batch, "sequence")))
	if f.InFlight > 1 {
		notes[1] += fmt.Sprintf(", for %d batches in the pipeline", f.InFlight)
	}
	if c.FLOPS > 0 || c.Memory > 0 {
		text := "computation:"
		if c.FLOPS > 0 {
			text += fmt.Sprintf(" 2 operations for each multiplication of weights and of attention, at %g TFLOPS",
				c.FLOPS/1e12)
		}
		if c.Memory > 0 {
			if c.FLOPS > 0 {
				text += ", or, if that is longer,"
			}
			text += fmt.Sprintf(" the bytes of the weights, and of the keys and values of the context, at %g GB/s",
				c.Memory/1e9)
		}
		notes = append(notes, text)
		// Llama's and Mixtral's heads have 128 elements. vLLM and Megatron give each rank whole heads.
		if part := float64(d.KeyValue) / float64(f.TP); part < usualHead {
			notes = append(notes,
				fmt.Sprintf(
					"a rank is taken to have %g of the %d elements of keys and of values, less than a usual head of "+
						"%d: "+
						"engines repeat a whole head on several ranks, which then read more", part, d.KeyValue,
					usualHead))
		}
	} else {
		var given []string
		if f.Prefill > 0 {
			given = append(given, fmt.Sprintf("%v for the prefill", c.Prefill))
		}
		if f.Decode > 0 {
			given = append(given, fmt.Sprintf("%v for a pass of one token", c.Decode))
		}
		notes = append(notes, fmt.Sprintf("computation: %s, as given; layers share it by their multiplications",
			strings.Join(given, ", ")))
	}
	if f.PP > 1 {
		text := "pipeline: each rank sends the hidden states of its batch"
		if f.VLLM {
			text = "pipeline: hidden states and residual, each in parts by the tensor parallel ranks, as vLLM's " +
				"send_tensor_dict"
		}
		notes = append(notes,
			text+
				"; the new tokens go back from the last stage as a message of int32 (vLLM: by its scheduler, or "+
				"broadcast with asynchronous scheduling)")
	}
	return notes
}

// comms are the communicators. Those of one kind have one name.
func (f *Inference) comms() []workload.Comm {
	var list commList
	inStage := f.TP * f.EP
	for first := 0; first < f.Ranks(); first += f.TP {
		list.add("tp", first, 1, f.TP)
	}
	for stage := range f.PP {
		for t := range f.TP {
			list.add("ep", stage*inStage+t, f.TP, f.EP)
		}
	}
	for rank := range inStage {
		list.add("pp", rank, inStage, f.PP)
		if f.PP > 1 {
			list.add("tokens", rank, (f.PP-1)*inStage, 2)
		}
	}
	return list
}
