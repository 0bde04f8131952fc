// SPDX-License-Identifier: Apache-2.0
//
// The program of the executor's tests. Its arguments name the groups to run; without arguments it runs all.
#include <cstring>

#include "test_util.h"

int failures = 0;

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*run)();
	} groups[] = {
		{ "layout", test::layout_tests },
		{ "reduce", test::reduce_tests },
		{ "collective", test::collective_tests },
		{ "p2p", test::p2p_tests },
		{ "launch", test::launch_tests },
		{ "cost", test::cost_tests },
	};
	for (const auto &g : groups) {
		bool wanted = argc == 1;
		for (int i = 1; i < argc; i++)
			wanted |= std::strcmp(argv[i], g.name) == 0;
		if (!wanted)
			continue;
		int before = failures;
		g.run();
		std::printf("%s: %s\n", g.name, failures == before ? "ok" : "FAILED");
	}
	if (failures)
		std::printf("%d checks failed\n", failures);
	return failures != 0;
}
