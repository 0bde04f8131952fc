// SPDX-License-Identifier: Apache-2.0
#include "ledger.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>

#include "device.h"

namespace softexec {

std::atomic<const ddlemu_ledger_calls *> ledger_table{ nullptr };

namespace {

// What NCCL calls a function, by its number (ncclFunc_t).
enum NcclFunc : uint8_t {
	kNcclBroadcast = 0,
	kNcclReduce = 1,
	kNcclAllGather = 2,
	kNcclReduceScatter = 3,
	kNcclAllReduce = 4,
	kNcclSend = 6,
	kNcclRecv = 7,
	kNcclAllGatherV = 11, // has no number of NCCL's: ours
};

uint8_t number_of(Coll c)
{
	switch (c) {
	case Coll::kBroadcast:
		return kNcclBroadcast;
	case Coll::kReduce:
		return kNcclReduce;
	case Coll::kAllGather:
		return kNcclAllGather;
	case Coll::kAllGatherV:
		return kNcclAllGatherV;
	case Coll::kReduceScatter:
		return kNcclReduceScatter;
	case Coll::kAllReduce:
		return kNcclAllReduce;
	case Coll::kSendRecv:
		break;
	}
	return DDLEMU_UNKNOWN;
}

// A communicator as this process knows it, by the address of its structure on the device.
struct KnownComm {
	uint64_t number;
	std::map<uint8_t, uint32_t> calls; // by function
};

// It is never destroyed: threads may run until the process ends.
struct Known {
	std::mutex mu;
	std::map<const char *, KnownComm> comms;
	uint64_t numbers = 0;
	uint32_t launches = 0;
};

Known &known()
{
	static auto *k = new Known;
	return *k;
}

// The tasks of one launch. A collective's work is in the block of each channel that it uses; it is one task.
class Namer {
public:
	Namer(const Comm &c, Known &k) : comm_(c), group_(++k.launches), known_(k.comms[c.base])
	{
		if (known_.number == 0)
			known_.number = ++k.numbers;
	}

	void name(Batch *b)
	{
		for (CollWork &w : b->colls)
			w.task = collective(*b->func, w);
		for (P2pWork &w : b->p2ps) {
			if (w.send_rank == comm_.rank)
				continue; // a copy within the rank
			if (w.send_channels > 0) // else the work has no send
				w.send_task = p2p(kNcclSend, w.send_rank, w.send, w.send_bytes, w.send_channels);
			if (w.recv_channels > 0)
				w.recv_task = p2p(kNcclRecv, w.recv_rank, w.recv, w.recv_bytes, w.recv_channels);
		}
		if (!b->bcasts.empty())
			b->bcast_task = broadcasts(*b);
	}

private:
	using Key = std::tuple<uint8_t, const void *, const void *, int>;

	uint32_t collective(const Func &f, const CollWork &w)
	{
		ddlemu_task_record t = task(number_of(f.coll), w.root);
		t.algo = static_cast<uint8_t>(static_cast<int>(f.algo) - 1); // NCCL begins with the tree
		t.proto = static_cast<uint8_t>(f.proto);
		t.datatype =
			f.type == Type::kNone ? DDLEMU_UNKNOWN : static_cast<uint8_t>(static_cast<int>(f.type) - 1);
		t.count = channel_share(w, w.channel_lo, f.proto, type_size(f.type)).count;
		t.channels = static_cast<uint32_t>(w.channel_hi - w.channel_lo + 1);
		return once({ t.func, w.send, w.recv, w.channel_lo }, t);
	}

	uint32_t p2p(uint8_t func, int peer, const void *buffer, size_t bytes, int channels)
	{
		ddlemu_task_record t = task(func, peer);
		t.count = bytes;
		t.channels = static_cast<uint32_t>(channels);
		return once({ func, buffer, nullptr, peer }, t);
	}

	uint32_t broadcasts(const Batch &b)
	{
		ddlemu_task_record t = task(b.bcasts.size() == 1 ? kNcclBroadcast : kNcclAllGatherV, -1);
		t.algo = static_cast<uint8_t>(static_cast<int>(Algo::kRing) - 1);
		t.proto = static_cast<uint8_t>(b.func->proto);
		return once({ t.func, b.bcasts[0].recv, nullptr, 0 }, t);
	}

	ddlemu_task_record task(uint8_t func, int peer) const
	{
		ddlemu_task_record t = {};
		t.func = func;
		t.algo = t.proto = t.datatype = DDLEMU_UNKNOWN;
		t.comm = static_cast<uint64_t>(getpid()) << 32 | known_.number;
		t.group = group_;
		t.peer = peer;
		t.ranks = comm_.nranks;
		t.rank = comm_.rank;
		return t;
	}

	// Tells the ledger a task, if this launch has not done so yet.
	uint32_t once(const Key &key, ddlemu_task_record t)
	{
		auto at = told_.find(key);
		if (at != told_.end())
			return at->second;
		t.seq = known_.calls[t.func]++;
		return told_[key] = ledger()->task(t);
	}

	const Comm &comm_;
	uint32_t group_;
	KnownComm &known_;
	std::map<Key, uint32_t> told_;
};

} // namespace

void name_tasks(Plan *p)
{
	if (!ledger())
		return;
	Known &k = known();
	std::lock_guard<std::mutex> lock(k.mu);
	Namer namer(p->comm, k);
	for (Block &b : p->blocks) {
		for (Batch &batch : b.batches)
			namer.name(&batch);
	}
}

void forget_comms(const void *memory, size_t size)
{
	if (!ledger())
		return;
	Known &k = known();
	std::lock_guard<std::mutex> lock(k.mu);
	const char *begin = static_cast<const char *>(memory);
	k.comms.erase(k.comms.lower_bound(begin), k.comms.lower_bound(begin + size));
}

} // namespace softexec
