// SPDX-License-Identifier: Apache-2.0
#include "sampler.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>

#include "application.h"
#include "error.h"

namespace soft {

int64_t real_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

namespace {

constexpr int64_t kGrace = 4000000; // ns: a thread that sleeps for less is taken as working
constexpr int64_t kPeriod = 1000000; // ns between two looks while a thread is outside of our calls and works
constexpr int64_t kRest = 16000000; // ns between two looks while there is none

std::string read_file(const std::string &path)
{
	char text[1024];
	int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return "";
	ssize_t n = read(fd, text, sizeof text);
	close(fd);
	return std::string(text, n > 0 ? n : 0);
}

std::string task(int process, const char *thread) { return "/proc/" + std::to_string(process) + "/task/" + thread; }

// runs_now returns true for a thread that runs or could run, also when the kernel has let it sleep for a moment, for a
// page or a lock of its own (D). The state follows the name, which may have any character.
bool runs_now(const std::string &task)
{
	const std::string stat = read_file(task + "/stat");
	const size_t end = stat.rfind(')');
	return end != std::string::npos && end + 2 < stat.size() && (stat[end + 2] == 'R' || stat[end + 2] == 'D');
}

// runs_of reads how often a thread has run: the third number of schedstat. It returns false if the kernel does not tell
// (CONFIG_SCHED_INFO): then nothing says that a thread has slept.
bool runs_of(const std::string &task, uint64_t *runs)
{
	unsigned long long n;
	if (sscanf(read_file(task + "/schedstat").c_str(), "%*u %*u %llu", &n) != 1)
		return false;
	*runs = n;
	return true;
}

bool any_runs(int process);

// child_runs returns true if a thread runs of a process that the task has started. Kernels without CONFIG_PROC_CHILDREN
// do not tell.
bool child_runs(const std::string &task)
{
	const std::string children = read_file(task + "/children");
	const char *at = children.c_str();
	for (char *next;; at = next) {
		const long child = strtol(at, &next, 10);
		if (next == at)
			return false;
		if (any_runs(static_cast<int>(child)))
			return true;
	}
}

// any_runs returns true if a thread of the process, or of one that it has started, runs. Of this process, the sampler
// and the actors do not count.
bool any_runs(int process)
{
	DIR *tasks = opendir(task(process, "").c_str());
	if (!tasks)
		return false; // it has ended
	const bool mine = process == getpid();
	bool runs = false;
	while (const dirent *entry = runs ? nullptr : readdir(tasks)) {
		const int thread = atoi(entry->d_name);
		if (thread == 0)
			continue;
		const std::string path = task(process, entry->d_name);
		const bool counts = !mine || (thread != gettid() && !softexec::is_actor_thread(thread));
		runs = (counts && runs_now(path)) || child_runs(path);
	}
	closedir(tasks);
	return runs;
}

// asks_in_vain returns true if the thread waits for a socket and there is no answer. With an answer the thread works:
// it may only lack a core.
bool asks_in_vain(const ApplicationThread &t)
{
	pollfd socket = { t.asks_socket, POLLIN, 0 };
	return socket.fd >= 0 && poll(&socket, 1, 0) == 0;
}

// Scan is one scan of all threads of the application.
class Scan {
public:
	explicit Scan(uint32_t handovers) : handovers_(handovers), now_(real_ns()) {}

	void at(ApplicationThread &t)
	{
		std::lock_guard<std::mutex> lock(t.mu);
		if (t.waits)
			return;
		const bool yields = yields_in_vain(t);
		if (yields || sleeps(t)) {
			// It may have woken another thread before, which has had no core since: all look again.
			if (!yields && !t.idle)
				softexec::virtual_clock()->raise(DDLEMU_HANDOVERS);
			set_idle(t);
			return;
		}
		works_ = true;
		if (t.idle)
			softexec::virtual_clock()->work(t.actor);
		t.idle = false;
	}

	// works returns true if a thread is outside of our calls and works.
	bool works() const { return works_; }
	bool some_idle() const { return some_idle_; }

private:
	// yields_in_vain returns true if the thread has yielded again and again since the last handover. It says so
	// anew after each one.
	bool yields_in_vain(const ApplicationThread &t)
	{
		return t.yields_since == 1 + static_cast<uint64_t>(handovers_) && !others_run();
	}

	// sleeps returns true if the thread has slept long enough, or holds the clock no more.
	bool sleeps(ApplicationThread &t)
	{
		// Another thread may wake this one, and sleep, after the first look at it: hence the second.
		if (has_run(t) || others_run() || has_run(t))
			t.sleeps_since = 0;
		else if (t.sleeps_since == 0)
			t.sleeps_since = now_;
		if (t.sleeps_since != 0 && (t.idle || now_ - t.sleeps_since >= kGrace))
			return true;
		return now_ - t.outside_since > softexec::virtual_clock()->compute_hold && give_up(t);
	}

	// has_run returns true if the thread runs or could run, or has run since this was asked last.
	bool has_run(ApplicationThread &t) const
	{
		const std::string path = task(getpid(), std::to_string(t.id).c_str());
		uint64_t runs = 0;
		const bool ran = !asks_in_vain(t) && (!runs_of(path, &runs) || runs != t.runs || runs_now(path));
		t.runs = runs;
		return ran;
	}

	// give_up says that the clock does not wait for a thread any more.
	bool give_up(const ApplicationThread &t)
	{
		static bool said = false;
		if (!said && softexec::virtual_clock()->give_up())
			print_error(
				"thread %d has run for %.1f s without waiting for CUDA or NCCL: the virtual clock goes on "
				"without it, so the times are not exact",
				t.id, (now_ - t.outside_since) * 1e-9);
		return said = true;
	}

	void set_idle(ApplicationThread &t)
	{
		some_idle_ = t.idle = true;
		softexec::virtual_clock()->set_idle(t.actor, DDLEMU_HANDOVERS, handovers_);
	}

	// others_run returns true if a thread runs that is no actor, or a process that this one has started.
	bool others_run()
	{
		if (others_run_ < 0)
			others_run_ = any_runs(getpid());
		return others_run_ != 0;
	}

	const uint32_t handovers_;
	const int64_t now_;
	bool works_ = false, some_idle_ = false;
	int others_run_ = -1; // -1: not known yet
};

void sample()
{
	pthread_setname_np(pthread_self(), "soft-sampler");
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	int64_t rest = kPeriod;
	for (;;) {
		const uint32_t handovers = clock->read(DDLEMU_HANDOVERS);
		Scan scan(handovers);
		for_each_application_thread([&](ApplicationThread &t) { scan.at(t); });
		rest = scan.works() ? kPeriod : std::min(2 * rest, kRest);
		if (scan.some_idle())
			clock->sleep(DDLEMU_HANDOVERS, handovers, rest);
		else
			usleep(static_cast<useconds_t>(rest / 1000));
	}
}

} // namespace

void start_sampler()
{
	static std::once_flag once;
	std::call_once(once, [] {
		// It handles no signals: they are for the threads of the program.
		sigset_t all, before;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		std::thread(sample).detach();
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
	});
}

} // namespace soft
