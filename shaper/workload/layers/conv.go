// SPDX-License-Identifier: Apache-2.0

package layers

import "fmt"

// conv adds the tensors of a convolution. positions is the number of places to which it is applied.
func (b *Block) conv(name string, in, out, kernel, positions int64, bias bool) {
	weights := in * out * kernel * kernel
	b.Tensors = append(b.Tensors, Tensor{name + ".weight", weights, weights * positions})
	if bias {
		b.Tensors = append(b.Tensors, Tensor{name + ".bias", out, 0})
	}
}

func (b *Block) linear(name string, in, out int64) { b.conv(name, in, out, 1, 1, true) }

// norm is a normalization, with a weight and a bias.
func (b *Block) norm(name string, channels int64) {
	b.Tensors = append(b.Tensors, Tensor{name + ".weight", channels, 0}, Tensor{name + ".bias", channels, 0})
}

// residual adds the layers of one residual block of ResNet to b, for an image of side² places, and returns how many
// channels it has at its end. Stride halves the side.
type residual func(n *Network, b *Block, in, width, side, stride int64) (out int64)

// basic is the block of ResNet-18 and 34.
func basic(n *Network, b *Block, in, width, side, stride int64) int64 {
	after := side / stride
	b.conv("conv1", in, width, 3, after*after, false)
	n.batchNorm(b, "bn1", width)
	b.conv("conv2", width, width, 3, after*after, false)
	n.batchNorm(b, "bn2", width)
	n.shortcut(b, in, width, after, stride)
	return width
}

// bottleneck is the block of ResNet-50, 101 and 152, with the stride in its 3x3 convolution as torchvision has it.
func bottleneck(n *Network, b *Block, in, width, side, stride int64) int64 {
	after := side / stride
	b.conv("conv1", in, width, 1, side*side, false)
	n.batchNorm(b, "bn1", width)
	b.conv("conv2", width, width, 3, after*after, false)
	n.batchNorm(b, "bn2", width)
	b.conv("conv3", width, 4*width, 1, after*after, false)
	n.batchNorm(b, "bn3", 4*width)
	n.shortcut(b, in, 4*width, after, stride)
	return 4 * width
}

// shortcut is the convolution beside a block that changes the shape.
func (n *Network) shortcut(b *Block, in, out, side, stride int64) {
	if in != out || stride != 1 {
		b.conv("downsample.0", in, out, 1, side*side, false)
		n.batchNorm(b, "downsample.1", out)
	}
}

// batchNorm has a mean and a variance for each channel, and a counter, besides its parameters.
func (n *Network) batchNorm(b *Block, name string, channels int64) {
	b.norm(name, channels)
	n.Buffers += 2 * channels
	n.BufferCounters++
}

// resnet is a ResNet for images of 224x224 and 1000 classes.
func resnet(add residual, depths ...int) *Network {
	n := &Network{Source: "He et al. 2015, arXiv:1512.03385; parameters as in torchvision"}
	stem := n.block("stem")
	stem.conv("conv1", 3, 64, 7, 112*112, false)
	n.batchNorm(stem, "bn1", 64)
	channels, side := int64(64), int64(56)
	for stage, depth := range depths {
		for i := range depth {
			stride := int64(1)
			if stage > 0 && i == 0 {
				stride = 2
			}
			channels = add(n, n.block("layer%d.%d", stage+1, i), channels, 64<<stage, side, stride)
			side /= stride
		}
	}
	n.block("head").linear("fc", channels, 1000)
	return n
}

// vgg is a VGG without batch normalization, for images of 224x224 and 1000 classes.
func vgg(depths ...int) *Network {
	n := &Network{Source: "Simonyan and Zisserman 2014, arXiv:1409.1556; parameters as in torchvision"}
	channels, side, layer := int64(3), int64(224), 0
	for stage, depth := range depths {
		out := min(int64(64)<<stage, 512)
		b := n.block("stage%d", stage+1)
		for range depth {
			b.conv(fmt.Sprintf("conv%d", layer), channels, out, 3, side*side, true)
			channels, layer = out, layer+1
		}
		side /= 2
	}
	n.classifier(channels * side * side)
	return n
}

// densenet is a DenseNet with a growth of 32 channels, for images of 224x224 and 1000 classes.
func densenet(depths ...int) *Network {
	const growth, bottleneck = 32, 4 * 32
	n := &Network{Source: "Huang et al. 2016, arXiv:1608.06993; parameters as in torchvision"}
	stem := n.block("stem")
	stem.conv("conv0", 3, 64, 7, 112*112, false)
	n.batchNorm(stem, "norm0", 64)
	channels, side := int64(64), int64(56)
	for stage, depth := range depths {
		for i := range depth {
			b := n.block("denseblock%d.%d", stage+1, i)
			n.batchNorm(b, "norm1", channels)
			b.conv("conv1", channels, bottleneck, 1, side*side, false)
			n.batchNorm(b, "norm2", bottleneck)
			b.conv("conv2", bottleneck, growth, 3, side*side, false)
			channels += growth
		}
		if stage == len(depths)-1 {
			break
		}
		b := n.block("transition%d", stage+1)
		n.batchNorm(b, "norm", channels)
		b.conv("conv", channels, channels/2, 1, side*side, false)
		channels, side = channels/2, side/2
	}
	head := n.block("head")
	n.batchNorm(head, "norm5", channels)
	head.linear("classifier", channels, 1000)
	return n
}

// alexnet is AlexNet on one GPU, for images of 224x224 and 1000 classes.
func alexnet() *Network {
	n := &Network{Source: "Krizhevsky 2014, arXiv:1404.5997; parameters as in torchvision"}
	for i, c := range []struct{ in, out, kernel, side int64 }{{3, 64, 11, 55}, {64, 192, 5, 27}, {192, 384, 3, 13},
		{384, 256, 3, 13}, {256, 256, 3, 13}} {
		n.block("features%d", i).conv("conv", c.in, c.out, c.kernel, c.side*c.side, true)
	}
	n.classifier(9216)
	return n
}

// classifier adds the three linear layers of VGG and AlexNet.
func (n *Network) classifier(in int64) {
	for i, size := range []struct{ in, out int64 }{{in, 4096}, {4096, 4096}, {4096, 1000}} {
		n.block("classifier%d", i).linear("fc", size.in, size.out)
	}
}

// mnist is the convolutional network of PyTorch's example for MNIST.
func mnist() *Network {
	n := &Network{Source: "the example mnist of PyTorch: two convolutions, two linear layers"}
	b := n.block("convolutions")
	b.conv("conv1", 1, 32, 3, 26*26, true)
	b.conv("conv2", 32, 64, 3, 24*24, true)
	b = n.block("linear")
	b.linear("fc1", 9216, 128)
	b.linear("fc2", 128, 10)
	return n
}
