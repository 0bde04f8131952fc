// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Limits that keep a malformed log from using too much memory. NCCL prints at most 1 KiB per line, and has at most 64
// channels (32 before 2.26) and 3 children of a tree node.
const (
	maxLine     = 4 << 10
	maxChannels = 128
	maxComms    = 1000
	maxEntries  = 100_000 // connections and decisions of one communicator
)

// Parser collects a [Log] while its text is written. The zero value is ready to use. It is not safe for concurrent use.
type Parser struct {
	log     Log
	partial []byte // the beginning of an incomplete line
	skip    bool   // ignore the rest of a line that is too long
	network string // printed before the communicator that uses it
	recent  []Decision

	listened uint64   // connections over NET for which the process has listened
	columns  []string // algorithms of the current tuning table
	chosen   *Comm    // of lines that name none; nil for the newest
}

// Log returns what was read so far. Later writes extend it.
func (p *Parser) Log() *Log { return &p.log }

// Comm returns the newest communicator, or nil.
func (p *Parser) Comm() *Comm {
	if len(p.log.Comms) == 0 {
		return nil
	}
	return p.log.Comms[len(p.log.Comms)-1]
}

// Select makes lines that name no communicator belong to c, until a new one is made. NCCL logs a connection or a
// decision without the communicator, so the caller must know which one is in use. Until Select is called it is the
// newest.
func (p *Parser) Select(c *Comm) { p.chosen = c }

// TakeDecisions returns the decisions since the last call, with counts of repetitions.
func (p *Parser) TakeDecisions() []Decision {
	taken := p.recent
	p.recent = nil
	return taken
}

// Write reads a part of a log, which may end anywhere. It never fails.
func (p *Parser) Write(text []byte) (int, error) {
	n := len(text)
	for {
		line, rest, found := bytes.Cut(text, []byte{'\n'})
		if !found {
			break
		}
		if !p.skip && len(p.partial)+len(line) <= maxLine {
			p.line(string(append(p.partial, line...)))
		}
		p.partial, p.skip = p.partial[:0], false
		text = rest
	}
	if p.skip || len(p.partial)+len(text) > maxLine {
		p.partial, p.skip = p.partial[:0], true
		return n, nil
	}
	p.partial = append(p.partial, text...)
	return n, nil
}

// line reads one line.
func (p *Parser) line(line string) {
	_, message, ok := strings.Cut(line, " NCCL INFO ")
	if !ok {
		return
	}
	for _, known := range lines {
		if match := known.pattern.FindStringSubmatch(message); match != nil {
			known.read(p, match)
			return
		}
	}
}

// lines are the known messages, the most frequent first.
var lines = []struct {
	pattern *regexp.Regexp
	read    func(*Parser, []string)
}{
	{regexp.MustCompile(`^(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}`),
		(*Parser).readDecision},
	{regexp.MustCompile(`^(\d+) Bytes -> Algo (\d+) proto (\d+) time ([0-9.]+)`), (*Parser).readNumberedDecision},
	{
		regexp.MustCompile(
			`^Channel (\d+)(?:/(\d+))? : (\d+)\[[^\]]*\] -> (\d+)\[[^\]]*\] (?:\[(send|receive)\] )?via (\S+(?: pointer)?)`), (*Parser).readConnection},
	{regexp.MustCompile(`^Channel (\d+)/(\d+) :((?: +\d+)+)(\.\.\.)?`), (*Parser).readRing},
	{regexp.MustCompile(`^Ring (\d+) : (\d+) -> (\d+) -> (\d+)`), (*Parser).readNeighbours},
	{regexp.MustCompile(`^Trees((?: \[\d+\] -?\d+/-?\d+/-?\d+->\d+->-?\d+)+)`), (*Parser).readTrees},
	{regexp.MustCompile(`^comm (0x[0-9a-f]+) rank (\d+) nRanks (\d+) nNodes (\d+) localRanks (\d+) localRank (\d+)`),
		(*Parser).readShape},
	{regexp.MustCompile(`^(\d+) coll channels, (?:.*?(\d+) nvls channels)?.*?(\d+) p2p channels, (\d+) p2p channels per peer`),
		(*Parser).readChannels},
	{regexp.MustCompile(`^NVLS Head +(\d+):((?: +\d+)+)$`), (*Parser).readNVLSHead},
	{regexp.MustCompile(`^ *Algorithm +\|((?: *\w+ *\|)+)$`), (*Parser).readColumns},
	{regexp.MustCompile(`^ *Max NThreads +\|((?: *\d+ *\|)+)$`), (*Parser).readThreads},
	{regexp.MustCompile(`^threadThresholds (\d+)/(\d+)/(\d+) \| (\d+)/(\d+)/(\d+) \|`), (*Parser).readThresholds},
	{regexp.MustCompile(`^ *(\w+) +\|((?: *[0-9.]+/ *[0-9.]+ *\|)+)$`), (*Parser).readLatencies},
	{regexp.MustCompile(`^Using network (.+)$`), (*Parser).readNetwork},
	{regexp.MustCompile(`^NCCL version ([0-9.]+)[^+]*(?:\+cuda([0-9.]+))?`), (*Parser).readVersion},
	{regexp.MustCompile(`ncclCommInit\w* comm (0x[0-9a-f]+) (?:.* commId (0x[0-9a-f]+) )?.*Init START`),
		(*Parser).readStart},
}

// number converts digits that a pattern has matched; a number above 2^31 is Unknown.
func number(s string) int {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return Unknown
	}
	return int(n)
}

func (p *Parser) newComm() *Comm {
	c := &Comm{CollChannels: Unknown, P2PChannels: Unknown, P2PChannelsPerPeer: Unknown, Network: p.network}
	if len(p.log.Comms) < maxComms {
		p.log.Comms = append(p.log.Comms, c)
	}
	return c
}

// comm returns the communicator of a line that names none.
func (p *Parser) comm() *Comm {
	if p.chosen != nil {
		return p.chosen
	}
	if c := p.Comm(); c != nil {
		return c
	}
	return p.newComm()
}

func (p *Parser) readStart(m []string) {
	p.chosen = nil
	c := p.newComm()
	c.Address, c.ID = m[1], m[2]
}

// readShape reads the line of a communicator, which has the address of its start if that was logged. An address may
// have been used before, by one that was destroyed.
func (p *Parser) readShape(m []string) {
	c := p.Comm()
	for _, made := range slices.Backward(p.log.Comms) {
		if made.Address == m[1] {
			c = made
			break
		}
	}
	if c == nil || c.Ranks != 0 { // a new one, whose start was not logged
		c = p.newComm()
	}
	c.Rank, c.Ranks, c.Nodes = number(m[2]), number(m[3]), number(m[4])
	c.LocalRanks, c.LocalRank = number(m[5]), number(m[6])
}

func (p *Parser) readNetwork(m []string) {
	p.network = m[1]
	if c := p.Comm(); c != nil && c.Ranks == 0 {
		c.Network = m[1]
	}
}

func (p *Parser) readVersion(m []string) { p.log.Version, p.log.CUDA = m[1], m[2] }

func (p *Parser) readChannels(m []string) {
	c := p.comm()
	c.CollChannels, c.P2PChannels, c.P2PChannelsPerPeer = number(m[1]), number(m[3]), number(m[4])
	if m[2] != "" {
		c.NVLSChannels = number(m[2])
	}
}

// readNVLSHead reads the ranks of a head, one of each node. NCCL prints at most 20 of them.
func (p *Parser) readNVLSHead(m []string) {
	c := p.comm()
	if h := number(m[1]); h == len(c.NVLSHeads) {
		var ranks []int
		for _, rank := range strings.Fields(m[2]) {
			ranks = append(ranks, number(rank))
		}
		c.NVLSHeads = append(c.NVLSHeads, ranks)
	}
}

// cells returns the cells of a table's row.
func cells(row string) []string {
	return strings.Fields(strings.ReplaceAll(row, "|", " "))
}

func (p *Parser) readColumns(m []string) { p.columns = cells(m[1]) }

// readThreads reads a row with a number per protocol under each algorithm.
func (p *Parser) readThreads(m []string) {
	numbers := cells(m[1])
	if len(numbers) != len(p.columns)*len(protoNames) {
		return
	}
	c := p.comm()
	if c.Threads == nil {
		c.Threads = map[Kernel]int{}
	}
	for i, n := range numbers {
		if algo := spelled(algoNames, p.columns[i/len(protoNames)]); slices.Contains(algoNames, algo) {
			c.Threads[Kernel{algo, protoNames[i%len(protoNames)]}] = number(n)
		}
	}
}

// readThresholds reads the thresholds of trees and rings, each by protocol.
func (p *Parser) readThresholds(m []string) {
	c := p.comm()
	c.Thresholds = map[Kernel]int{}
	for i, n := range m[1:] {
		c.Thresholds[Kernel{[]string{AlgoTree, AlgoRing}[i/len(protoNames)], protoNames[i%len(protoNames)]}] = number(n)
	}
}

// readLatencies reads the row of a collective, with a latency and a bandwidth per protocol under each algorithm.
func (p *Parser) readLatencies(m []string) {
	numbers := strings.Fields(strings.NewReplacer("|", " ", "/", " ").Replace(m[2]))
	coll, err := nccl.ParseCollective(m[1])
	if err != nil || len(numbers) != 2*len(p.columns)*len(protoNames) {
		return
	}
	c := p.comm()
	if c.LatencyUS == nil {
		c.LatencyUS = map[nccl.Collective]map[Kernel]float64{}
	}
	if c.LatencyUS[coll] == nil {
		c.LatencyUS[coll] = map[Kernel]float64{}
	}
	for i := 0; i < len(numbers); i += 2 {
		latency, err := strconv.ParseFloat(numbers[i], 64)
		if algo := spelled(algoNames, p.columns[i/2/len(protoNames)]); err == nil && slices.Contains(algoNames, algo) {
			c.LatencyUS[coll][Kernel{algo, protoNames[i/2%len(protoNames)]}] = latency
		}
	}
}

func (p *Parser) readConnection(m []string) {
	c := p.comm()
	listened := p.listened
	if m[5] == "receive" && device(m[6]) != Unknown {
		p.listened++
	}
	if len(c.Connections) == maxEntries {
		return
	}
	index := 0 // not printed for SHM
	if m[2] != "" {
		index = number(m[2])
	}
	c.Connections = append(c.Connections, Connection{
		Channel: number(m[1]), Index: index, From: number(m[3]), To: number(m[4]), Receive: m[5] == "receive",
		Listened: listened, Via: m[6],
	})
}

// at extends a list per channel to channel and returns a pointer to its entry, nil if the number is not a channel's.
func at[T any](list *[]T, channel int) *T {
	if channel < 0 || channel >= maxChannels {
		return nil
	}
	for len(*list) <= channel {
		*list = append(*list, *new(T))
	}
	return &(*list)[channel]
}

func (p *Parser) readRing(m []string) {
	ring := at(&p.comm().Rings, number(m[1]))
	if ring == nil {
		return
	}
	*ring = nil
	for _, rank := range strings.Fields(m[3]) {
		*ring = append(*ring, number(rank))
	}
}

func (p *Parser) readNeighbours(m []string) {
	if n := at(&p.comm().Neighbours, number(m[1])); n != nil {
		*n = Neighbours{Prev: number(m[2]), Next: number(m[4])}
	}
}

var treePattern = regexp.MustCompile(`\[(\d+)\] (-?\d+)/(-?\d+)/(-?\d+)->\d+->(-?\d+)`)

func (p *Parser) readTrees(m []string) {
	for _, t := range treePattern.FindAllStringSubmatch(m[1], -1) {
		node := at(&p.comm().Trees, number(t[1]))
		if node == nil {
			return
		}
		*node = TreeNode{Up: number(t[5])}
		for _, down := range t[2:5] {
			if d := number(down); d >= 0 {
				node.Down = append(node.Down, d)
			}
		}
	}
}

// Names of the numbers that 2.22 prints.
var (
	algoNames  = []string{AlgoTree, AlgoRing, AlgoCollNetDirect, AlgoCollNetChain, AlgoNVLS, AlgoNVLSTree, AlgoPAT}
	protoNames = []string{ProtoLL, ProtoLL128, ProtoSimple}
)

// named returns the entry with that number, or the digits themselves.
func named(names []string, digits string) string {
	if i := number(digits); i >= 0 && i < len(names) {
		return names[i]
	}
	return digits
}

// spelled returns the entry that s spells differently (SIMPLE, COLLNET_DIRECT), or s itself.
func spelled(names []string, s string) string {
	plain := strings.ReplaceAll(s, "_", "")
	for _, name := range names {
		if strings.EqualFold(name, plain) {
			return name
		}
	}
	return s
}

func (p *Parser) readNumberedDecision(m []string) {
	bytes, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return
	}
	predicted, err := strconv.ParseFloat(m[4], 64)
	if err != nil {
		return
	}
	p.choose(Decision{
		Bytes: bytes, Algo: named(algoNames, m[2]), Proto: named(protoNames, m[3]),
		ChannelLo: Unknown, ChannelHi: Unknown, PredictedUS: predicted, Count: 1,
	})
}

func (p *Parser) readDecision(m []string) {
	bytes, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return
	}
	p.choose(Decision{
		Func: m[1], Bytes: bytes, Algo: spelled(algoNames, m[3]), Proto: spelled(protoNames, m[4]),
		ChannelLo: number(m[5]), ChannelHi: number(m[6]), Count: 1,
	})
}

func (p *Parser) choose(c Decision) {
	count(&p.comm().Decisions, c)
	count(&p.recent, c)
}

// count adds a decision to a list, or to the count of the last one if it is the same.
func count(list *[]Decision, c Decision) {
	if n := len(*list); n > 0 && (*list)[n-1].same(c) {
		(*list)[n-1].Count++
	} else if n < maxEntries {
		*list = append(*list, c)
	}
}
