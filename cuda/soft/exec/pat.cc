// SPDX-License-Identifier: Apache-2.0
#include "pat.h"

namespace softexec {
namespace {

constexpr int kStepsInFlight = 8;

int lowest_bit(int v) { return __builtin_ctz(static_cast<unsigned>(v)); }
int parent_of(int s) { return s & (s - 1); }

// The bits of ~v in reverse order, in a word that holds n values. Reduce-scatter goes through its multiples in this
// order; it puts those with a common parent next to each other, and 0 last.
int mirror_of_complement(int v, int n)
{
	int r = 0;
	for (int bit = 1, mirrored = n / 2; bit < n; bit *= 2, mirrored /= 2) {
		if ((v & bit) == 0)
			r += mirrored;
	}
	return r;
}

// The hops that go out in one run of steps: a column's, or the multiples of D that are odd multiples of D*scale.
class Train {
public:
	// column 0 stands for the multiples with that scale.
	Train(const PatShape &s, bool mirrored, int column, int scale)
		: shape_(s), mirrored_(mirrored), column_(column), scale_(scale)
	{
	}

	int size() const { return column_ ? shape_.multiples : shape_.multiples / (2 * scale_); }
	int distance(int i) const
	{
		int at = mirrored_ ? mirror_of_complement(i, size()) : i;
		return column_ ? at * shape_.columns + column_ : (2 * at + 1) * scale_ * shape_.columns;
	}
	bool exists(int i) const { return i < size() && distance(i) < shape_.ranks; }
	int dimension() const { return lowest_bit(distance(0)); }
	int slot(int i) const { return i % shape_.group; }

	// Whether the step that holds hop i is full with it. In plain order the ranks that don't exist come last.
	bool ends_group(int i) const
	{
		return slot(i) == shape_.group - 1 || i == size() - 1 || (!mirrored_ && !exists(i + 1));
	}

	// How many steps come before the one that holds hop i.
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

// A hop's place: its train and its number there.
struct Place {
	Train train;
	int index;
};

Place place_of(const PatShape &s, bool mirrored, int distance)
{
	int column = distance % s.columns;
	int scale = column ? 1 : 1 << lowest_bit(distance / s.columns);
	Place p = { Train(s, mirrored, column, scale), 0 };
	while (p.train.distance(p.index) != distance)
		p.index++;
	return p;
}

// The reduce-scatter's hop from child, which the peer has sent, to its parent here. Where there's no child, the parent
// still gets this rank's own part.
void reduce_hop(const PatShape &s, int child, std::vector<PatStep> *out)
{
	int parent = parent_of(child);
	if (parent >= s.ranks)
		return;
	PatStep step;
	step.distance = parent;
	if (child < s.ranks) {
		Place from = place_of(s, true, child);
		step.recv_dim = from.train.dimension(), step.recv_slot = from.train.slot(from.index);
		step.post_recv = from.train.ends_group(from.index);
	}
	if (parent > 0) {
		Place to = place_of(s, true, parent);
		bool last_child = child == parent + 1;
		step.send_dim = to.train.dimension(), step.send_slot = to.train.slot(to.index);
		step.post_send = last_child && to.train.ends_group(to.index);
		// Steps of the train that are still open lie ahead; the last children close them one after another.
		step.send_ahead = last_child ? 0 : to.train.steps_before(to.index);
	}
	out->push_back(step);
}

// All-gather's hop to child. Its data was received as its parent, or is this rank's own.
void gather_hop(const PatShape &s, int child, std::vector<PatStep> *out)
{
	int parent = parent_of(child);
	bool sends = child < s.ranks, last_child = child == parent + 1;
	// Data that nobody wants must still be received.
	if (parent >= s.ranks || (!sends && !last_child))
		return;
	PatStep step;
	step.distance = parent;
	if (sends) {
		Place to = place_of(s, false, child);
		step.send_dim = to.train.dimension(), step.send_slot = to.train.slot(to.index);
		step.post_send = to.train.ends_group(to.index);
	}
	if (parent > 0) {
		Place from = place_of(s, false, parent);
		step.recv_dim = from.train.dimension(), step.recv_slot = from.train.slot(from.index);
		step.post_recv = last_child && from.train.ends_group(from.index);
		step.recv_ahead = last_child ? 0 : from.train.steps_before(from.index);
	} else if (!sends) {
		return;
	}
	out->push_back(step);
}

// A distance without children: its data comes in and goes nowhere else.
void gather_leaf(const Train &t, int i, std::vector<PatStep> *out)
{
	if (!t.exists(i))
		return;
	PatStep step;
	step.distance = t.distance(i);
	step.recv_dim = 0, step.recv_slot = t.slot(i);
	step.post_recv = t.ends_group(i);
	out->push_back(step);
}

// Visits a column and those below it, depth first, the largest first.
void gather_columns(const PatShape &s, int column, int below, std::vector<PatStep> *out)
{
	if (column) {
		Train t(s, false, column, 1);
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
	// As many hops in a step as fit, two at least; then more trains of such steps, up to what a connection has in
	// flight.
	auto fits = [&] {
		return channel_bytes == 0 || step_bytes / (channel_bytes * static_cast<size_t>(s.multiples)) >= 2;
	};
	while (s.multiples < ranks / 2 && fits())
		double_up();
	s.group = s.multiples;
	for (int d = kStepsInFlight; d > 1 && s.multiples < ranks / 2; d /= 2)
		double_up();
	return s;
}

std::vector<PatStep> pat_reduce_scatter(const PatShape &s)
{
	std::vector<PatStep> out;
	for (int column = s.columns - 1; column > 0; column--) {
		Train t(s, true, column, 1);
		if (column % 2 == 1) { // no children: just this rank's part
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
		// Column 1's hops to column 0 come below, when the others that go there are through.
		for (int i = 0; column > 1 && i < t.size(); i++)
			reduce_hop(s, t.distance(i), &out);
	}
	for (int scale = 1; scale < s.multiples; scale *= 2) {
		Train t(s, true, 0, scale);
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
		Train t(s, false, 0, scale);
		for (int i = 0; i < t.size(); i++)
			gather_hop(s, t.distance(i), &out);
	}
	gather_columns(s, 0, s.columns / 2, &out);
	return out;
}

} // namespace softexec
