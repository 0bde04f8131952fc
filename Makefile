# SPDX-License-Identifier: Apache-2.0

# All build output is under build/, which git ignores.
BUILD  := build
GO     := go
CC     := gcc
# What `ddlemu version` prints: the version of CHANGELOG.md, and the commit if that has not its tag.
VERSION := $(shell .ci/version)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
LINTER := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CLANG_FORMAT := clang-format-19
# `make plugin STRIP=` keeps the symbols, for gdb.
STRIP := -s -w
# Go's build cache sees a change of a C header only in the folder of the package that includes it. This number makes every
# package with cgo new after a change of any header.
HEADERS := $(shell find . -path ./$(BUILD) -prune -o -name '*.h' -type f -print | LC_ALL=C sort | xargs cat | cksum | cut -d' ' -f1)
export CGO_CFLAGS := $(or $(CGO_CFLAGS),-O2 -g) -DDDLEMU_HEADERS=$(HEADERS)
# asyncpreemptoff: Go's threads send each other no SIGURG, which belongs to the host process.
LDFLAGS_PLUGIN = $(STRIP) -X runtime.godebugDefault=asyncpreemptoff=1 -extldflags "-Wl,--version-script=$(CURDIR)/nccl-plugin/plugin.map -Wl,-soname,libgoemu.so -Wl,-z,now"
# netgo and osusergo: in a foreign process the plugin calls neither the resolver nor the user
# database of the C library.
PLUGIN = $(GO) build -buildmode=c-shared -trimpath -ldflags='$(LDFLAGS_PLUGIN)'

.PHONY: help build packages cli plugin plugin-faults rank softcuda torch wheel install dist image tag demo demo-ddlemu demo-softcuda test test-fast test-needs race test-asan test-tsan conformance bpf page lint fmt bench decisions speed soak lab torch-matrix lines clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: packages cli plugin rank softcuda torch ## build everything: build/bin, build/lib, build/softcuda, build/torch

# The programs that the build needs besides Go and make: list build of test/needs/packages.txt.
PACKAGES := .ci/packages
packages:
	@$(PACKAGES) build

CLI := github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli

cli:
	$(GO) build -trimpath $(TAGS) -ldflags='-X $(CLI).release=$(VERSION) -X $(CLI).revision=$(COMMIT)' -o $(BUILD)/bin/ddlemu ./cmd/ddlemu
	@ln -sf ddlemu $(BUILD)/bin/ddlemu-ssh

plugin:
	$(PLUGIN) -tags netgo,osusergo -o $(BUILD)/lib/libgoemu.so ./nccl-plugin
	@rm -f $(BUILD)/lib/libgoemu.h
	@ln -sf libgoemu.so $(BUILD)/lib/libnccl-net-goemu.so
	@ln -sf libgoemu.so $(BUILD)/lib/libnccl-net.so

# The plugin and the command with faults that tests can switch on: they make the emulator wrong,
# which the verdict must notice. Never install them.
plugin-faults:
	$(PLUGIN) -tags netgo,osusergo,ddlemu_faults -o $(BUILD)/faults/libgoemu.so ./nccl-plugin
	@rm -f $(BUILD)/faults/libgoemu.h
	@ln -sf libgoemu.so $(BUILD)/faults/libnccl-net-goemu.so
	$(GO) build -trimpath -tags ddlemu_faults -o $(BUILD)/faults/ddlemu ./cmd/ddlemu

rank:
	@mkdir -p $(BUILD)/bin
	$(CC) -O2 -std=c11 -Wall -Wextra -Werror -o $(BUILD)/bin/ddlemu-rank cuda/rank/*.c -ldl -lpthread

softcuda:
	$(GO) run -trimpath ./cuda/soft/setup --build $(BUILD)

# The backend for PyTorch is Python: it only has to be where `ddlemu run` looks for it.
torch:
	@rm -rf $(BUILD)/torch
	@mkdir -p $(BUILD)/torch
	cp -R cuda/torch/ddlemu_torch cuda/torch/ddlemu_torch-0.dist-info cuda/torch/sitecustomize.py cuda/torch/cuda $(BUILD)/torch/

# Where `make install` copies the files: DESTDIR/PREFIX.
PREFIX ?= /usr/local
DESTDIR ?=

install: ## install what `make build` has made, below PREFIX (default /usr/local) and DESTDIR
	.ci/install $(BUILD) "$(DESTDIR)" "$(PREFIX)" base softcuda

dist: build ## pack a tarball with everything and two Debian packages, in build/dist
	.ci/dist $(BUILD) "$(VERSION)"

image: build ## pack a container image, as an OCI layout in build/image (root; it installs mmdebstrap and umoci)
	@.ci/packages image
	.ci/image $(BUILD) "$(VERSION)"

# It installs nothing on the machine: neither it nor `build` before it.
wheel: PACKAGES := .ci/packages --check
wheel: build ## build build/wheel/ddlemu-VERSION-py3-none-manylinux_*.whl for pip: the command, NCCL, the PyTorch backend
	@cuda/torch/wheel/build.sh $(BUILD) "$(VERSION)"

tag: ## make the git tag of CHANGELOG.md's newest version (CONTRIBUTING.md, Versions)
	@.ci/tag

# What it needs of `make build`, to be there sooner: without SQLite, which `ddlemu workload convert` needs for recordings
# of Nsight Systems, and without PyTorch's parts, unless `make build` has made all. NCCL is downloaded meanwhile.
demo: packages ## run unmodified NCCL's AllReduce between 2 emulated nodes over an NDR-400 link
	@echo "demo: building ddlemu and downloading NCCL, the first time: about 2 minutes on 2 cores"
	@$(GO) build -trimpath -o $(BUILD)/cache/setup ./cuda/soft/setup
	@$(MAKE) --no-print-directory -j2 demo-ddlemu demo-softcuda
	$(BUILD)/bin/ddlemu bench allreduce --profile ndr400 --ranks 2 -b 1M -e 16M -f 4 -n 10

demo-ddlemu:
	@echo "demo: building the command"
	@$(MAKE) --no-print-directory --silent cli TAGS='$(if $(wildcard $(BUILD)/torch),,-tags ddlemu_demo)'
	@echo "demo: building the plugin"
	@$(MAKE) --no-print-directory --silent plugin rank
	@echo "demo: the command and the plugin are built"

demo-softcuda:
	@$(BUILD)/cache/setup --build $(BUILD) --one-nccl

# Tests that take minutes, or need root or build/: not for the fast lane.
SLOW := /shaper/run/bench$$|/nccl-plugin/|/shaper/run/host$$|/shaper/kernel/|/test/|/cuda/soft$$|/cuda/soft/exec
# Slow packages that measure no time and have generous limits. They run in parallel; each other one runs alone.
BESIDE := /cuda/soft$$|/cuda/soft/exec|/test/(bigfiles|clockmodel|conformance|containers|gpu|gpus|guest|inputs|install|python|sanitize|security|viewers)$$
# A program that prints which of some packages test-fast is to test.
WHICH := echo

test-fast: packages ## run the unit and model tests, under 3 minutes: they need neither root nor build/ nor a quiet machine
	packages=$$($(WHICH) $$($(GO) list ./... | grep -vE '$(SLOW)') ./test/oracle ./test/needs) && $(GO) test -timeout 20m $$packages

# What the tests need besides what the build needs: a line says what it installs.
test-needs: packages
	@.ci/packages test pypi
	@.ci/pypi

test: test-needs build dist plugin-faults test-fast ## install what the tests need (root), build, run every test
	@rm -f $(BUILD)/notjudged.txt
	$(GO) test -timeout 40m -p 3 ./test/install $$($(GO) list ./... | grep -E '$(BESIDE)') # install often waits, longest
	$(GO) test -timeout 40m -p 1 -parallel 3 $$($(GO) list ./... | grep -E '$(SLOW)' | grep -vE '$(BESIDE)|/test/(oracle|needs)$$')
	cd test/kubernetes && $(GO) test -count=1 ./... # a module of its own; Go sees no change of the manifests, which are outside
	$(MAKE) race
	@.ci/notjudged $(BUILD)/notjudged.txt

race: ## test the Go packages that have several goroutines with the race detector
	packages=$$(.ci/concurrent ./configs/... ./shaper/... ./intercept/... ./cmd/...) && $(GO) test -race -short -timeout 10m $$packages

test-inputs: packages ## let every reader of files read INPUTS=1000 made inputs, and measure the memory and the processor time of each (READERS=a,b: only these)
	DDLEMU_TEST_INPUTS=$(or $(INPUTS),1000) DDLEMU_TEST_READERS=$(READERS) $(GO) test -count=1 -v -timeout 4h ./test/inputs -run TestInputs

conformance: packages plugin plugin-faults ## make NCCL's calls through every vtable of the plugin, without NCCL; prints a line per case (SEED=N repeats a run)
	cd test/conformance && $(GO) test -count=1 -timeout 10m -args -all -lines $(if $(SEED),-seed $(SEED))

# Each test compiles the C code that it runs again, with gcc's sanitizers.
test-asan: build ## test the C code with the address and undefined behaviour sanitizers
	$(GO) test -count=1 -timeout 20m -run '^(TestThreads|TestRuntimeSanitized|TestExecutorAddressSanitizer|TestPluginAddress|TestRank)$$/^(address|v)' \
		./nccl-plugin/internal/shm ./cuda/soft ./cuda/soft/exec/exectest ./test/sanitize
	CGO_CFLAGS="-DDDLEMU_HEADERS=$(HEADERS) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all" CGO_LDFLAGS=-fsanitize=address,undefined ASAN_OPTIONS=detect_leaks=0 \
		$(GO) test -asan -count=1 -timeout 20m ./nccl-plugin/internal/tcp

test-tsan: build ## test the C code with the thread sanitizer; `make race` is for Go
	$(GO) test -count=1 -timeout 20m -run '^(TestThreads|TestRuntimeSanitized|TestExecutorThreadSanitizer|TestRank)$$/^thread$$' \
		./nccl-plugin/internal/shm ./cuda/soft ./cuda/soft/exec/exectest ./test/sanitize

# The compiler's version is fixed, because another version makes another object of the same code.
bpf: ## compile the eBPF programs again after a change of their C code
	@.ci/packages bpf
	BPF_CLANG=clang-19 BPF_STRIP=llvm-strip-19 BPF_OUTPUT=. $(GO) generate ./shaper/kernel/internal/bpf

C_FILES = $$(git ls-files '*.c' '*.h' '*.cc' '*.inc')

# The pages are committed as they are bundled, so that the build needs no npm.
page: ## bundle the code of the HTML pages again after a change
	@.ci/packages page
	cd intercept/report/page && npm ci --no-audit --no-fund --loglevel=error && npm run --silent check && npm run --silent build

lint: packages ## check style and import directions: golangci-lint (.golangci.yml), clang-format, shellcheck
	@.ci/packages lint
	$(LINTER) run --allow-parallel-runners ./...
	$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
	shellcheck .ci/run .ci/lines .ci/packages .ci/concurrent .ci/install .ci/dist .ci/image .ci/notices .ci/ncclnotices .ci/notjudged .ci/libc .ci/version .ci/tag .ci/auditwheel .ci/pypi .ci/oneccl .ci/deepspeed .ci/perfetto .ci/nvtx .ci/cudart $$(git ls-files '*.sh')

fmt: ## format all Go, C, C++ and eBPF code
	@.ci/packages fmt
	$(LINTER) fmt ./...
	$(CLANG_FORMAT) -i $(C_FILES)

bench: build speed ## measure what the emulator costs, compared with plain ways to move bytes; writes docs/performance.md and docs/kernel.md
	$(GO) run ./test/speed -build $(BUILD) -page docs/performance.md
	$(GO) run ./test/speed -build $(BUILD) -only links -page docs/kernel.md

decisions: build ## print what NCCL decides on each profile, kind of GPU and system
	$(GO) run ./test/decisions -build $(BUILD)

speed:
	$(CC) -O2 -std=gnu11 -Wall -Wextra -Werror -o $(BUILD)/bin/speed test/speed/driver/*.c -ldl

soak: build ## run real NCCL and jobs that fail, in random order, for SECONDS=600 (SEED=N repeats a run)
	SOAK_SECONDS=$(or $(SECONDS),600) SOAK_SEED=$(SEED) $(GO) test -count=1 -v -timeout 0 -run '^TestSoak$$' ./test/soak

lab: ## test the shapers on kernels of Debian that have fq and netem, under qemu (downloads them once)
	@.ci/packages lab
	$(GO) run ./test/lab -build $(BUILD)

torch-matrix: build ## test the backend for PyTorch with several versions of PyTorch, and with PyTorch's own tests (root; the first time it downloads them)
	@.ci/packages torch-matrix
	@.ci/packages pypi
	@.ci/cudart
	unshare --mount --propagation private $(GO) run ./test/torch/matrix -build $(BUILD) $(if $(ONLY),-only '$(ONLY)')

lines: ## count lines of code and words of pages, by top folder
	@.ci/lines

clean: ## remove what was built; the downloads in build/cache stay
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
