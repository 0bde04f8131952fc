// SPDX-License-Identifier: Apache-2.0
//
// Programs that use NCCL in the ways that real ones do, two ranks of one process each. The argument says which:
//
//	destroy      destroys the communicator while operations are still under way
//	group        two communicators, destroyed in one group while operations are under way
//	rest         communicators with nothing to do: how often their streams' threads wake up in half a second
//	nonblocking  a communicator that is not blocking, polled until it is ready
//	query        polls the stream, as nccl-tests does
//	handover     a second thread calls NCCL, while the first one waits for it on a condition variable
//	look         rank 1 looks for a file, which rank 0 writes when its collective is complete
//	compute      rank 1 computes for 1 s between two collectives, rank 0 waits for it in the second
//	lost         the same, and ends without the functions that the end of a process calls
//	repeat       300 collectives, each posted while the sends of the one before are not complete yet
//	virtual      rank 1 says that it computes for 1 ms between two collectives, and its stream for 2 ms
//	connect      connects by the first send, while the other rank still needs virtual time to get there
//	starved      12 times, rank 1 waits for a pipe and gets no core when rank 0 writes; an event is due later
//	callback     a thread waits for what a function on its stream does
//	ended        a thread waits for the end of another one
//	gather       three ranks: with NVLS the others wait for rank 2; with REGISTER=1 the buffer is registered
//	storm        groups of 300 sends and receives: NCCL's queues are full
//	full         groups of two communicators on two streams: the queues of both streams are full
//	abort        rank 0 waits for a collective that rank 1 never begins, and aborts
//	crossed      both ranks receive before they send: they never end
//	silent       the same, and ends without the functions that the end of a process calls
//	late         rank 1 computes for 10 ms of virtual time before it receives what rank 0 sends
//	job          60 collectives, begun when somebody opens the pipe that the rank has made in JOBS_DIR
//	stall        real clock: rank 1 is stopped for STALL_US while it takes part in collectives
//
// It prints the time that CUDA events saw, in ns.

#include <cuda_runtime_api.h>
#include <ddlemu.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nccl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call) \
	do { \
		int check_result = (int)(call); \
		if (check_result != 0) { \
			fprintf(stderr, "rank %d: %s: %d\n", rank, #call, check_result); \
			exit(1); \
		} \
	} while (0)

constexpr size_t kCount = 1 << 20; // floats

int rank, ranks = 2;
pid_t pids[3]; // of the ranks before this one

double real_seconds(clockid_t clock)
{
	timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

// spin works for so many seconds.
void spin(double seconds)
{
	const double from = real_seconds(CLOCK_MONOTONIC);
	while (real_seconds(CLOCK_MONOTONIC) < from + seconds)
		;
}

// stay_on_first_core keeps the calling thread on core 0.
void stay_on_first_core()
{
	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	CHECK(sched_setaffinity(0, sizeof first, &first));
}

// Session is one rank with a stream and a buffer of rank + 1.
struct Session {
	ncclUniqueId ids[2];
	ncclComm_t comm = nullptr;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	float *data;

	Session()
	{
		CHECK(cudaSetDevice(rank));
		CHECK(cudaStreamCreate(&stream));
		CHECK(cudaEventCreate(&begin));
		CHECK(cudaEventCreate(&end));
		CHECK(cudaMalloc((void **)&data, kCount * sizeof(float)));
		fill();
		share_ids();
	}

	void fill()
	{
		std::vector<float> host(kCount, rank + 1.0f);
		CHECK(cudaMemcpy(data, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
	}

	// Rank 0 passes the unique ids to rank 1 in a file.
	void share_ids()
	{
		const std::string path = getenv("ID_FILE");
		if (rank == 0) {
			for (ncclUniqueId &id : ids)
				CHECK(ncclGetUniqueId(&id));
			FILE *f = fopen((path + ".new").c_str(), "w");
			CHECK(fwrite(ids, sizeof ids, 1, f) != 1 || fclose(f));
			CHECK(rename((path + ".new").c_str(), path.c_str()));
			return;
		}
		FILE *f;
		while ((f = fopen(path.c_str(), "r")) == NULL)
			usleep(1000);
		CHECK(fread(ids, sizeof ids, 1, f) != 1);
		fclose(f);
	}

	void init() { CHECK(ncclCommInitRank(&comm, ranks, ids[0], rank)); }

	void all_reduce(size_t count = kCount)
	{
		CHECK(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, stream));
	}

	// check holds all elements against what two ranks with 1 and 2 have after `times` AllReduces.
	void check(int times)
	{
		std::vector<float> got(kCount);
		CHECK(cudaMemcpy(got.data(), data, kCount * sizeof(float), cudaMemcpyDeviceToHost));
		float want = 3;
		for (int i = 1; i < times; i++)
			want *= 2;
		for (float v : got)
			CHECK(v != want);
	}

	void print_elapsed()
	{
		float ms;
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		printf("rank %d: %.0f ns\n", rank, ms * 1e6);
	}
};

void destroy(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(cudaEventRecord(s.begin, s.stream));
	s.all_reduce();
	CHECK(cudaEventRecord(s.end, s.stream));
	CHECK(ncclCommDestroy(s.comm));
	s.print_elapsed();
	s.check(2);
}

void group(Session &s)
{
	ncclComm_t both[2];
	for (int i = 0; i < 2; i++)
		CHECK(ncclCommInitRank(&both[i], 2, s.ids[i], rank));
	s.comm = both[0];
	s.all_reduce();
	s.comm = both[1];
	CHECK(cudaEventRecord(s.begin, s.stream));
	s.all_reduce();
	CHECK(cudaEventRecord(s.end, s.stream));
	CHECK(ncclGroupStart());
	for (ncclComm_t c : both)
		CHECK(ncclCommDestroy(c));
	CHECK(ncclGroupEnd());
	s.print_elapsed();
	s.check(2);
}

// settled polls until a call on a communicator that is not blocking has ended.
void settled(ncclComm_t comm, ncclResult_t result)
{
	while (result == ncclInProgress)
		CHECK(ncclCommGetAsyncError(comm, &result));
	CHECK(result);
}

// wakeups counts how often the threads of this process with a name have waited.
long wakeups(const std::string &name)
{
	long sum = 0;
	DIR *tasks = opendir("/proc/self/task");
	while (const dirent *entry = readdir(tasks)) {
		char line[128];
		bool counts = false;
		FILE *f = fopen(("/proc/self/task/" + std::string(entry->d_name) + "/status").c_str(), "r");
		while (f && fgets(line, sizeof line, f)) {
			long n;
			counts |= "Name:\t" + name + "\n" == line;
			if (counts && sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
				sum += n;
		}
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return sum;
}

void rest(Session &s)
{
	ncclComm_t all[6];
	for (int i = 0; i < 6; i++) {
		if (i < 2)
			CHECK(ncclCommInitRank(&all[i], 2, s.ids[i], rank));
		else
			CHECK(ncclCommSplit(all[0], 0, rank, &all[i], nullptr));
		s.comm = all[i];
		s.all_reduce();
		CHECK(cudaStreamSynchronize(s.stream));
	}
	usleep(100000);
	const long before = wakeups("soft-stream");
	usleep(500000);
	printf("rank %d: %ld wakeups\n", rank, wakeups("soft-stream") - before);
	s.check(6);
	for (ncclComm_t comm : all)
		CHECK(ncclCommDestroy(comm));
}

void nonblocking(Session &s)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	settled(s.comm, ncclCommInitRankConfig(&s.comm, 2, s.ids[0], rank, &config));
	for (int i = 0; i < 3; i++) {
		CHECK(cudaEventRecord(s.begin, s.stream));
		settled(s.comm, ncclAllReduce(s.data, s.data, kCount, ncclFloat, ncclSum, s.comm, s.stream));
		CHECK(cudaEventRecord(s.end, s.stream));
		CHECK(cudaStreamSynchronize(s.stream));
	}
	s.print_elapsed();
	s.check(3);
	settled(s.comm, ncclCommFinalize(s.comm));
	CHECK(ncclCommDestroy(s.comm));
}

void query(Session &s)
{
	s.init();
	for (int i = 0; i < 3; i++) {
		CHECK(cudaEventRecord(s.begin, s.stream));
		s.all_reduce();
		CHECK(cudaEventRecord(s.end, s.stream));
		cudaError_t state;
		while ((state = cudaStreamQuery(s.stream)) == cudaErrorNotReady) {
			ncclResult_t async;
			CHECK(ncclCommGetAsyncError(s.comm, &async));
			CHECK(async);
		}
		CHECK(state);
	}
	s.print_elapsed();
	s.check(3);
	CHECK(ncclCommDestroy(s.comm));
}

// Worker runs functions on a thread of its own, and the caller waits for each.
class Worker {
public:
	Worker() : thread_([this] { loop(); }) {}
	~Worker()
	{
		run(nullptr);
		thread_.join();
	}
	void run(std::function<void()> f)
	{
		std::unique_lock<std::mutex> lock(mu_);
		work_ = std::move(f);
		has_work_ = true;
		changed_.notify_all();
		changed_.wait(lock, [this] { return !has_work_; });
	}

private:
	void loop()
	{
		std::unique_lock<std::mutex> lock(mu_);
		for (bool more = true; more;) {
			changed_.wait(lock, [this] { return has_work_; });
			more = work_ != nullptr;
			if (more)
				work_();
			has_work_ = false;
			changed_.notify_all();
		}
	}
	std::mutex mu_;
	std::condition_variable changed_;
	std::function<void()> work_;
	bool has_work_ = false;
	std::thread thread_;
};

void handover(Session &s)
{
	Worker worker;
	worker.run([&] { s.init(); });
	for (int i = 0; i < 4; i++) {
		CHECK(cudaEventRecord(s.begin, s.stream));
		worker.run([&] {
			s.all_reduce();
			CHECK(cudaStreamSynchronize(s.stream));
		});
		CHECK(cudaEventRecord(s.end, s.stream));
		CHECK(cudaStreamSynchronize(s.stream));
	}
	s.print_elapsed();
	s.check(4);
	worker.run([&] { CHECK(ncclCommDestroy(s.comm)); });
}

void look(Session &s)
{
	const std::string path = std::string(getenv("ID_FILE")) + ".done";
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(cudaEventRecord(s.begin, s.stream));
	s.all_reduce();
	CHECK(cudaEventRecord(s.end, s.stream));
	if (rank == 0) {
		CHECK(cudaStreamSynchronize(s.stream));
		CHECK(fclose(fopen(path.c_str(), "w")));
	}
	for (int again = 0; rank == 1; again = 1) {
		const uint32_t seen = ddlemuSoftHandovers();
		if (unlink(path.c_str()) == 0)
			break;
		CHECK(ddlemuSoftAwaitHandover(seen, again));
	}
	s.print_elapsed();
	s.check(2);
	CHECK(ncclCommDestroy(s.comm));
}

void compute(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(cudaEventRecord(s.begin, s.stream));

	const double cpu = real_seconds(CLOCK_PROCESS_CPUTIME_ID);
	if (rank == 1)
		spin(1);
	s.all_reduce();
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	fprintf(stderr, "rank %d: computed for %" PRId64 " ns\n", rank, ddlemu_computed());
	fprintf(stderr, "rank %d: %.0f %% of a core\n", rank, (real_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 100);
	s.check(2);
	CHECK(ncclCommDestroy(s.comm));
}

void lost(Session &s)
{
	on_exit([](int status, void *) { _exit(status); }, nullptr); // called before those registered so far
	compute(s);
}

void virtual_compute(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(cudaEventRecord(s.begin, s.stream));
	if (rank == 1) {
		const int64_t before = ddlemu_now();
		CHECK(ddlemu_compute(1000000));
		CHECK(ddlemu_now() - before == 1000000 && ddlemu_computed() == 1000000 ? 0 : -1);
		CHECK(cudaLaunchHostFunc(s.stream, [](void *) { CHECK(ddlemu_compute(2000000)); }, nullptr));
	}
	s.all_reduce();
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	s.check(2);
	CHECK(ncclCommDestroy(s.comm));
}

void repeat(Session &s)
{
	s.init();
	CHECK(cudaEventRecord(s.begin, s.stream));
	for (int i = 0; i < 300; i++) {
		s.all_reduce(1000);
		CHECK(cudaStreamSynchronize(s.stream));
	}
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	CHECK(ncclCommDestroy(s.comm));
}

void connect_late(Session &s)
{
	s.init();
	CHECK(cudaEventRecord(s.begin, s.stream));
	for (int i = 0; i < 4; i++)
		s.all_reduce(1000);
	CHECK(cudaStreamSynchronize(s.stream)); // the ranks get here at different times
	CHECK(ncclGroupStart());
	CHECK(ncclSend(s.data, 1000, ncclFloat, 1 - rank, s.comm, s.stream));
	CHECK(ncclRecv(s.data + 1000, 1000, ncclFloat, 1 - rank, s.comm, s.stream));
	CHECK(ncclGroupEnd());
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	CHECK(ncclCommDestroy(s.comm));
}

int starved_pipes[3][2]; // to each rank, and to the process that takes core 0
std::atomic<int> *taken; // how often it has taken the core
constexpr int kStarvedRounds = 12;

// prepare_starved makes the pipes, and starts a process, no child of a rank, that takes core 0 for 60 ms when it is
// told to.
void prepare_starved()
{
	for (auto &ends : starved_pipes)
		CHECK(pipe(ends));
	void *shared = mmap(nullptr, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared == MAP_FAILED);
	taken = new (shared) std::atomic<int>(0);
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay_on_first_core();
	const sched_param lowest = { .sched_priority = 1 };
	CHECK(sched_setscheduler(0, SCHED_FIFO, &lowest)); // nothing of the usual schedulers runs beside it
	int64_t t = 0;
	for (int round = 0; round < kStarvedRounds; round++) {
		CHECK(read(starved_pipes[2][0], &t, sizeof t) != sizeof t);
		++*taken;
		spin(0.06);
	}
	exit(0);
}

void starved(Session &s)
{
	s.init();
	s.all_reduce(1);
	CHECK(cudaStreamSynchronize(s.stream));
	if (rank == 1)
		stay_on_first_core();
	int64_t late = 0;
	for (int round = 0; round < kStarvedRounds; round++) {
		int64_t t = 0;
		if (rank == 0) {
			CHECK(read(starved_pipes[0][0], &t, sizeof t) != sizeof t); // rank 1's collective may end later
			spin(0.05); // until rank 1 sleeps
			CHECK(cudaLaunchHostFunc(s.stream, [](void *) { CHECK(ddlemu_compute(1000000)); }, nullptr));
			t = ddlemu_now();
			CHECK(write(starved_pipes[2][1], &t, sizeof t) != sizeof t);
			while (*taken <= round) { // this rank works until rank 1 is woken: a busy host may be late
			}
			CHECK(write(starved_pipes[1][1], &t, sizeof t) != sizeof t);
		} else {
			CHECK(write(starved_pipes[0][1], &t, sizeof t) != sizeof t);
			CHECK(read(starved_pipes[1][0], &t, sizeof t) != sizeof t);
			late += ddlemu_now() - t;
		}
	}
	if (rank == 1)
		printf("rank 1: %" PRId64 " ns late\n", late);
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(ncclCommDestroy(s.comm));
}

// print_late prints for how much virtual time the clock did not wait for a thread that had been woken. wait waits, and
// returns when that was. An event is due later, on another stream.
void print_late(Session &s, const std::function<int64_t()> &wait)
{
	s.init();
	s.all_reduce(1);
	CHECK(cudaStreamSynchronize(s.stream));
	cudaStream_t other;
	CHECK(cudaStreamCreate(&other));
	int64_t late = 0;
	for (int round = 0; round < 5; round++) {
		CHECK(cudaLaunchHostFunc(other, [](void *) { CHECK(ddlemu_compute(1000000)); }, nullptr));
		const int64_t done = wait();
		spin(0.01);
		late += ddlemu_now() - done;
		CHECK(cudaStreamSynchronize(other));
	}
	printf("rank %d: %" PRId64 " ns late\n", rank, late);
	CHECK(ncclCommDestroy(s.comm));
}

void callback(Session &s)
{
	static std::mutex mu;
	static std::condition_variable changed;
	static int64_t done;
	print_late(s, [&] {
		std::unique_lock<std::mutex> lock(mu);
		done = 0;
		CHECK(cudaLaunchHostFunc(
			s.stream,
			[](void *) {
				spin(0.03); // until the other thread sleeps
				std::lock_guard<std::mutex> inner(mu);
				done = ddlemu_now();
				changed.notify_all();
			},
			nullptr));
		changed.wait(lock, [] { return done != 0; });
		return done;
	});
}

void ended(Session &s)
{
	print_late(s, [] {
		int64_t done = 0;
		std::thread([&done] {
			done = ddlemu_now();
			spin(0.03); // until the other thread sleeps
		}).join();
		return done;
	});
}

// runs says whether a process's first thread runs, or could.
bool runs(pid_t pid)
{
	char state = 0;
	FILE *f = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
	CHECK(f == NULL || fscanf(f, "%*d (threads) %c", &state) != 1 || fclose(f));
	return state == 'R';
}

void gather(Session &s)
{
	print_late(s, [&] {
		const int64_t begun = ddlemu_now();
		void *handle;
		if (atoi(getenv("REGISTER")))
			CHECK(ncclCommRegister(s.comm, s.data, kCount * sizeof(float), &handle));
		while (rank == 2 && (runs(pids[0]) || runs(pids[1])))
			;
		s.all_reduce(1);
		return begun;
	});
}

void storm(Session &s)
{
	s.init();
	CHECK(cudaEventRecord(s.begin, s.stream));
	for (int round = 0; round < 10; round++) {
		CHECK(ncclGroupStart());
		for (int i = 0; i < 300; i++) {
			float *at = s.data + i * 1000;
			CHECK(rank == 0 ? ncclSend(at, 500, ncclFloat, 1, s.comm, s.stream)
					: ncclRecv(at, 500, ncclFloat, 0, s.comm, s.stream));
			at += 500;
			CHECK(rank == 1 ? ncclSend(at, 500, ncclFloat, 0, s.comm, s.stream)
					: ncclRecv(at, 500, ncclFloat, 1, s.comm, s.stream));
		}
		CHECK(ncclGroupEnd());
		for (int i = 0; i < 30; i++)
			s.all_reduce(1);
	}
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	CHECK(ncclCommDestroy(s.comm));
}

void full(Session &s)
{
	ncclComm_t both[2];
	cudaStream_t streams[2] = { s.stream };
	CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
	for (int i = 0; i < 2; i++)
		CHECK(ncclCommInitRank(&both[i], 2, s.ids[i], rank));
	CHECK(cudaEventRecord(s.begin, s.stream));
	for (int round = 0; round < 3000; round++) {
		CHECK(ncclGroupStart());
		for (int i = 0; i < 2; i++)
			CHECK(ncclAllReduce(s.data + i, s.data + i, 1, ncclFloat, ncclMax, both[i], streams[i]));
		CHECK(ncclGroupEnd());
	}
	CHECK(cudaStreamSynchronize(streams[1]));
	CHECK(cudaEventRecord(s.end, s.stream));
	s.print_elapsed();
	for (ncclComm_t comm : both)
		CHECK(ncclCommDestroy(comm));
}

void abort_one(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	if (rank == 0) {
		s.all_reduce();
		usleep(100000);
	}
	CHECK(ncclCommAbort(s.comm));
	printf("rank %d: aborted\n", rank);
}

void cross(Session &s)
{
	auto send = [&] { CHECK(ncclSend(s.data, kCount, ncclFloat, 1 - rank, s.comm, s.stream)); };
	auto receive = [&] { CHECK(ncclRecv(s.data, kCount, ncclFloat, 1 - rank, s.comm, s.stream)); };
	// The first messages connect, which needs both ranks.
	CHECK(ncclGroupStart());
	send();
	receive();
	CHECK(ncclGroupEnd());
	receive();
	CHECK(cudaStreamSynchronize(s.stream));
	send();
	CHECK(cudaStreamSynchronize(s.stream));
}

void crossed(Session &s)
{
	s.init();
	cross(s);
}

void silent(Session &s)
{
	s.init();
	on_exit([](int status, void *) { _exit(status); }, nullptr); // called before those registered so far
	cross(s);
}

void late(Session &s)
{
	s.init();
	for (int i = 0; i < 2; i++) { // the first messages connect
		if (rank == 1) {
			CHECK(i == 0 ? 0 : ddlemu_compute(10000000));
			CHECK(ncclRecv(s.data, 1000, ncclFloat, 0, s.comm, s.stream));
		} else {
			CHECK(ncclSend(s.data, 1000, ncclFloat, 1, s.comm, s.stream));
		}
		CHECK(cudaStreamSynchronize(s.stream));
	}
}

void job(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	const std::string path = std::string(getenv("JOBS_DIR")) + "/" + std::to_string(getpid());
	CHECK(mkfifo(path.c_str(), 0600));
	const int fd = open(path.c_str(), O_RDONLY); // waits until somebody opens it for writing
	CHECK(fd < 0 || close(fd));
	for (int i = 0; i < 60; i++)
		s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	CHECK(ncclCommDestroy(s.comm));
}

void stall(Session &s)
{
	s.init();
	s.all_reduce();
	CHECK(cudaStreamSynchronize(s.stream));
	for (int i = 0; i < 40; i++)
		s.all_reduce();
	if (rank == 1 && fork() == 0) {
		const pid_t parent = getppid();
		usleep(20000);
		kill(parent, SIGSTOP);
		usleep((useconds_t)atoi(getenv("STALL_US")));
		kill(parent, SIGCONT);
		_exit(0);
	}
	CHECK(cudaStreamSynchronize(s.stream));
}

const std::map<std::string, void (*)(Session &)> programs = {
	{ "destroy", destroy },
	{ "group", group },
	{ "rest", rest },
	{ "nonblocking", nonblocking },
	{ "query", query },
	{ "handover", handover },
	{ "look", look },
	{ "compute", compute },
	{ "virtual", virtual_compute },
	{ "repeat", repeat },
	{ "connect", connect_late },
	{ "starved", starved },
	{ "callback", callback },
	{ "ended", ended },
	{ "gather", gather },
	{ "storm", storm },
	{ "full", full },
	{ "abort", abort_one },
	{ "crossed", crossed },
	{ "silent", silent },
	{ "lost", lost },
	{ "late", late },
	{ "stall", stall },
	{ "job", job },
};

int main(int argc, char **argv)
{
	auto program = programs.find(argc == 2 ? argv[1] : "");
	if (program == programs.end()) {
		fprintf(stderr, "usage: threads PROGRAM\n");
		return 2;
	}
	if (program->first == "gather")
		ranks = 3; // the fewest with NVLS
	char folder[] = "/tmp/threads-XXXXXX";
	CHECK(mkdtemp(folder) == NULL);
	const std::string path = std::string(folder) + "/id";
	if (program->first == "starved")
		prepare_starved();
	for (rank = 0; rank < ranks; rank++) {
		if ((pids[rank] = fork()) != 0)
			continue;
		setenv("RANK", std::to_string(rank).c_str(), 1);
		setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
		setenv("ID_FILE", path.c_str(), 1);
		Session session;
		program->second(session);
		exit(0);
	}
	int failed = 0;
	for (int status; wait(&status) > 0;)
		failed |= status;
	unlink(path.c_str());
	rmdir(folder);
	return failed != 0;
}
