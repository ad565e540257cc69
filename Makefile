# SPDX-License-Identifier: GPL-2.0
# Deferred user unwinding for Linux 6.12: assemble, build, run, check.
#
# Every verb does what it needs first, so any works on a fresh clone. A goal that
# is not a verb is passed to the assembled kernel tree, with the O= of KERNEL.

VERBS := help demo check check-all check-long test bench interop tree kernel perf shell run lint series refresh clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

KERNEL ?= plain
ifneq ($(filter bench base,$(KERNEL)),)
ifneq ($(filter check check-all check-long test demo lint interop,$(MAKECMDGOALS)),)
$(error KERNEL=$(KERNEL) has no test options: make bench uses it)
endif
endif
ifeq ($(filter $(KERNEL),plain debug kcsan bench base),)
$(error KERNEL=$(KERNEL) is not one of plain, debug, kcsan, bench, base)
endif

TOP	:= $(CURDIR)
CHECK_LOCK := $(TOP)/build/check.lock
ifneq ($(filter check check-all check-long test,$(MAKECMDGOALS)),)
# Nothing is built under a check that runs.
ifneq ($(shell [ ! -e $(CHECK_LOCK) ] || flock -n $(CHECK_LOCK) true || echo busy),)
$(error another check runs in build/check)
endif
endif

LINUX	:= $(TOP)/build/linux
KDIR	:= $(TOP)/build/kernel-$(KERNEL)
PERF	:= $(TOP)/build/perf
SCRIPTS	:= $(TOP)/patches/scripts
VM	:= $(TOP)/tools/testing/selftests/unwind/qemu
JOBS	:= $(shell nproc)
# A build that ends with make, even when that is killed.
ALONE	= exec setpriv --pdeathsig TERM $(VM)/alone.sh

# The default cache is shared by all clones: nothing in a hash may depend on where
# the clone is or when it was made.
export CCACHE_BASEDIR		:= $(TOP)
export CCACHE_NOHASHDIR		:= 1
export CCACHE_SLOPPINESS	:= time_macros,include_file_mtime,include_file_ctime
export KBUILD_BUILD_TIMESTAMP	:= Thu Jan  1 00:00:00 UTC 1970
export KBUILD_BUILD_USER	:= unwind
export KBUILD_BUILD_HOST	:= unwind
export KBUILD_BUILD_VERSION	:= 1
export PYTHONDONTWRITEBYTECODE	:= 1
export KCC			:= ccache gcc
export KHOSTCC			:= ccache gcc
export BASE

FRAGMENTS_base	:= $(VM)/kernel.config $(VM)/test-pmu.config
FRAGMENTS_bench	:= $(FRAGMENTS_base) $(VM)/unwind.config
FRAGMENTS_plain	:= $(FRAGMENTS_bench) $(VM)/test.config
FRAGMENTS_debug	:= $(FRAGMENTS_plain) $(VM)/debug.config
FRAGMENTS_kcsan	:= $(FRAGMENTS_plain) $(VM)/kcsan.config
# The base is measured next to the series, and has a tree of its own.
SOURCE		= $(if $(filter base,$(KERNEL)),"$$($(SCRIPTS)/base.sh pmu $(BASE))",$(LINUX))
MEM_base	:= 1G
MEM_bench	:= 1G
MEM_plain	:= 1G
MEM_debug	:= 2G
MEM_kcsan	:= 2G

# What is on the PATH in the guest, and where perf finds its own files.
GUEST_PATH := $(PERF)/install/bin
export GUEST_PATH
export MEM := $(MEM_$(KERNEL))

.PHONY: $(VERBS) deps

help:
	@echo 'Verbs; each does what it needs first:'
	@echo '  demo      record real programs in the VM, show the report and what it cost'
	@echo '  check     the gate: what finds most for its time; ends with "N passed, N failed"'
	@echo '  check-all everything that comes to an end by itself, on both kernels'
	@echo '  test      one program, test or part in one boot: make test T=core_cancel[.remote]'
	@echo '  check-long  storms of MINUTES=30, fuzzers, the data-race kernel'
	@echo '  bench     what a sample costs, in instructions and bytes'
	@echo '  tree      assemble build/linux from the base and the series'
	@echo '  kernel    build the kernel of the VM'
	@echo '  perf      build perf from the tree'
	@echo '  run       one command in the VM: make run CMD="uname -a" [OUT=dir]'
	@echo '  shell     a root shell in the VM'
	@echo '  interop   upstream perf, from Debian sid, on this kernel; needs the network'
	@echo '  lint      checkpatch, sparse, W=1, kernel-doc, shellcheck, manifest'
	@echo '  series    export build/series/*.patch and prove them; BUILD=1 builds each'
	@echo '  refresh   edits of base files in build/linux go to their patch [PATCH=name]'
	@echo '  clean     remove what was built; downloads stay'
	@echo 'Any other goal is passed to the assembled tree: make menuconfig.'
	@echo 'KERNEL=plain|debug|kcsan|bench|base picks the kernel, BASE=version the base.'

deps:
	@$(SCRIPTS)/deps.sh

tree: deps
	@$(SCRIPTS)/series.py tree $(if $(FORCE),--force)

refresh: deps
	@$(SCRIPTS)/series.py refresh $(PATCH)

# VERSIONS=this skips the other versions of the base that apt offers.
series: tree
	@versions=$(if $(filter this,$(VERSIONS)),,$$($(SCRIPTS)/base.sh versions)) && \
		$(SCRIPTS)/series.py export $$versions
	@$(if $(BUILD),$(SCRIPTS)/each-commit.sh)

lint: kernel
	@$(SCRIPTS)/series.py export
	@$(SCRIPTS)/lint.sh $(LINUX) $(KDIR)

kernel: tree
	@$(ALONE) $(VM)/build-kernel.sh $(SOURCE) $(KDIR) $(FRAGMENTS_$(KERNEL))

# Both kernels, or the one that KERNEL names: KERNEL=plain is for edits. The slow one
# first, so that quick parts fill the CPUs at the end.
CHECKED := $(if $(filter file,$(origin KERNEL)),debug plain,$(KERNEL))
check: tree perf
	$(call CHECK,gate,$(CHECKED))

check-all: tree perf
	$(call CHECK,all,$(CHECKED))

# Storms and fuzzers for MINUTES, and what the other kernels have no time for.
MINUTES ?= 30
check-long: CHECKED := plain debug kcsan
check-long: export MINUTES := $(MINUTES)
check-long: tree perf
	@$(SCRIPTS)/deps.sh clang
	$(call CHECK,long,$(CHECKED))

# One program of the kselftests or a test of it, KUnit or one of its suites, or a part of
# the checks: in one boot. What needs perf or another tool says so in its output.
ifneq ($(filter test,$(MAKECMDGOALS)),)
ifeq ($(strip $(T)),)
$(error usage: make test T=program[.test] or T=kunit[.suite] [KERNEL=debug]; T=help lists them)
endif
endif
test: tree
	$(call CHECK,test,$(KERNEL),'$(T)')

# $(call CHECK,TIER,KERNELS,WHAT); make passes signals on to the script.
define CHECK
@$(ALONE) sh -c 'for k in $(2); do $(MAKE) KERNEL=$$k kernel && \
	$(MAKE) -s -C $(LINUX) O=$(TOP)/build/kernel-$$k ARCH=x86 headers || exit 1; done'
@exec setpriv --pdeathsig TERM env BUILD=$(TOP)/build LINUX=$(LINUX) PERF_BIN=$(GUEST_PATH) \
	LINT="$(SCRIPTS)/lint.sh $(LINUX)" $(VM)/check.sh $(1) $(2) $(3)
endef

demo: kernel perf
	@$(VM)/demo.sh $(KDIR) $(TOP)/build/demo

# On kernels without test options: the series', and the base.
bench: perf
	@$(ALONE) sh -c 'for k in base bench; do $(MAKE) KERNEL=$$k kernel || exit 1; done'
	@$(MAKE) -s -C $(LINUX) O=$(TOP)/build/kernel-bench ARCH=x86 headers
	@LINUX=$(LINUX) $(VM)/bench.sh $(TOP)/build/kernel-base $(TOP)/build/kernel-bench $(TOP)/build/bench

interop: kernel perf
	@$(SCRIPTS)/deps.sh debootstrap
	@$(VM)/interop.sh $(KDIR) $(TOP)/build/interop

perf: tree
	@$(ALONE) $(SCRIPTS)/perf.sh $(LINUX) $(PERF)

# make itself ends with status 2 when a command failed; "vm.sh run" below ends with
# the command's own. The dollar signs of the command are the guest's.
ifneq ($(filter run,$(MAKECMDGOALS)),)
ifeq ($(strip $(value CMD)),)
$(error usage: make run CMD='command' [OUT=directory])
endif
endif
override CMD := $(value CMD)
export CMD
export OUT

run: export TIMEOUT := $(or $(TIMEOUT),120)
run: kernel perf
	@$(VM)/vm.sh run $(KDIR) "$$CMD"

shell: kernel perf
	@$(VM)/vm.sh shell $(KDIR)

clean:
	rm -rf build/linux build/linux.tmp build/tree.state build/kernel-* build/perf build/git \
		build/series build/series.tmp build/draft build/check build/check.lock build/ci.log build/demo build/bench build/each-commit \
		build/base/*.tmp build/base-files build/base-pmu build/base-pmu.stamp build/dl/tmp build/interop/out build/interop/log

# Everything else belongs to the assembled tree.
%: tree
	@$(MAKE) -C $(SOURCE) O=$(KDIR) ARCH=x86 CC="$(KCC)" HOSTCC="$(KHOSTCC)" $@

Makefile: ;
