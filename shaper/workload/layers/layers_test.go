// SPDX-License-Identifier: Apache-2.0

package layers

import "testing"

// The published numbers of parameters; those of GPT-2 and BERT are what transformers' classes have.
func TestParameters(t *testing.T) {
	for name, want := range map[string]int64{
		"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "resnet101": 44_549_160,
		"resnet152": 60_192_808,
		"vgg16":     138_357_544, "vgg19": 143_667_240, "mnist": 1_199_882,
		"densenet121": 7_978_856, "densenet201": 20_013_928, "alexnet": 61_100_840,
		"bert-base": 109_514_298, "bert-large": 335_174_458,
		"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200,
		"llama2-7b": 6_738_415_616, "llama2-13b": 13_015_864_320, "llama2-70b": 68_976_648_192,
		"llama3-8b":  8_030_261_248,
		"llama3-70b": 70_553_706_496, "mixtral-8x7b": 46_702_792_704,
	} {
		n, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Elements(); got != want {
			t.Errorf("%s has %d parameters, want %d", name, got, want)
		}
	}
}

// What torchvision says of a forward pass: so many multiplications and additions for an image.
func TestWork(t *testing.T) {
	for name, want := range map[string]float64{"resnet18": 1.81e9, "resnet50": 4.09e9, "vgg16": 15.47e9,
		"densenet201": 4.29e9, "alexnet": 0.714e9} {
		n, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, b := range n.Blocks {
			sum += float64(b.Work())
		}
		if sum < 0.99*want || sum > 1.01*want {
			t.Errorf("%s: %g, want %g", name, sum, want)
		}
	}
}

// ResNet-50's batch normalizations have the buffers that a trace of PyTorch shows.
func TestBuffers(t *testing.T) {
	n, err := Named("resnet50")
	if err != nil || n.Buffers != 53_120 || n.BufferCounters != 53 {
		t.Errorf("%d and %d, %v", n.Buffers, n.BufferCounters, err)
	}
}

func TestNamed(t *testing.T) {
	if _, err := Named("resnet5"); err == nil ||
		err.Error() != `"resnet5" is not a known model: did you mean resnet50 or resnet18 or resnet34?` {
		t.Error(err)
	}
	if n := Uniform(10, 3); n.Elements() != 10 || len(n.Blocks) != 3 {
		t.Errorf("%+v", n)
	}
}
