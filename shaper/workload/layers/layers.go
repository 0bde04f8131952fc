// SPDX-License-Identifier: Apache-2.0

// Package layers has the parameters of published neural networks, layer by layer, as PyTorch's modules have them.
package layers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// Tensor is a parameter.
type Tensor struct {
	Name     string
	Elements int64
	// Work is proportional to the time of its layer: the multiplications of one sample, 0 for biases and
	// normalizations.
	Work int64
}

// Block is the part of a network that is sharded as a unit, such as a block of a transformer.
type Block struct {
	Name    string
	Tensors []Tensor
}

// Network is the parameters of a network in the order in which it uses them.
type Network struct {
	Name   string
	Blocks []Block
	// Buffers are the elements of float32 that are no parameters, and BufferCounters the elements of int64: the statistics
	// of batch normalizations, which DistributedDataParallel broadcasts at each forward pass.
	Buffers, BufferCounters int64
	// Source is the publication, and whose sizes these are.
	Source string
	// Tokens is the number of tokens of a sample, for networks whose samples are sequences.
	Tokens int64
	// Decoder are the sizes of a Llama or Mixtral, nil for other networks.
	Decoder *Decoder
}

// Tensors are the parameters of all blocks.
func (n *Network) Tensors() (all []Tensor) {
	for _, b := range n.Blocks {
		all = append(all, b.Tensors...)
	}
	return all
}

// Elements is the number of parameters.
func (n *Network) Elements() (sum int64) {
	for _, t := range n.Tensors() {
		sum += t.Elements
	}
	return sum
}

// block adds a block, and returns it until the next one is added.
func (n *Network) block(name string, args ...any) *Block {
	n.Blocks = append(n.Blocks, Block{Name: fmt.Sprintf(name, args...)})
	return &n.Blocks[len(n.Blocks)-1]
}

// Elements is the number of parameters of a block.
func (b *Block) Elements() (sum int64) {
	for _, t := range b.Tensors {
		sum += t.Elements
	}
	return sum
}

// Work is the work of a block.
func (b *Block) Work() (sum int64) {
	for _, t := range b.Tensors {
		sum += t.Work
	}
	return sum
}

// networks are the networks by name, in the order of help.
var networks = []struct {
	name string
	make func() *Network
}{
	{"resnet18", func() *Network { return resnet(basic, 2, 2, 2, 2) }},
	{"resnet34", func() *Network { return resnet(basic, 3, 4, 6, 3) }},
	{"resnet50", func() *Network { return resnet(bottleneck, 3, 4, 6, 3) }},
	{"resnet101", func() *Network { return resnet(bottleneck, 3, 4, 23, 3) }},
	{"resnet152", func() *Network { return resnet(bottleneck, 3, 8, 36, 3) }},
	{"vgg16", func() *Network { return vgg(2, 2, 3, 3, 3) }},
	{"vgg19", func() *Network { return vgg(2, 2, 4, 4, 4) }},
	{"densenet121", func() *Network { return densenet(6, 12, 24, 16) }},
	{"densenet201", func() *Network { return densenet(6, 12, 48, 32) }},
	{"alexnet", alexnet},
	{"mnist", mnist},
	{"bert-base", func() *Network { return bert(12, 768) }},
	{"bert-large", func() *Network { return bert(24, 1024) }},
	{"gpt2", func() *Network { return gpt2(12, 768) }},
	{"gpt2-medium", func() *Network { return gpt2(24, 1024) }},
	{"gpt2-large", func() *Network { return gpt2(36, 1280) }},
	{"gpt2-xl", func() *Network { return gpt2(48, 1600) }},
	{"llama2-7b", func() *Network { return llama(llamaSource, 4096, &Decoder{32, 4096, 11008, 4096, 32000, 0, 0}) }},
	{"llama2-13b", func() *Network { return llama(llamaSource, 4096, &Decoder{40, 5120, 13824, 5120, 32000, 0, 0}) }},
	{"llama2-70b", func() *Network { return llama(llamaSource, 4096, &Decoder{80, 8192, 28672, 1024, 32000, 0, 0}) }},
	{"llama3-8b", func() *Network { return llama(llamaSource, 8192, &Decoder{32, 4096, 14336, 1024, 128256, 0, 0}) }},
	{"llama3-70b", func() *Network { return llama(llamaSource, 8192, &Decoder{80, 8192, 28672, 1024, 128256, 0, 0}) }},
	{"mixtral-8x7b", func() *Network {
		return llama(mixtralSource, 32768, &Decoder{32, 4096, 14336, 1024, 32000, 8, 2})
	}},
}

// Names are the names of the networks.
func Names() (names []string) {
	for _, n := range networks {
		names = append(names, n.name)
	}
	return names
}

// Decoders are the names of the networks that have a Decoder.
func Decoders() (names []string) {
	for _, n := range networks {
		if n.make().Decoder != nil {
			names = append(names, n.name)
		}
	}
	return names
}

// Named returns a network.
func Named(name string) (*Network, error) {
	for _, n := range networks {
		if n.name == name {
			made := n.make()
			made.Name = name
			return made, nil
		}
	}
	if near := configs.Nearest(name, Names()); len(near) > 0 {
		return nil, fmt.Errorf("%q is not a known model: did you mean %s?", name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("%q is not a known model: there are %s", name, strings.Join(Names(), ", "))
}

// Uniform is a network of so many parameters in equal blocks, of which nothing else is known.
func Uniform(parameters int64, blocks int) *Network {
	n := &Network{Name: fmt.Sprintf("%d parameters", parameters), Source: "as given, in equal blocks"}
	for i := range int64(blocks) {
		share := parameters*(i+1)/int64(blocks) - parameters*i/int64(blocks)
		n.block("block%d", i).Tensors = []Tensor{{"weight", share, share}}
	}
	return n
}

// Note says in a line how many parameters the network has, and by what source.
func (n *Network) Note() string {
	text := fmt.Sprintf("%d parameters (%s)", n.Elements(), n.Source)
	if strings.HasPrefix(text, n.Name) {
		return text
	}
	return n.Name + ": " + text
}

// Reversed are the tensors of all blocks from the last to the first, as their gradients become ready.
func (n *Network) Reversed() []Tensor {
	all := n.Tensors()
	slices.Reverse(all)
	return all
}
