// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Decode is the fabric that text describes, as a fabric file does; name stands
// for the file in errors. The result is valid.
func Decode(name string, text []byte) (*Fabric, error) {
	f, origin, err := decode(name, text)
	if err != nil {
		return nil, err
	}
	if err := origin.validate(f); err != nil {
		return nil, err
	}
	return f, nil
}

// Encode is the text of a fabric file that Decode turns into f again.
func (f *Fabric) Encode() ([]byte, error) {
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write fabric %s as text: %w", f.Name, err)
	}
	return text, nil
}
