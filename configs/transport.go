// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Transport kinds.
const (
	TCP  = "tcp"  // a send completes when it is in the send buffer
	RDMA = "rdma" // a send waits for the receiver and completes when it is acknowledged
)

// How rdma recovers from a loss.
const (
	GoBackN         = "go-back-n"
	SelectiveRepeat = "selective-repeat"
)

// Congestion control of tcp. Without it only the buffers bound the bytes in flight. A fabric that does not say
// which has none; the profiles have Cubic, Linux's default.
const (
	NoCongestion = "none"
	Reno         = "reno"
	Cubic        = "cubic"
)

// Transport is the protocol above the links. Fields that belong to the other kind are
// zero.
type Transport struct {
	Kind string        `yaml:"kind"`
	RTO  time.Duration `yaml:"rto"` // retransmission timeout: finds a loss that no later packet reveals

	// tcp: bytes accepted from the sender and not yet acknowledged
	SendBuffer units.Size    `yaml:"send_buffer,omitempty"`
	Window     units.Size    `yaml:"window,omitempty"`     // tcp: bytes sent and not yet read by the receiver
	Timeout    time.Duration `yaml:"timeout,omitempty"`    // tcp: a path down for this long is an error
	Congestion string        `yaml:"congestion,omitempty"` // tcp; empty = NoCongestion

	RetryCount int    `yaml:"retry_count,omitempty"` // rdma: a path down for this many RTOs is an error
	Recovery   string `yaml:"recovery,omitempty"`    // rdma

	// Rails is how many lines a NIC stands for, 1 to MaxRails; 0 = 1. A message goes over as many of them as have
	// MinStripe bytes of it each. rdma.
	Rails     int        `yaml:"rails,omitempty"`
	MinStripe units.Size `yaml:"min_stripe,omitempty"`
}

// DefaultTransport is the transport of a fabric that gives only its kind, TCP or RDMA.
//
// tcp has the largest buffers of Linux's default autotuning (tcp_wmem 4 MiB, tcp_rmem
// 6 MiB), Linux's minimum retransmission timeout, and the total timeout of tcp_retries2
// = 15. rdma has the timeout code 14 of an InfiniBand queue pair, 4.096 us x 2^14, and
// the largest retry count.
func DefaultTransport(kind string) Transport {
	if kind == TCP {
		return Transport{
			Kind: TCP, RTO: 200 * time.Millisecond,
			SendBuffer: 4 * units.MiB, Window: 6 * units.MiB, Timeout: 924600 * time.Millisecond,
		}
	}
	return Transport{Kind: RDMA, RTO: 4096 << 14, RetryCount: 7, Recovery: GoBackN}
}

// setKind changes t to the defaults of kind, unless t is of that kind already.
func (t *Transport) setKind(kind string) {
	if kind != t.Kind && (kind == TCP || kind == RDMA) {
		*t = DefaultTransport(kind)
	}
}

// validateRails checks what rdma has of several rails.
func (t *Transport) validateRails() error {
	if err := between("rails", t.Rails, 0, MaxRails); err != nil {
		return err
	}
	if t.Rails > 1 {
		return between("min_stripe", t.MinStripe, 1, MaxBuffer)
	}
	if t.MinStripe != 0 {
		return Errorf("min_stripe", "given without rails: a message is divided among several")
	}
	return nil
}

// SlowsDown says whether flows have a congestion window in the link model.
func (t *Transport) SlowsDown() bool {
	return t.Kind == TCP && (t.Congestion == Reno || t.Congestion == Cubic)
}

// validate checks every value of t. Fields in the error are as in a file, from the
// transport on.
func (t *Transport) validate() error {
	if err := between("rto", t.RTO, MinRTO, MaxRTO); err != nil {
		return err
	}
	switch t.Kind {
	case TCP:
		if t.RetryCount != 0 || t.Recovery != "" || t.Rails != 0 || t.MinStripe != 0 {
			return Errorf("kind", "tcp has no retry_count, no recovery, no rails and no min_stripe")
		}
		if err := between("send_buffer", t.SendBuffer, MinBuffer, MaxBuffer); err != nil {
			return err
		}
		if err := between("window", t.Window, MinBuffer, MaxBuffer); err != nil {
			return err
		}
		if !slices.Contains([]string{"", NoCongestion, Reno, Cubic}, t.Congestion) {
			return Errorf("congestion", "%q is not one of %s, %s, %s", t.Congestion, NoCongestion, Reno, Cubic)
		}
		return between("timeout", t.Timeout, t.RTO, MaxTimeout)
	case RDMA:
		if t.SendBuffer != 0 || t.Window != 0 || t.Timeout != 0 {
			return Errorf("kind", "rdma has no send_buffer, no window and no timeout")
		}
		if t.Congestion != "" {
			return Errorf("congestion",
				"%s given for rdma, which has no congestion control in the model: leave it out, or give --set transport=%s",
				t.Congestion, TCP)
		}
		if t.Recovery != GoBackN && t.Recovery != SelectiveRepeat {
			return Errorf("recovery", "%q is not one of %s, %s", t.Recovery, GoBackN, SelectiveRepeat)
		}
		return cmp.Or(between("retry_count", t.RetryCount, 1, MaxRetryCount), t.validateRails())
	}
	return Errorf("kind", "%q is not one of %s, %s", t.Kind, TCP, RDMA)
}
