// SPDX-License-Identifier: Apache-2.0
//
// A variable of NCCL, of the environment or of a file of NCCL's, that switches on what the software CUDA does not have.
// NCCL does not ask whether a GPU has it, and would call functions that are not there.

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "error.h"

namespace soft {
namespace {

constexpr char kCuMem[] = "NCCL_CUMEM_ENABLE";

bool switches_on(const std::string &value) { return strtoll(value.c_str(), nullptr, 0) > 0; }

// The files from which NCCL sets variables that the environment does not have. The first is for NCCL 2.29 alone, which
// then does not read the second one.
std::string conf_file(int i)
{
	if (i == 0) {
		const char *named = getenv("NCCL_CONF_FILE");
		return named == nullptr ? "" : named;
	}
	if (i == 2)
		return "/etc/nccl.conf";
	const passwd *user = getpwuid(getuid()); // as NCCL does: HOME may be another folder
	return user == nullptr ? "" : std::string(user->pw_dir) + "/.nccl.conf";
}
constexpr int kConfFiles = 3;

// value_in is the value of the variable in a file; empty if the file does not have it or cannot be read. Of several
// lines the first counts.
std::string value_in(const std::string &file)
{
	FILE *in = file.empty() ? nullptr : fopen(file.c_str(), "re");
	if (in == nullptr)
		return "";
	const std::string begin = std::string(kCuMem) + "=";
	std::string value;
	char *line = nullptr;
	size_t room = 0;
	while (value.empty() && getline(&line, &room, in) >= 0) {
		const std::string text(line);
		if (text.compare(0, begin.size(), begin) == 0)
			value = text.substr(begin.size(), text.find('\n') - begin.size());
	}
	free(line);
	fclose(in);
	return value;
}

// NCCL reads the variable when it makes a communicator, which is later. The value 0 also keeps it from the value of a
// file.
__attribute__((constructor)) void refuse_cumem()
{
	if (const char *text = getenv(kCuMem); text != nullptr) {
		if (!switches_on(text))
			return;
		print_error("%s=%s has no effect: there is no cuMem here", kCuMem, text);
		setenv(kCuMem, "0", 1);
		return;
	}
	for (int i = 0; i < kConfFiles; i++) {
		const std::string file = conf_file(i), value = value_in(file);
		if (!switches_on(value))
			continue;
		print_error("%s=%s in %s has no effect: there is no cuMem here", kCuMem, value.c_str(), file.c_str());
		setenv(kCuMem, "0", 1);
		return;
	}
}

} // namespace
} // namespace soft
