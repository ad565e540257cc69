// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the cost of user stacks for BPF programs in NMI, for make bench.
 *
 *   bench-bpf nothing|stackid|deferred PERIOD PROGRAM ARGUMENT...
 *
 * Runs PROGRAM with a BPF program on samples of perf_test/self/: one that only counts
 * them, one that calls bpf_get_stackid(), or one that requests deferred stacks with
 * BPF_F_USER_DEFERRED. Prints the number of samples after the output of PROGRAM.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define FRAMES	127

static void die(const char *what)
{
	fprintf(stderr, "bench-bpf: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int bpf(int cmd, union bpf_attr *attr, const char *what)
{
	int ret = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	if (ret < 0)
		die(what);
	return ret;
}

static int map_create(enum bpf_map_type type, unsigned int value_size, unsigned int entries)
{
	union bpf_attr attr = {
		.map_type	= type,
		.key_size	= 4,
		.value_size	= value_size,
		.max_entries	= entries,
	};

	return bpf(BPF_MAP_CREATE, &attr, "map");
}

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV_REG(d, s)	INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define LOAD_IMM64(d, v) \
	INSN(BPF_LD | BPF_IMM | BPF_DW, d, 0, 0, (uint32_t)(v)), \
	INSN(0, 0, 0, 0, (uint32_t)((uint64_t)(v) >> 32))
#define LOAD_MAP(d, fd)	INSN(BPF_LD | BPF_IMM | BPF_DW, d, BPF_PSEUDO_MAP_FD, 0, fd), \
			INSN(0, 0, 0, 0, 0)
#define LOAD_VALUE(d, fd) \
			INSN(BPF_LD | BPF_IMM | BPF_DW, d, BPF_PSEUDO_MAP_VALUE, 0, fd), \
			INSN(0, 0, 0, 0, 0)
#define CALL(func)	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, func)
#define EXIT()		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* ++*count; the context is in r6 */
#define COUNT(fd) \
	MOV_REG(BPF_REG_6, BPF_REG_1), \
	LOAD_VALUE(BPF_REG_1, fd), \
	MOV_IMM(BPF_REG_2, 1), \
	INSN(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_1, BPF_REG_2, 0, BPF_ADD)

static char verifier_log[65536];

static int load(const struct bpf_insn *insns, unsigned int nr)
{
	union bpf_attr attr = {
		.prog_type	= BPF_PROG_TYPE_PERF_EVENT,
		.insns		= (uintptr_t)insns,
		.insn_cnt	= nr,
		.license	= (uintptr_t)"GPL",
		.log_buf	= (uintptr_t)verifier_log,
		.log_size	= sizeof(verifier_log),
		.log_level	= 1,
	};
	int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	if (fd < 0) {
		fputs(verifier_log, stderr);
		die("program");
	}
	return fd;
}

#define LOAD(...) ({ \
	const struct bpf_insn insns[] = { __VA_ARGS__, MOV_IMM(BPF_REG_0, 0), EXIT() }; \
	load(insns, ARRAY_SIZE(insns)); \
})

static int program(const char *what, int count)
{
	if (!strcmp(what, "stackid")) {
		int stacks = map_create(BPF_MAP_TYPE_STACK_TRACE, FRAMES * 8, 1024);

		return LOAD(COUNT(count),
			    MOV_REG(BPF_REG_1, BPF_REG_6),
			    LOAD_MAP(BPF_REG_2, stacks),
			    MOV_IMM(BPF_REG_3, BPF_F_USER_STACK),
			    CALL(BPF_FUNC_get_stackid));
	}
	if (!strcmp(what, "deferred"))
		return LOAD(COUNT(count),
			    MOV_REG(BPF_REG_1, BPF_REG_6),
			    MOV_REG(BPF_REG_2, BPF_REG_10),
			    ADD_IMM(BPF_REG_2, -16),
			    MOV_IMM(BPF_REG_3, 16),
			    LOAD_IMM64(BPF_REG_4, BPF_F_USER_STACK | BPF_F_USER_DEFERRED),
			    CALL(BPF_FUNC_get_stack));
	return LOAD(COUNT(count));
}

static unsigned int pmu_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/perf_test/type", "r");
	unsigned int type;

	if (!file || fscanf(file, "%u", &type) != 1)
		die("perf_test");
	fclose(file);
	return type;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.disabled	= 1,
		.enable_on_exec	= 1,
	};
	uint64_t samples;
	uint32_t key = 0;
	union bpf_attr lookup = { .key = (uintptr_t)&key, .value = (uintptr_t)&samples };
	int count, event, go[2], status;
	pid_t child;

	if (argc < 4 || pipe(go))
		return 2;
	count = map_create(BPF_MAP_TYPE_ARRAY, 8, 1);

	child = fork();
	if (!child) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) == 1)
			execv(argv[3], argv + 3);
		_exit(127);
	}
	attr.type = pmu_type();
	/* perf_test/self/: the format in sysfs defines this value. */
	attr.config = 1;
	attr.sample_period = strtoull(argv[2], NULL, 0);
	event = syscall(SYS_perf_event_open, &attr, child, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		die("event");
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, program(argv[1], count)))
		die("attach");
	if (write(go[1], "", 1) != 1 || waitpid(child, &status, 0) != child || status)
		die(argv[3]);

	lookup.map_fd = count;
	bpf(BPF_MAP_LOOKUP_ELEM, &lookup, "count");
	printf("%llu\n", (unsigned long long)samples);
	return 0;
}
