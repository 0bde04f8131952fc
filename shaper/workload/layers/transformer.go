// SPDX-License-Identifier: Apache-2.0

package layers

import "fmt"

// embedding is a table in which tokens are looked up, which costs no multiplication.
func (b *Block) embedding(name string, rows, columns int64) {
	b.Tensors = append(b.Tensors, Tensor{name + ".weight", rows * columns, 0})
}

// bert is BertForPreTraining without its pooler and heads for next sentences: BertForMaskedLM, whose decoder shares the
// weight of the word embeddings.
func bert(name string, depth int, hidden int64) *Network {
	const words, positions = 30522, 512
	n := &Network{Name: name, Tokens: 512, Source: "Devlin et al. 2018, arXiv:1810.04805; parameters as in transformers' BertForMaskedLM"}
	e := Block{Name: "embeddings"}
	e.embedding("word_embeddings", words, hidden)
	e.embedding("position_embeddings", positions, hidden)
	e.embedding("token_type_embeddings", 2, hidden)
	e.norm("LayerNorm", hidden)
	n.Blocks = append(n.Blocks, e)
	for i := range depth {
		b := Block{Name: fmt.Sprintf("layer%d", i)}
		for _, part := range []string{"query", "key", "value", "attention.output"} {
			b.linear(part, hidden, hidden)
		}
		b.norm("attention.LayerNorm", hidden)
		b.linear("intermediate", hidden, 4*hidden)
		b.linear("output", 4*hidden, hidden)
		b.norm("LayerNorm", hidden)
		n.Blocks = append(n.Blocks, b)
	}
	head := Block{Name: "head"}
	head.Tensors = append(head.Tensors, Tensor{"bias", words, words * hidden}) // the work is that of the shared weight
	head.linear("dense", hidden, hidden)
	head.norm("LayerNorm", hidden)
	n.Blocks = append(n.Blocks, head)
	return n
}

// gpt2 is GPT-2, whose output shares the weight of the word embeddings.
func gpt2(name string, depth int, hidden int64) *Network {
	const words, positions = 50257, 1024
	n := &Network{Name: name, Tokens: positions, Source: "Radford et al. 2019, GPT-2; parameters as in transformers' GPT2LMHeadModel"}
	e := Block{Name: "embeddings"}
	e.embedding("wte", words, hidden)
	e.embedding("wpe", positions, hidden)
	n.Blocks = append(n.Blocks, e)
	for i := range depth {
		b := Block{Name: fmt.Sprintf("h%d", i)}
		b.norm("ln_1", hidden)
		b.linear("attn.c_attn", hidden, 3*hidden)
		b.linear("attn.c_proj", hidden, hidden)
		b.norm("ln_2", hidden)
		b.linear("mlp.c_fc", hidden, 4*hidden)
		b.linear("mlp.c_proj", 4*hidden, hidden)
		n.Blocks = append(n.Blocks, b)
	}
	head := Block{Name: "head"}
	head.norm("ln_f", hidden)
	head.Tensors[0].Work = words * hidden // of the shared weight
	n.Blocks = append(n.Blocks, head)
	return n
}

// llamaSizes are the sizes of a Llama. keyValue is the width of keys and values, less than hidden if heads share them.
type llamaSizes struct {
	name                                          string
	depth                                         int
	hidden, intermediate, keyValue, words, tokens int64
}

// llama is a Llama 2 or 3: its MLP has a gate, and its output a weight of its own.
func llama(l llamaSizes) *Network {
	n := &Network{
		Name: l.name, Tokens: l.tokens,
		Source: "Touvron et al. 2023, arXiv:2307.09288, and Llama 3, arXiv:2407.21783; parameters as in transformers' LlamaForCausalLM",
	}
	e := Block{Name: "embeddings"}
	e.embedding("embed_tokens", l.words, l.hidden)
	n.Blocks = append(n.Blocks, e)
	scale := func(b *Block, name string) { b.Tensors = append(b.Tensors, Tensor{name + ".weight", l.hidden, 0}) }
	for i := range l.depth {
		b := Block{Name: fmt.Sprintf("layer%d", i)}
		b.matrix("q_proj", l.hidden, l.hidden)
		b.matrix("k_proj", l.hidden, l.keyValue)
		b.matrix("v_proj", l.hidden, l.keyValue)
		b.matrix("o_proj", l.hidden, l.hidden)
		b.matrix("gate_proj", l.hidden, l.intermediate)
		b.matrix("up_proj", l.hidden, l.intermediate)
		b.matrix("down_proj", l.intermediate, l.hidden)
		scale(&b, "input_layernorm")
		scale(&b, "post_attention_layernorm")
		n.Blocks = append(n.Blocks, b)
	}
	head := Block{Name: "head"}
	scale(&head, "norm")
	head.matrix("lm_head", l.hidden, l.words)
	n.Blocks = append(n.Blocks, head)
	return n
}

// matrix is a linear layer without a bias. Its work is that of one token.
func (b *Block) matrix(name string, in, out int64) { b.conv(name, in, out, 1, 1, false) }
