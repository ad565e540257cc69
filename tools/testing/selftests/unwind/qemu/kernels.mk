# SPDX-License-Identifier: GPL-2.0
# The kernels of the virtual machine: the fragments of their configurations, and the memory
# of their guests.

CONFIGS := $(dir $(lastword $(MAKEFILE_LIST)))

FRAGMENTS_base	:= $(CONFIGS)kernel.config $(CONFIGS)test-pmu.config
FRAGMENTS_bench	:= $(FRAGMENTS_base) $(CONFIGS)unwind.config
FRAGMENTS_plain	:= $(FRAGMENTS_bench) $(CONFIGS)test.config
FRAGMENTS_debug	:= $(FRAGMENTS_plain) $(CONFIGS)debug.config
FRAGMENTS_kcsan	:= $(FRAGMENTS_plain) $(CONFIGS)kcsan.config
FRAGMENTS_gcov	:= $(FRAGMENTS_plain) $(CONFIGS)gcov.config
MEM_base	:= 1G
MEM_bench	:= 1G
MEM_plain	:= 1G
MEM_debug	:= 2G
MEM_kcsan	:= 2G
MEM_gcov	:= 1G
