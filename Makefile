# SPDX-License-Identifier: GPL-2.0
# Deferred user unwinding for Linux 6.12: assemble, build, run, check.
#
# Every verb first does what it depends on, so each works on a fresh clone. Goals that
# are not verbs are passed to the assembled kernel tree, with the O= of KERNEL.

VERBS := help demo check check-all check-long test coverage bench interop tree kernel perf shell run lint series refresh clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

ifneq ($(words $(subst :, ,$(CURDIR))),1)
$(error $(CURDIR) has a space or a colon in its name, with which the kernel does not build)
endif

# A hook of git may run make: git in the scripts must not use the repository of the hook.
unexport $(shell git rev-parse --local-env-vars)

# The kernel has no goal that is so near to a verb.
ifneq ($(filter-out $(VERBS),$(MAKECMDGOALS)),)
SLIP := $(shell python3 -c 'import difflib, sys; verbs = sys.argv[1].split(); \
	print(*(f"{goal}|{near}" for goal in sys.argv[2].split() if goal not in verbs \
	for near in difflib.get_close_matches(goal, verbs, 1, 0.75)))' '$(VERBS)' '$(MAKECMDGOALS)')
ifneq ($(SLIP),)
SLIP := $(subst |, ,$(firstword $(SLIP)))
$(error there is no verb '$(word 1,$(SLIP))'; is it $(word 2,$(SLIP))?)
endif
endif

KERNEL ?= plain
ifneq ($(filter bench base,$(KERNEL)),)
ifneq ($(filter check check-all check-long test demo lint interop,$(MAKECMDGOALS)),)
$(error KERNEL=$(KERNEL) has no test options: make bench uses it)
endif
endif
ifeq ($(filter $(KERNEL),plain debug kcsan gcov bench base),)
$(error KERNEL=$(KERNEL) is not one of plain, debug, kcsan, gcov, bench, base)
endif
ifneq ($(and $(filter gcov,$(KERNEL)),$(filter check check-all check-long,$(MAKECMDGOALS))),)
$(error KERNEL=gcov is for make coverage, and for make test)
endif
ifneq ($(and $(filter kcsan,$(KERNEL)),$(filter check,$(MAKECMDGOALS))),)
$(error make check has no tests for KERNEL=kcsan: make check-long has)
endif

TOP	:= $(CURDIR)
CHECK_LOCK := $(TOP)/build/check.lock
ifneq ($(filter check check-all check-long test,$(MAKECMDGOALS)),)
# Do not build anything while a check runs.
ifneq ($(shell [ ! -e $(CHECK_LOCK) ] || flock -n $(CHECK_LOCK) true || echo busy),)
$(error another check runs in build/check)
endif
endif

LINUX	:= $(TOP)/build/linux
KDIR	:= $(TOP)/build/kernel-$(KERNEL)
PERF	:= $(TOP)/build/perf
SCRIPTS	:= $(TOP)/scripts
VM	:= $(TOP)/tools/testing/selftests/unwind/qemu
JOBS	:= $(shell nproc)
# Run a build that ends with make, even if make is killed.
ALONE	= exec setpriv --pdeathsig TERM $(SCRIPTS)/alone.sh

# All clones share ccache's default cache: no hash may depend on the path or the age of
# a clone.
export CCACHE_BASEDIR		:= $(TOP)
export CCACHE_NOHASHDIR		:= 1
export CCACHE_SLOPPINESS	:= time_macros,include_file_mtime,include_file_ctime
export KBUILD_BUILD_TIMESTAMP	:= Thu Jan  1 00:00:00 UTC 1970
export KBUILD_BUILD_USER	:= unwind
export KBUILD_BUILD_HOST	:= unwind
export KBUILD_BUILD_VERSION	:= 1
export PYTHONDONTWRITEBYTECODE	:= 1
export KCC			:= ccache gcc
export KHOSTCC			:= $(SCRIPTS)/cc.sh
export BASE

# The fragments of each kernel's configuration, and the memory of its guest
include tools/testing/selftests/unwind/qemu/kernels.mk
# The base kernel has its own tree, because make bench compares it with the series.
SOURCE		= $(if $(filter base,$(KERNEL)),"$$($(SCRIPTS)/base.sh pmu $(BASE))",$(LINUX))

# The guest has this directory on its PATH, and perf finds its own files below it.
GUEST_PATH := $(PERF)/install/bin
export GUEST_PATH
export MEM := $(MEM_$(KERNEL))

.PHONY: $(VERBS) deps cross known

help:
	@echo 'Verbs; each does what it needs first:'
	@echo '  demo      record real programs in the VM, show the report and what it cost'
	@echo '  check     the gate: what finds most for its time; ends with "N passed, N failed"'
	@echo '  check-all everything that comes to an end by itself, on both kernels'
	@echo '  test      one program, test or part in one boot: make test T=core_cancel[.killed_in_walk]'
	@echo '  check-long  storms of MINUTES=30, fuzzers, the data-race kernel'
	@echo '  coverage  which lines of the series each test program runs [T="a b"]'
	@echo '  bench     what a sample costs, in instructions and bytes'
	@echo '  tree      assemble build/linux from the base and the series'
	@echo '  kernel    build the kernel of the VM'
	@echo '  perf      build perf from the tree'
	@echo '  run       one command in the VM: make run CMD="uname -a" [OUT=dir]'
	@echo '  shell     a root shell in the VM'
	@echo '  interop   upstream perf, from Debian sid, on this kernel; needs the network'
	@echo '  lint      manifest, shellcheck, kernel-doc, checkpatch, W=1, sparse [FILES="a b"]'
	@echo '  series    export build/series/*.patch and prove them; BUILD=1 builds each'
	@echo '  refresh   edits of base files in build/linux go to their patch [PATCH=name]'
	@echo '  clean     remove what was built; downloads stay'
	@echo 'Any other goal is passed to the assembled tree: make menuconfig.'
	@echo 'KERNEL=plain|debug|kcsan|gcov|bench|base picks the kernel, BASE=version the base.'

deps:
	@$(SCRIPTS)/deps.sh

cross: deps
	@$(SCRIPTS)/deps.sh $(CROSS)

tree: deps
	@$(SCRIPTS)/series.py tree $(if $(FORCE),--force)

refresh: deps
	@$(SCRIPTS)/series.py refresh $(PATCH)

# VERSIONS=this skips the base's other versions that apt offers.
series: tree
	@versions=$(if $(filter this,$(VERSIONS)),,$$($(SCRIPTS)/base.sh versions)) && \
		$(SCRIPTS)/series.py export $$versions
	@$(if $(BUILD),$(SCRIPTS)/each-commit.sh)

# FILES names files of the repository; the checks that need a kernel are for all of them.
ifneq ($(filter command,$(origin FILES)),)
CHECKED_FILES := -- $(FILES)
endif
lint: tree
	@status=0; $(SCRIPTS)/lint.sh $(LINUX) $(CHECKED_FILES) || status=1; \
	$(if $(CHECKED_FILES),exit $$status;) \
	$(MAKE) kernel && $(SCRIPTS)/lint.sh $(LINUX) $(KDIR) || status=1; exit $$status

# Of the kernel that counts lines, the files of the series do: kbuild knows them by their last name.
ifeq ($(KERNEL),gcov)
kernel: export KARGS := $(patsubst %.c,GCOV_PROFILE_%.o=y,$(notdir $(filter-out %_kunit.c, \
	$(shell find arch kernel -name '*.c'))))
endif
kernel: tree
	@$(ALONE) $(VM)/build-kernel.sh $(SOURCE) $(KDIR) $(FRAGMENTS_$(KERNEL))

# Check both kernels, or only KERNEL: KERNEL=plain gives quick results for edits. The slow
# kernel comes first: the quick parts of the other keep the CPUs busy at the end.
CHECKED := $(if $(filter file,$(origin KERNEL)),debug plain,$(KERNEL))
# Before the first build, say what a check builds and what that costs.
ifneq ($(filter check,$(MAKECMDGOALS)),)
FIRST := $(strip $(if $(wildcard $(LINUX)/Makefile),,tree) \
	$(if $(wildcard $(PERF)/install/bin/perf),,perf) $(foreach k,$(CHECKED), \
	$(if $(wildcard $(TOP)/build/kernel-$k/arch/x86/boot/bzImage),,kernel-$k)))
ifneq ($(FIRST),)
$(info check: first makes $(FIRST). From nothing, a check of both kernels takes 40 to 70 minutes \
	on two CPUs, and 7.1 GB of disk.)
endif
endif
check: tree
	$(call CHECK,gate,$(CHECKED))

# What builds the code of other architectures
CROSS := gcc-powerpc64le-linux-gnu gcc-s390x-linux-gnu
check-all: tree $(if $(filter plain,$(CHECKED)),cross)
	$(call CHECK,all,$(CHECKED))

# Storms and fuzzers for MINUTES, and tests that are too slow for the other tiers.
MINUTES ?= 30
ifneq ($(filter check-long,$(MAKECMDGOALS)),)
ifneq ($(shell case '$(MINUTES)' in (*[!0-9]* | 0* | '') echo wrong ;; esac),)
$(error MINUTES=$(MINUTES) is not a number of minutes)
endif
endif
check-long: CHECKED := $(if $(filter file,$(origin KERNEL)),plain debug kcsan,$(KERNEL))
check-long: export MINUTES := $(MINUTES)
check-long: tree
	$(call CHECK,long,$(CHECKED))

# Run one kselftest program or one of its tests, KUnit or one of its suites, or a part of
# the checks, in one boot. The parts that use perf build it first. Programs that use perf or
# another tool report if it is missing.
ifneq ($(filter test,$(MAKECMDGOALS)),)
ifeq ($(strip $(T)),)
$(error usage: make test T=program[.test] or T=kunit[.suite] [KERNEL=debug]; T=help lists them)
endif
ifneq ($(filter perf-% convert record sframe stackprof,$(T)),)
perf: known
test: perf
endif
ifeq ($(T),other-archs)
known: cross
endif
endif
test: known
	$(if $(filter-out help,$(T)),$(call CHECK,test,$(KERNEL),'$(T)'))

# Refuse a wrong T before anything is built.
known: tree
	@BUILD=$(TOP)/build LINUX=$(LINUX) PERF_BIN=$(GUEST_PATH) \
		$(SCRIPTS)/check.sh known $(KERNEL) '$(T)'

# $(call CHECK,TIER,KERNELS,WHAT); make passes signals on to the script. perf is built beside the
# kernels, because each of these builds leaves CPUs idle.
define CHECK
@$(ALONE) sh -c '$(if $(filter test,$(1)),,$(MAKE) perf & perf=$$!;) \
	for k in $(2); do $(MAKE) KERNEL=$$k kernel || { pkill -P $$$$; exit 1; }; done; \
	wait $$perf || { echo "check: perf did not build, see above" >&2; exit 1; }; \
	$(MAKE) -s -j$(JOBS) -C $(LINUX) O=$(TOP)/build/kernel-$(firstword $(2)) ARCH=x86 headers'
@exec setpriv --pdeathsig TERM env BUILD=$(TOP)/build LINUX=$(LINUX) PERF_BIN=$(GUEST_PATH) \
	LINT="$(SCRIPTS)/lint.sh $(LINUX)" $(SCRIPTS)/check.sh $(1) $(2) $(3)
endef

# Run KUnit, each program of the kselftests and the tests of ftrace on the kernel that counts lines.
coverage: tree
	@$(MAKE) KERNEL=gcov kernel
	@MEM=$(MEM_gcov) $(SCRIPTS)/coverage.sh $(LINUX) $(TOP)/build/kernel-gcov $(TOP)/build/coverage $(T)

demo: kernel perf
	@$(SCRIPTS)/demo/demo.sh $(KDIR) $(TOP)/build/demo

# Measure kernels without test options: the series and the base.
bench: perf
	@$(ALONE) sh -c 'for k in base bench; do $(MAKE) KERNEL=$$k kernel || exit 1; done'
	@$(MAKE) -s -C $(LINUX) O=$(TOP)/build/kernel-bench ARCH=x86 headers
	@LINUX=$(LINUX) $(SCRIPTS)/bench/bench.sh $(TOP)/build/kernel-base $(TOP)/build/kernel-bench $(TOP)/build/bench

interop: kernel perf
	@$(SCRIPTS)/deps.sh debootstrap
	@$(SCRIPTS)/interop/interop.sh $(KDIR) $(TOP)/build/interop

perf: tree
	@$(ALONE) $(SCRIPTS)/perf.sh $(LINUX) $(PERF)

# make exits with status 2 if the command fails, and so the rule prints the command's status.
# "vm.sh run" below exits with it. The guest expands the dollar signs of the command.
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
	@$(VM)/vm.sh run $(KDIR) "$$CMD" || \
		{ status=$$?; echo "run: the command ended with status $$status" >&2; exit $$status; }

shell: kernel perf
	@$(VM)/vm.sh shell $(KDIR)

clean:
	rm -rf build/linux build/linux.new build/linux.git build/linux.git.new build/kernel-* build/perf build/git \
		build/series build/series.tmp build/draft build/check build/check.lock build/ci.log build/coverage build/demo build/bench build/each-commit \
		build/base/*.tmp build/base-files build/base-pmu build/base-pmu.stamp build/dl/tmp build/interop/out build/interop/log

# All other goals belong to the assembled tree.
%: tree
	@$(MAKE) -C $(SOURCE) O=$(KDIR) ARCH=x86 CC="$(KCC)" HOSTCC="$(KHOSTCC)" $@ || { echo \
		"make: '$@' is no verb (make help), and the kernel tree failed to make it" >&2; exit 1; }

$(MAKEFILE_LIST): ;
