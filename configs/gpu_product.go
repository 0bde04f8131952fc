// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"regexp"
	"slices"
	"strings"
)

// KindOfProduct is the name of the built-in kind of GPU whose product this is, as CUDA and nvidia-smi name it, whatever
// the size of its memory; "" if there is none. near are then kinds with similar products, at most three.
func KindOfProduct(product string) (kind string, near []string, err error) {
	kinds, err := GPUs()
	if err != nil {
		return "", nil, err
	}
	var models []string
	for _, k := range kinds {
		model := modelOf(k.Product)
		if model == modelOf(product) {
			return k.Name, nil, nil
		}
		models = append(models, model)
	}
	for _, model := range Nearest(modelOf(product), models) {
		near = append(near, kinds[slices.Index(models, model)].Name)
	}
	return "", near, nil
}

var (
	memorySize = regexp.MustCompile(`^[0-9]+gb$`)
	noWord     = regexp.MustCompile(`[^a-z0-9]+`)
)

// modelOf is a product without its maker and the size of its memory, in small letters: h100 hbm3.
func modelOf(product string) string {
	words := noWord.Split(strings.ToLower(product), -1)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return w == "" || w == "nvidia" || w == "tesla" || memorySize.MatchString(w)
	}), " ")
}
