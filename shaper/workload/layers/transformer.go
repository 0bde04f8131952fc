// SPDX-License-Identifier: Apache-2.0

package layers

import "fmt"

// embedding is a table in which tokens are looked up, which costs no multiplication.
func (b *Block) embedding(name string, rows, columns int64) {
	b.Tensors = append(b.Tensors, Tensor{name + ".weight", rows * columns, 0})
}

// bert is BertForPreTraining without its pooler and heads for next sentences: BertForMaskedLM, whose decoder shares the
// weight of the word embeddings.
func bert(depth int, hidden int64) *Network {
	const words, positions = 30522, 512
	n := &Network{Tokens: 512,
		Source: "Devlin et al. 2018, arXiv:1810.04805; parameters as in transformers' BertForMaskedLM"}
	e := n.block("embeddings")
	e.embedding("word_embeddings", words, hidden)
	e.embedding("position_embeddings", positions, hidden)
	e.embedding("token_type_embeddings", 2, hidden)
	e.norm("LayerNorm", hidden)
	for i := range depth {
		b := n.block("layer%d", i)
		for _, part := range []string{"query", "key", "value", "attention.output"} {
			b.linear(part, hidden, hidden)
		}
		b.norm("attention.LayerNorm", hidden)
		b.linear("intermediate", hidden, 4*hidden)
		b.linear("output", 4*hidden, hidden)
		b.norm("LayerNorm", hidden)
	}
	head := n.block("head")
	head.Tensors = append(head.Tensors, Tensor{"bias", words, words * hidden}) // the work is that of the shared weight
	head.linear("dense", hidden, hidden)
	head.norm("LayerNorm", hidden)
	return n
}

// gpt2 is GPT-2, whose output shares the weight of the word embeddings.
func gpt2(depth int, hidden int64) *Network {
	const words, positions = 50257, 1024
	n := &Network{Tokens: positions, Source: "Radford et al. 2019, GPT-2; parameters as in transformers' GPT2LMHeadModel"}
	e := n.block("embeddings")
	e.embedding("wte", words, hidden)
	e.embedding("wpe", positions, hidden)
	for i := range depth {
		b := n.block("h%d", i)
		b.norm("ln_1", hidden)
		b.linear("attn.c_attn", hidden, 3*hidden)
		b.linear("attn.c_proj", hidden, hidden)
		b.norm("ln_2", hidden)
		b.linear("mlp.c_fc", hidden, 4*hidden)
		b.linear("mlp.c_proj", 4*hidden, hidden)
	}
	head := n.block("head")
	head.norm("ln_f", hidden)
	head.Tensors[0].Work = words * hidden // of the shared weight
	return n
}

// Decoder are the sizes of a Llama or Mixtral. KeyValue is the width of keys and values, less than Hidden if heads
// share them. Each MLP has three matrices: gate, up and down. Experts is 0 for a dense network.
type Decoder struct {
	Layers, Hidden, Intermediate, KeyValue, Words int64
	Experts, TopK                                 int
}

const (
	llamaSource = "Touvron et al. 2023, arXiv:2307.09288, and Llama 3, arXiv:2407.21783; parameters as in " +
		"transformers' LlamaForCausalLM"
	mixtralSource = "Jiang et al. 2024, arXiv:2401.04088; parameters as in transformers' MixtralForCausalLM"
)

// llama is a Llama 2 or 3, or a Mixtral: its MLP has a gate, and its output a weight of its own.
func llama(source string, tokens int64, d *Decoder) *Network {
	n := &Network{Tokens: tokens, Source: source, Decoder: d}
	n.block("embeddings").embedding("embed_tokens", d.Words, d.Hidden)
	scale := func(b *Block, name string) { b.Tensors = append(b.Tensors, Tensor{name + ".weight", d.Hidden, 0}) }
	for i := range d.Layers {
		b := n.block("layer%d", i)
		b.matrix("q_proj", d.Hidden, d.Hidden)
		b.matrix("k_proj", d.Hidden, d.KeyValue)
		b.matrix("v_proj", d.Hidden, d.KeyValue)
		b.matrix("o_proj", d.Hidden, d.Hidden)
		if d.Experts > 0 {
			b.matrix("gate", d.Hidden, int64(d.Experts))
		}
		for expert := range max(d.Experts, 1) {
			b.mlp(d, expert)
		}
		scale(b, "input_layernorm")
		scale(b, "post_attention_layernorm")
	}
	head := n.block("head")
	scale(head, "norm")
	head.matrix("lm_head", d.Hidden, d.Words)
	return n
}

// mlp adds an MLP, or an expert. An expert works for TopK of Experts tokens.
func (b *Block) mlp(d *Decoder, expert int) {
	prefix, first := "", len(b.Tensors)
	if d.Experts > 0 {
		prefix = fmt.Sprintf("experts.%d.", expert)
	}
	b.matrix(prefix+"gate_proj", d.Hidden, d.Intermediate)
	b.matrix(prefix+"up_proj", d.Hidden, d.Intermediate)
	b.matrix(prefix+"down_proj", d.Intermediate, d.Hidden)
	for i := first; i < len(b.Tensors) && d.Experts > 0; i++ {
		b.Tensors[i].Work = b.Tensors[i].Work * int64(d.TopK) / int64(d.Experts)
	}
}

// matrix is a linear layer without a bias. Its work is the work of one token.
func (b *Block) matrix(name string, in, out int64) { b.conv(name, in, out, 1, 1, false) }
