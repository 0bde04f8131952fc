// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Decode is the fabric that text describes, as a fabric file does; name stands
// for the file in errors and, without folder and extension, is the fabric's name
// unless the text gives one. The result is valid. Each error is an *Error.
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

// Encode is the text of a fabric file that Decode turns into f again. f must be
// valid.
func (f *Fabric) Encode() ([]byte, error) {
	var b bytes.Buffer
	y := yaml.NewEncoder(&b)
	y.SetIndent(2)
	if err := y.Encode(f); err != nil {
		return nil, fmt.Errorf("write fabric %s as text: %w", f.Name, err)
	}
	return b.Bytes(), nil
}
