// SPDX-License-Identifier: Apache-2.0
// Send and Recv: large groups, and many groups in flight.
#include <deque>

#include "soak.h"

Exchange exchange(ncclComm_t comm, cudaStream_t stream, Random &random, int messages, size_t most)
{
	Exchange x;
	struct Step {
		bool send;
		int peer;
		size_t index;
	};
	std::vector<Step> steps;
	for (int from = 0; from < ranks; from++)
		for (int to = 0; to < ranks; to++) {
			if (from == to)
				continue;
			for (int i = 0; i < messages; i++) {
				// A quarter of the messages are short, some empty.
				const size_t count = random.below(4) == 0 ? random.below(9) : random.below(most + 1);
				const uint64_t key = random.state++;
				if (from == rank) {
					x.out.emplace_back(count * 4);
					x.out.back().put(inputs(key, from, count));
					steps.push_back({ true, to, x.out.size() - 1 });
				}
				if (to == rank) {
					x.in.emplace_back(count * 4);
					x.coming.push_back({ key, from, count });
					steps.push_back({ false, from, x.in.size() - 1 });
				}
			}
		}
	NCCL(ncclGroupStart());
	for (const Step &s : steps) {
		Buffer &b = s.send ? x.out[s.index] : x.in[s.index];
		if (s.send)
			NCCL(ncclSend(b.at(), b.size() / 4, ncclUint32, s.peer, comm, stream));
		else
			NCCL(ncclRecv(b.at(), b.size() / 4, ncclUint32, s.peer, comm, stream));
	}
	NCCL(ncclGroupEnd());
	return x;
}

void Exchange::check()
{
	for (size_t i = 0; i < in.size(); i++) {
		const Message &m = coming[i];
		expect("Recv", in[i], m.count, [&](size_t k) { return word(m.key, m.from, k); });
	}
}

// groups MESSAGES ROUNDS: MESSAGES sends and MESSAGES receives per peer in one group.
int groups(const Args &args)
{
	if (args.size() != 2)
		return 2;
	const ncclComm_t comm = new_comm();
	const cudaStream_t stream = new_stream();
	Random random{ mix(seed) };
	for (int round = 0; round < atoi(args[1].c_str()); round++) {
		Exchange x = exchange(comm, stream, random, atoi(args[0].c_str()), 4096);
		wait_for(comm, stream);
		x.check();
	}
	end_comm(comm, stream);
	CUDA(cudaStreamDestroy(stream));
	return 0;
}

// storm GROUPS: groups of random messages, up to eight groups in flight, with a collective now and then.
int storm(const Args &args)
{
	if (args.size() != 1)
		return 2;
	const ncclComm_t comm = new_comm();
	const cudaStream_t stream = new_stream();
	Random random{ mix(seed) };
	std::deque<Exchange> flying;
	for (int group = 0; group < atoi(args[0].c_str()); group++) {
		const int messages = 1 + static_cast<int>(random.below(6));
		const size_t most = size_t(1) << random.below(18);
		flying.push_back(exchange(comm, stream, random, messages, most));
		if (random.below(8) == 0)
			all_reduce(comm, everybody(), stream, random.state++, 1 + random.below(50000));
		if (flying.size() < 8)
			continue;
		wait_for(comm, stream);
		for (Exchange &x : flying)
			x.check();
		flying.clear();
	}
	wait_for(comm, stream);
	for (Exchange &x : flying)
		x.check();
	flying.clear();
	end_comm(comm, stream);
	CUDA(cudaStreamDestroy(stream));
	return 0;
}
