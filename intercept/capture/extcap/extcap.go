// SPDX-License-Identifier: Apache-2.0

// Package extcap has what Wireshark and a program that captures for it say to each other (extcap): the sentences that
// describe interfaces, options and a toolbar, and the messages of the toolbar's controls during a capture. Wireshark's
// Developer's Guide describes them in the chapter about extcap.
package extcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Field is a key of a sentence with its value.
type Field struct{ Key, Value string }

// Sentence is a line that describes something to Wireshark. Values have no braces.
func Sentence(kind string, fields ...Field) string {
	var b strings.Builder
	b.WriteString(kind)
	b.WriteByte(' ')
	for _, f := range fields {
		fmt.Fprintf(&b, "{%s=%s}", f.Key, strings.NewReplacer("{", "(", "}", ")", "\n", " ").Replace(f.Value))
	}
	b.WriteByte('\n')
	return b.String()
}

// Command says what a message of a control is for.
type Command uint8

// Commands. Wireshark sends Initialized and Set.
const (
	Initialized Command = 0 // the toolbar is ready; it concerns no control
	Set         Command = 1 // the control has this value
	StatusBar   Command = 6 // show this text in the status bar
)

// Message is a message about a control. The payload is text, or 0 or 1 in one byte for a boolean.
type Message struct {
	Control uint8
	Command Command
	Payload []byte
}

const (
	indication = 'T'
	headerSize = 6         // indication, length of the rest behind these 4 bytes, control, command
	maxPayload = 1<<16 - 1 // Wireshark's limit
)

// errMessage says that what was read is not a message.
var errMessage = errors.New("the toolbar's message is malformed")

// Append appends the message to b. Of a payload that is too long, it appends the begin.
func (m *Message) Append(b []byte) []byte {
	payload := m.Payload[:min(len(m.Payload), maxPayload)]
	n := uint32(len(payload) + 2)
	b = append(b, indication, byte(n>>16), byte(n>>8), byte(n), m.Control, byte(m.Command))
	return append(b, payload...)
}

// Read reads a message. At the end of the input the error is io.EOF.
func Read(r io.Reader) (Message, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errMessage
		}
		return Message{}, err
	}
	n := binary.BigEndian.Uint32(h[:4]) & 0xffffff
	if h[0] != indication || n < 2 || n > maxPayload+2 {
		return Message{}, errMessage
	}
	m := Message{Control: h[4], Command: Command(h[5]), Payload: make([]byte, n-2)}
	if _, err := io.ReadFull(r, m.Payload); err != nil {
		return Message{}, errMessage
	}
	return m, nil
}
