// SPDX-License-Identifier: Apache-2.0
// One rank of a scenario: soak SCENARIO [ARG...], as soak.h says.
#include <map>

#include "soak.h"

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);
	return text ? atoi(text) : otherwise;
}

int main(int argc, char **argv)
{
	const std::map<std::string, int (*)(const Args &)> scenarios = {
		{ "collectives", collectives },
		{ "groups", groups },
		{ "storm", storm },
		{ "comms", comms },
		{ "split", split },
		{ "cycle", cycle },
		{ "abort", abort_in },
		{ "loop", loop },
		{ "early", early },
		{ "impostor", impostor },
	};
	rank = number("RANK", 0);
	ranks = number("WORLD_SIZE", 2);
	seed = strtoull(getenv("SEED") ? getenv("SEED") : "1", nullptr, 10);
	const auto found = argc > 1 ? scenarios.find(argv[1]) : scenarios.end();
	if (found == scenarios.end() || !getenv("ID_FILE")) {
		fprintf(stderr, "usage: ID_FILE=F RANK=R WORLD_SIZE=N soak SCENARIO [ARG...]\n");
		return 2;
	}
	if (found->second == impostor)
		return impostor(Args(argv + 2, argv + argc)); // not a rank
	CUDA(cudaSetDevice(rank));
	const double start = now();
	const int status = found->second(Args(argv + 2, argv + argc));
	if (status == 0)
		say("ok in %.1f s", now() - start);
	return status;
}
