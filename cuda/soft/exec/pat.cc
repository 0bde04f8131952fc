// SPDX-License-Identifier: Apache-2.0
#include "pat.h"

#include "layout.h"

namespace softexec {
namespace {

int lowest_bit(int v) { return __builtin_ctz(static_cast<unsigned>(v)); }
int parent_of(int s) { return s & (s - 1); }

// Returns the bits of ~v in reverse order, in a word with n values. ReduceScatter visits the multiples in this order:
// multiples with the same parent are neighbours, and 0 is last.
int reversed_complement(int v, int n)
{
	int r = 0;
	for (int bit = 1, mirrored = n / 2; bit < n; bit *= 2, mirrored /= 2) {
		if ((v & bit) == 0)
			r += mirrored;
	}
	return r;
}

// A sequence of hops (see pat.h): the hops of a column, or the hops of column 0 whose distances are odd multiples of
// D*scale.
class Sequence {
public:
	// scale is used for column 0 only.
	Sequence(const PatShape &s, bool mirrored, int column, int scale)
		: shape_(s), mirrored_(mirrored), column_(column), scale_(scale)
	{
	}

	int size() const { return column_ ? shape_.multiples : shape_.multiples / (2 * scale_); }
	int distance(int i) const
	{
		int at = mirrored_ ? reversed_complement(i, size()) : i;
		return column_ ? at * shape_.columns + column_ : (2 * at + 1) * scale_ * shape_.columns;
	}
	bool exists(int i) const { return i < size() && distance(i) < shape_.ranks; }
	int dimension() const { return lowest_bit(distance(0)); }
	int slot(int i) const { return i % shape_.group; }

	// True if hop i is the last of its step. In plain order the distances that are no rank come last.
	bool ends_group(int i) const
	{
		return slot(i) == shape_.group - 1 || i == size() - 1 || (!mirrored_ && !exists(i + 1));
	}

	// Returns the number of steps before the step of hop i.
	int steps_before(int i) const
	{
		int steps = 0;
		for (int g = 0; g < i / shape_.group; g++) {
			bool any = false;
			for (int k = 0; k < shape_.group; k++)
				any |= exists(g * shape_.group + k);
			steps += any;
		}
		return steps;
	}

private:
	PatShape shape_;
	bool mirrored_;
	int column_, scale_;
};

// A hop's place: its sequence, and its index there.
struct Place {
	Sequence sequence;
	int index;
};

Place place_of(const PatShape &s, bool mirrored, int distance)
{
	int column = distance % s.columns;
	int scale = column ? 1 : 1 << lowest_bit(distance / s.columns);
	Place p = { Sequence(s, mirrored, column, scale), 0 };
	while (p.sequence.distance(p.index) != distance)
		p.index++;
	return p;
}

// Appends ReduceScatter's hop from child, whose data a peer has sent, to its parent. If the child is no rank, the
// parent still gets this rank's input.
void reduce_hop(const PatShape &s, int child, std::vector<PatStep> *out)
{
	int parent = parent_of(child);
	if (parent >= s.ranks)
		return;
	PatStep step;
	step.distance = parent;
	if (child < s.ranks) {
		Place from = place_of(s, true, child);
		step.recv_dim = from.sequence.dimension(), step.recv_slot = from.sequence.slot(from.index);
		step.post_recv = from.sequence.ends_group(from.index);
	}
	if (parent > 0) {
		Place to = place_of(s, true, parent);
		bool last_child = child == parent + 1;
		step.send_dim = to.sequence.dimension(), step.send_slot = to.sequence.slot(to.index);
		step.post_send = last_child && to.sequence.ends_group(to.index);
		// Several steps of the sequence can be incomplete. The last children complete them one after another.
		step.send_ahead = last_child ? 0 : to.sequence.steps_before(to.index);
	}
	out->push_back(step);
}

// Appends AllGather's hop from the parent, whose data was received or is this rank's input, to child.
void gather_hop(const PatShape &s, int child, std::vector<PatStep> *out)
{
	int parent = parent_of(child);
	bool sends = child < s.ranks, last_child = child == parent + 1;
	// Data that is not sent on must still be received.
	if (parent >= s.ranks || (!sends && !last_child))
		return;
	PatStep step;
	step.distance = parent;
	if (sends) {
		Place to = place_of(s, false, child);
		step.send_dim = to.sequence.dimension(), step.send_slot = to.sequence.slot(to.index);
		step.post_send = to.sequence.ends_group(to.index);
	}
	if (parent > 0) {
		Place from = place_of(s, false, parent);
		step.recv_dim = from.sequence.dimension(), step.recv_slot = from.sequence.slot(from.index);
		step.post_recv = last_child && from.sequence.ends_group(from.index);
		step.recv_ahead = last_child ? 0 : from.sequence.steps_before(from.index);
	} else if (!sends) {
		return;
	}
	out->push_back(step);
}

// Appends the receive for a distance without children.
void gather_leaf(const Sequence &t, int i, std::vector<PatStep> *out)
{
	if (!t.exists(i))
		return;
	PatStep step;
	step.distance = t.distance(i);
	step.recv_dim = 0, step.recv_slot = t.slot(i);
	step.post_recv = t.ends_group(i);
	out->push_back(step);
}

// Visits a column and then the columns below it, depth first, the largest first.
void gather_columns(const PatShape &s, int column, int below, std::vector<PatStep> *out)
{
	if (column) {
		Sequence t(s, false, column, 1);
		for (int i = 0; i < t.size(); i++)
			gather_hop(s, t.distance(i), out);
		for (int i = 0; column % 2 == 1 && i < t.size(); i++)
			gather_leaf(t, i, out);
	}
	for (int c = below; c >= 1; c /= 2)
		gather_columns(s, column + c, c / 2, out);
}

} // namespace

PatShape pat_shape(int ranks, size_t step_bytes, size_t channel_bytes)
{
	PatShape s = { ranks, 1, 1, 1 };
	while (s.columns < ranks)
		s.columns *= 2;
	auto double_up = [&] { s.multiples *= 2, s.columns /= 2; };
	// Put as many hops into a step as fit, at least two. Then double the number of steps of a sequence, up to the
	// steps that a connection can have in flight.
	auto fits = [&] {
		return channel_bytes == 0 || step_bytes / (channel_bytes * static_cast<size_t>(s.multiples)) >= 2;
	};
	while (s.multiples < ranks / 2 && fits())
		double_up();
	s.group = s.multiples;
	for (int d = kSteps; d > 1 && s.multiples < ranks / 2; d /= 2)
		double_up();
	return s;
}

std::vector<PatStep> pat_reduce_scatter(const PatShape &s)
{
	std::vector<PatStep> out;
	for (int column = s.columns - 1; column > 0; column--) {
		Sequence t(s, true, column, 1);
		if (column % 2 == 1) { // no children: only this rank's input
			for (int i = 0; i < t.size(); i++) {
				if (!t.exists(i))
					continue;
				PatStep step;
				step.distance = t.distance(i);
				step.send_dim = 0, step.send_slot = t.slot(i);
				step.post_send = t.ends_group(i);
				out.push_back(step);
			}
		}
		// Column 1's hops to column 0 follow below, after all other hops to column 0.
		for (int i = 0; column > 1 && i < t.size(); i++)
			reduce_hop(s, t.distance(i), &out);
	}
	for (int scale = 1; scale < s.multiples; scale *= 2) {
		Sequence t(s, true, 0, scale);
		for (int i = 0; i < t.size(); i++)
			reduce_hop(s, t.distance(i) + 1, &out);
		for (int i = 0; i < t.size(); i++)
			reduce_hop(s, t.distance(i), &out);
	}
	reduce_hop(s, 1, &out);
	return out;
}

std::vector<PatStep> pat_all_gather(const PatShape &s)
{
	std::vector<PatStep> out;
	for (int scale = s.multiples / 2; scale >= 1; scale /= 2) {
		Sequence t(s, false, 0, scale);
		for (int i = 0; i < t.size(); i++)
			gather_hop(s, t.distance(i), &out);
	}
	gather_columns(s, 0, s.columns / 2, &out);
	return out;
}

} // namespace softexec
