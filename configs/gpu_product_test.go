// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"slices"
	"testing"
)

func TestKindOfProduct(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "h100-sxm", "H100 80GB HBM3": "h100-sxm", "NVIDIA H200": "h200-sxm", "NVIDIA B200": "b200",
		"NVIDIA A100-SXM4-40GB": "a100-sxm", "A100-SXM4-80GB": "a100-sxm", "Tesla V100-SXM2-16GB": "v100",
		"NVIDIA GH200 480GB": "gh200", "NVIDIA GB200": "gb200", "Tesla T4": "t4", "NVIDIA L40S": "l40s",
		// others than those that ship
		"NVIDIA H100 PCIe": "", "NVIDIA H100 NVL": "", "NVIDIA A100 80GB PCIe": "", "NVIDIA L40": "", "NVIDIA H20": "",
		"AMD Instinct MI300X": "", "": "", "NVIDIA H100 80GB HBM3, NVIDIA H200": "", "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "",
	} {
		if got, near, err := KindOfProduct(product); err != nil || got != want || want != "" && near != nil {
			t.Errorf("%s: %q near %q, %v; want %q", product, got, near, err, want)
		}
	}
	if _, near, err := KindOfProduct("NVIDIA L40"); err != nil || !slices.Contains(near, "l40s") {
		t.Errorf("near L40: %q, %v", near, err)
	}
	if _, near, err := KindOfProduct("a machine of another maker"); err != nil || near != nil {
		t.Errorf("near nothing: %q, %v", near, err)
	}
	kinds, err := GPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if got, _, err := KindOfProduct(k.Product); err != nil || got != k.Name {
			t.Errorf("%s: %s, %v", k.Name, got, err)
		}
	}
}
