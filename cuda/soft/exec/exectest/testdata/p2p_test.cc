// SPDX-License-Identifier: Apache-2.0
//
// Send/Recv: AllToAll, divided among several channels, with LL and Simple; and the broadcasts of NCCL 2.29's
// AllGatherV.
#include "fake_world.h"

namespace test {
namespace {

using fake::Transport;
using fake::World;

// Returns NCCL's 8-bit code of a power of two (u32fp8Encode).
uint8_t chunk_code(size_t bytes) { return static_cast<uint8_t>((__builtin_ctzll(bytes) - 2) << 3); }

// Returns the channel of a share. NCCL 2.22 numbers the shares in bit-reversed order.
int channel_of(int version, int channels, int base, int share)
{
	if (version != 22203)
		return (base + share) % channels;
	int reversed = channels == 4 ? (share & 1) << 1 | share >> 1 : share;
	return (base + reversed) % channels;
}

size_t bytes_between(int src, int dst, size_t size)
{
	return (src + dst) % 3 == 0 && size > 3 ? size / 3 : (src == 1 && dst == 0) ? 0 : size;
}
char pattern(int src, int dst, size_t i)
{
	return static_cast<char>(static_cast<size_t>(src) * 31 + static_cast<size_t>(dst) * 7 + i + i / 251);
}

struct Exchange {
	size_t size;
	int shares; // of each Send/Recv
	bool ll;
	int storage;
};

using Buffers = std::vector<std::vector<char>>; // one per peer

// Returns a rank's works: one Send/Recv per peer and share.
std::vector<fake::Work> exchange_works(World &w, const Exchange &x, int r, Buffers &in, Buffers &out)
{
	int n = w.options().nranks, channels = w.options().channels, version = w.options().version;
	softexec::Proto proto = x.ll ? softexec::kLL : softexec::kSimple;
	size_t chunk = x.ll ? 512 : 2048;
	std::vector<fake::Work> works;
	for (int d = 0; d < n; d++) {
		int to = (r + d) % n, from = (r - d + n) % n, base = d % channels;
		int shares = d == 0 ? 1 : x.shares;
		fake::P2p p = {};
		p.send = in[static_cast<size_t>(to)].data(), p.recv = out[static_cast<size_t>(from)].data();
		p.send_bytes = bytes_between(r, to, x.size), p.recv_bytes = bytes_between(from, r, x.size);
		p.send_rank = to, p.recv_rank = from;
		p.channels = static_cast<uint8_t>(channels), p.base = static_cast<uint8_t>(base);
		p.send_channels = p.recv_channels = static_cast<uint8_t>(shares);
		p.send_chunk = p.recv_chunk = chunk_code(chunk);
		p.send_ll = p.recv_ll = x.ll;
		for (int share = 0; share < shares; share++) {
			int c = channel_of(version, channels, base, share);
			if (d != 0)
				w.mark_p2p(r, to, proto, c);
			works.push_back({ c, "SendRecv", std::vector<char>(sizeof p), fake::kP2pWork });
			std::memcpy(works.back().bytes.data(), &p, sizeof p);
		}
	}
	return works;
}

void all_to_all(World &w, const Exchange &x)
{
	int n = w.options().nranks, channels = w.options().channels, version = w.options().version;
	std::string what = "all to all v" + std::to_string(version) + " ranks " + std::to_string(n) + " channels " +
		std::to_string(channels) + " size " + std::to_string(x.size) + " shares " + std::to_string(x.shares) +
		(x.ll ? " LL" : " Simple");
	std::vector<Buffers> in, out;
	std::vector<fake::Launch> launches;
	for (int r = 0; r < n; r++) {
		in.emplace_back(), out.emplace_back();
		for (int p = 0; p < n; p++) {
			in.back().emplace_back(bytes_between(r, p, x.size) + 1),
				out.back().emplace_back(bytes_between(p, r, x.size) + 8, 0x6b);
			for (size_t i = 0; i < bytes_between(r, p, x.size); i++)
				in.back().back()[i] = pattern(r, p, i);
		}
	}
	for (int r = 0; r < n; r++) {
		launches.push_back(w.launch(r,
			exchange_works(w, x, r, in[static_cast<size_t>(r)], out[static_cast<size_t>(r)]), x.storage));
	}
	for (int result : w.run(launches, what))
		CHECK(result == 0, "%s returns %d", what.c_str(), result);
	w.check_steps(what);
	for (int r = 0; r < n; r++) {
		for (int p = 0; p < n; p++) {
			const std::vector<char> &o = out[static_cast<size_t>(r)][static_cast<size_t>(p)];
			size_t wrong = 0, bytes = bytes_between(p, r, x.size);
			for (size_t i = 0; i < o.size(); i++)
				wrong += o[i] != (i < bytes ? pattern(p, r, i) : 0x6b);
			CHECK(wrong == 0, "%s: %zu of %zu bytes wrong from %d to %d", what.c_str(), wrong, bytes, p, r);
		}
	}
}

// Each rank broadcasts a buffer of a different size; every channel has a share of each.
void grouped_broadcasts(World &w, softexec::Proto proto, size_t size)
{
	int n = w.options().nranks, channels = w.options().channels;
	const char *names[] = { "AllGatherV_RING_LL", "AllGatherV_RING_LL128", "AllGatherV_RING_SIMPLE" };
	std::string what = std::string(names[proto]) + " ranks " + std::to_string(n) + " size " + std::to_string(size);
	auto bytes_of = [&](int root) { return size + static_cast<size_t>(root) * 100 + (root == 1 ? 5000 : 0); };
	std::vector<std::vector<std::vector<char>>> out(static_cast<size_t>(n));
	std::vector<fake::Launch> launches;
	w.mark_ring(proto, 1, 1);
	for (int r = 0; r < n; r++) {
		std::vector<fake::Work> works;
		for (int root = 0; root < n; root++) {
			std::vector<char> &o = (out[static_cast<size_t>(r)].emplace_back(bytes_of(root) + 1, 0x6b),
				out[static_cast<size_t>(r)].back());
			for (size_t i = 0; root == r && i < bytes_of(root); i++)
				o[i] = pattern(root, 0, i);
		}
		for (int c = 0; c < channels; c++) {
			for (int depth = 0; depth < n; depth++) {
				int root = c % 2 == 0 ? (r - depth + n) % n
						      : (r + depth) % n; // odd channels' rings run backwards
				size_t share = (bytes_of(root) + static_cast<size_t>(channels) - 1) /
					static_cast<size_t>(channels);
				size_t from = std::min(static_cast<size_t>(c) * share, bytes_of(root));
				fake::v2_29_7::Bcast b = {};
				b.depth = depth, b.chunk = proto == softexec::kLL ? 512 : 1920;
				b.recv = out[static_cast<size_t>(r)][static_cast<size_t>(root)].data() + from;
				b.send = depth == 0 ? b.recv : nullptr;
				b.bytes = std::min(share, bytes_of(root) - from);
				works.push_back({ c, names[proto], std::vector<char>(sizeof b), fake::kBcastWork });
				std::memcpy(works.back().bytes.data(), &b, sizeof b);
			}
		}
		launches.push_back(w.launch(r, works, 1));
	}
	for (int result : w.run(launches, what))
		CHECK(result == 0, "%s returns %d", what.c_str(), result);
	w.check_steps(what);
	for (int r = 0; r < n; r++) {
		for (int root = 0; root < n; root++) {
			const std::vector<char> &o = out[static_cast<size_t>(r)][static_cast<size_t>(root)];
			size_t wrong = o.back() != 0x6b;
			for (size_t i = 0; i + 1 < o.size(); i++)
				wrong += o[i] != pattern(root, 0, i);
			CHECK(wrong == 0, "%s: %zu of %zu bytes wrong from %d on %d", what.c_str(), wrong, o.size(),
				root, r);
		}
	}
}

} // namespace

void p2p_tests()
{
	for (int version : { 22203, 22907 }) {
		softexec_select_version(version);
		for (int ranks : { 2, 3, 4 }) {
			for (Transport transport : { Transport::kNet, Transport::kShared }) {
				int channels = ranks == 3 ? 4 : ranks == 2 ? 2 : 1;
				World w({ version, ranks, channels, transport, 0 });
				for (size_t size : { size_t(0), size_t(1), size_t(700), size_t(4096), size_t(30001),
					     size_t(100000) }) {
					for (int shares = 1; shares <= channels; shares *= 2) {
						all_to_all(w,
							{ size, shares, size < 4096, 1 + static_cast<int>(size % 2) });
						if (failures > 10)
							return;
					}
				}
				for (softexec::Proto p : { softexec::kLL, softexec::kLL128, softexec::kSimple }) {
					for (size_t size : { size_t(1), size_t(3000), size_t(40000) }) {
						if (version == 22907)
							grouped_broadcasts(w, p, size);
					}
				}
			}
		}
	}
}

} // namespace test
