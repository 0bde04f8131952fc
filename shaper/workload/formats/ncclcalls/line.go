// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"regexp"
	"strconv"
	"strings"
)

// callFields are the parts of NCCL's line of a call. They are as NCCL prints them, but for opCount, which
// it prints in hexadecimal. Only RCCL says the rank.
type callFields struct {
	name, count, datatype, op, root, comm, ranks, stream string
	rank                                                 string // in the communicator; "" if the line does not say
	opCount                                              uint64
}

// isCall says whether a message is of a call, whole or cut.
func isCall(text string) bool { return strings.Contains(text, ": opCount ") }

// parseCall reads a message such as "AllReduce: opCount 1f sendbuff 0x7 recvbuff 0x9 count 8 datatype 7 op 0 root 0
// comm 0xa00 [nranks=2] stream 0x5". NCCL 2.4 to 2.30 write this form; others have "[2]" before the name, or words
// after the stream. ok is false if the message is cut.
func parseCall(text string) (c callFields, ok bool) {
	name, rest, found := strings.Cut(text, ": opCount ")
	if !found {
		return c, false
	}
	c.name = name[strings.LastIndexByte(name, ' ')+1:]
	number, rest, _ := strings.Cut(rest, " ")
	var err error
	if c.opCount, err = strconv.ParseUint(number, 16, 64); err != nil || c.name == "" {
		return c, false
	}
	for rest != "" {
		var key, value string
		key, rest, _ = strings.Cut(rest, " ")
		if ranks, found := strings.CutPrefix(key, "[nranks="); found {
			c.ranks, found = strings.CutSuffix(ranks, "]")
			if !found {
				return c, false
			}
			continue
		}
		value, rest, _ = strings.Cut(rest, " ")
		switch key {
		case "count":
			c.count = value
		case "datatype":
			c.datatype = value
		case "op":
			c.op = value
		case "root":
			c.root = value
		case "comm":
			c.comm = value
		case "stream":
			c.stream = streamIn.FindString(value) // a quotation mark or the like may follow
		case "globalrank":
			c.rank = value
		case "sendbuff", "recvbuff", "acc":
		default:
			if c.stream == "" {
				return c, false
			}
		}
	}
	return c, c.stream != "" && c.ranks != "" && address.MatchString(c.comm) &&
		c.count != "" && c.datatype != "" && c.op != "" && c.root != ""
}

var (
	streamIn = regexp.MustCompile(`^(?:0x[0-9a-fA-F]+|\(nil\))`)
	address  = regexp.MustCompile(`^0x[0-9a-f]+$`)
	setLine  = regexp.MustCompile(`^(NCCL_\w+) set by environment to (\S+?)\.?$`)

	// rayRepeated is what Ray writes behind a line after it has left out lines that differ from it in numbers only.
	rayRepeated = regexp.MustCompile(`\[repeated \d+x across cluster\]`)

	commLine   = regexp.MustCompile(`\bcomm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)`)
	deviceIn   = regexp.MustCompile(` cudaDev (\d+)\b`)
	commIDIn   = regexp.MustCompile(` commId (0x[0-9a-f]+)`)
	parentIn   = regexp.MustCompile(` parent (0x[0-9a-f]+) (?:splitCount|childCount) (\d+) color (-?\d+)`)
	endOfComm  = regexp.MustCompile(`(?:Destroy|Abort) COMPLETE`)
	lineTime   = regexp.MustCompile(`\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)([.,]\d+)?\]?`)
	leastStamp = len("2006-01-02 15:04:05")
)

// commFields are what a line says of a communicator when it is made or ended. NCCL up to 2.17 does not print an id,
// and since 2.26 the id of a part of another communicator is the other's id, with the number of the split and the
// color.
type commFields struct {
	comm, rank, ranks string
	device            string // of the communicator; "" if the line does not say
	id                string
	parent, split     string // address, and "number/color"
	end               bool
}

// parseInit reads a message such as "ncclCommInitRank comm 0xa00 rank 0 nranks 4 cudaDev 0 ... commId 0x54fe - Init
// COMPLETE".
func parseInit(text string) (l commFields, ok bool) {
	if !strings.Contains(text, "comm 0x") {
		return l, false
	}
	m := commLine.FindStringSubmatch(text)
	if m == nil {
		return l, false
	}
	l.comm, l.rank, l.ranks, l.end = m[1], m[2], m[3], endOfComm.MatchString(text)
	if m := deviceIn.FindStringSubmatch(text); m != nil {
		l.device = m[1]
	}
	if m := commIDIn.FindStringSubmatch(text); m != nil {
		l.id = m[1]
	}
	if m := parentIn.FindStringSubmatch(text); m != nil {
		l.parent, l.split = m[1], m[2]+"/"+m[3]
	}
	return l, true
}
