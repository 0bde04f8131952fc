// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Decode reads the text of a fabric file. Errors name the file as name; without folder
// and extension, name is also the fabric's name if the text gives none. The result is
// valid. Each error is an *Error.
func Decode(name string, text []byte) (*Fabric, error) {
	f, origin, err := decode(name, text)
	if err != nil {
		return nil, err
	}
	if err := origin.place(f.Validate()); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode returns the text of a fabric file that Decode reads as f. f must be valid.
func (f *Fabric) Encode() ([]byte, error) {
	var b bytes.Buffer
	y := yaml.NewEncoder(&b)
	y.SetIndent(2)
	if err := y.Encode(f); err != nil {
		return nil, fmt.Errorf("write fabric %s as text: %w", f.Name, err)
	}
	return b.Bytes(), nil
}
