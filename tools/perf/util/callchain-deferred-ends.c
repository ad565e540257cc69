// SPDX-License-Identifier: GPL-2.0
/*
 * Where merged user callchains end. A chain that does not end where its task began
 * misses frames, mostly because the code there has neither frame pointers nor other
 * data for the kernel's walker. Such chains are counted by the object of their last
 * address.
 *
 * A task begins at the entry point in the ELF header, which needs no symbols, or in a
 * function that starts threads. Files may have changed since, or be crafted to do
 * damage: only a header of bounded size is read. A chain that ends in an unreadable
 * file is counted as unknown, not as one that ends early.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>

#include "addr_location.h"
#include "callchain-deferred.h"
#include "dso.h"
#include "hashmap.h"
#include "machine.h"
#include "map.h"
#include "symbol.h"
#include "thread.h"

/* Upper bound for the size of a program's startup code. */
#define START_SIZE	64

/* Largest number of program headers that is read. */
#define MAX_PHDRS	64

/* The file cannot be read, or is not a 64-bit one. */
#define ENTRY_UNKNOWN	((u64)-1)

/* Number of objects that are printed. */
#define NR_WORST	5

/**
 * struct ends_dso - chains that end in one object
 * @dso: the object, NULL for addresses outside of any
 * @entry: file offset of the entry point, 0 for none, or ENTRY_UNKNOWN
 * @nr: number of chains that end before an entry point
 */
struct ends_dso {
	struct dso	*dso;
	u64		entry;
	__u64		nr;
};

/**
 * struct callchain_ends - chains that end in all objects
 * @dsos: struct ends_dso by struct dso
 * @all: all counted chains
 * @early: chains that end before an entry point
 * @unknown: chains that end in an object whose entry point cannot be determined
 */
struct callchain_ends {
	struct hashmap	*dsos;
	__u64		all;
	__u64		early;
	__u64		unknown;
};

static size_t hash_dso(long key, void *ctx __maybe_unused)
{
	return (size_t)key >> 4;
}

static bool equal_dso(long key1, long key2, void *ctx __maybe_unused)
{
	return key1 == key2;
}

struct callchain_ends *callchain_ends__new(void)
{
	struct callchain_ends *ends = zalloc(sizeof(*ends));

	if (!ends)
		return NULL;

	ends->dsos = hashmap__new(hash_dso, equal_dso, NULL);
	if (IS_ERR(ends->dsos)) {
		free(ends);
		return NULL;
	}
	return ends;
}

void callchain_ends__delete(struct callchain_ends *ends)
{
	struct hashmap_entry *pos;
	size_t bucket;

	if (!ends)
		return;

	hashmap__for_each_entry(ends->dsos, pos, bucket) {
		struct ends_dso *in = pos->pvalue;

		dso__put(in->dso);
		free(in);
	}
	hashmap__free(ends->dsos);
	free(ends);
}

static bool read_at(struct dso *dso, struct machine *machine, u64 offset, void *data, ssize_t size)
{
	return dso__data_read_offset(dso, machine, offset, data, size) == size;
}

/*
 * Returns the file offset of an object's entry point, or 0 if it has none. Read the file
 * that the DSO code finds: below the root of --symfs, in the build-id cache, in a namespace.
 */
static u64 read_entry(struct dso *dso, struct machine *machine)
{
	Elf64_Phdr phdrs[MAX_PHDRS];
	Elf64_Ehdr ehdr;
	u64 entry = 0;
	int i;

	if (!read_at(dso, machine, 0, ehdr.e_ident, sizeof(ehdr.e_ident)))
		return ENTRY_UNKNOWN;
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG))
		return 0;
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    !read_at(dso, machine, 0, &ehdr, sizeof(ehdr)) ||
	    ehdr.e_phentsize != sizeof(*phdrs) || ehdr.e_phnum > MAX_PHDRS ||
	    !read_at(dso, machine, ehdr.e_phoff, phdrs, ehdr.e_phnum * sizeof(*phdrs)))
		return ENTRY_UNKNOWN;

	for (i = 0; i < ehdr.e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD &&
		    ehdr.e_entry - phdrs[i].p_vaddr < phdrs[i].p_filesz)
			entry = ehdr.e_entry - phdrs[i].p_vaddr + phdrs[i].p_offset;
	}
	return entry;
}

/* No task begins in code without a file. */
static bool is_file(const char *name)
{
	return *name == '/' && !is_anon_memory(name) && !is_no_dso_memory(name) &&
	       !is_perf_pid_map_name(name);
}

static struct ends_dso *findnew_dso(struct callchain_ends *ends, struct machine *machine,
				    struct dso *dso)
{
	struct ends_dso *in;

	if (hashmap__find(ends->dsos, dso, &in))
		return in;

	in = zalloc(sizeof(*in));
	if (!in)
		return NULL;
	if (hashmap__add(ends->dsos, dso, in)) {
		free(in);
		return NULL;
	}
	in->dso = dso__get(dso);
	if (dso && is_file(dso__long_name(dso)))
		in->entry = read_entry(dso, machine);
	return in;
}

/**
 * callchain_ends__is_start - check whether a task begins in a function
 * @name: name of the function's symbol
 *
 * Return: true for start functions of C programs, threads of C libraries, and Go.
 */
bool callchain_ends__is_start(const char *name)
{
	static const char * const starts[] = {
		"_start", "_dl_start_user", "_dl_start", "__libc_start_main",
		"__libc_start_call_main", "start_thread", "clone", "clone3", "__clone",
		"__clone3", "thread_start", "runtime.goexit", "runtime.rt0_go",
		"runtime.mstart",
	};
	size_t i, len = strcspn(name, "@");

	/* "runtime.goexit.abi0" and "__libc_start_main@@GLIBC_2.34", too. */
	if (len > strlen(".abi0") && !strncmp(name + len - strlen(".abi0"), ".abi0", 5))
		len -= strlen(".abi0");
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		if (strlen(starts[i]) == len && !strncmp(name, starts[i], len))
			return true;
	}
	return false;
}

static bool is_start(const struct ends_dso *in, const struct addr_location *al)
{
	if (in->entry && in->entry != ENTRY_UNKNOWN && al->addr - in->entry < START_SIZE)
		return true;
	return al->sym && callchain_ends__is_start(al->sym->name);
}

/* Count a chain that does not end at a known start. */
static void count_end(struct callchain_ends *ends, struct ends_dso *in)
{
	if (in->entry == ENTRY_UNKNOWN) {
		ends->unknown++;
		return;
	}
	in->nr++;
	ends->early++;
}

/*
 * Returns the last user address, and whether it is a return address, or 0 if the chain
 * must not be counted. A lost or cut chain has a mark that says why it ends there, and
 * frames unwound from registers and stack are not in the chain.
 */
static u64 last_address(const struct ip_callchain *chain, bool *is_caller)
{
	u64 nr = chain->nr, i = nr;

	while (i && chain->ips[i - 1] < CALLCHAIN_USER_LOWEST)
		i--;
	if (!i || i == nr || chain->ips[i - 1] != PERF_CONTEXT_USER)
		return 0;
	*is_caller = nr - i > 1;
	return chain->ips[nr - 1];
}

/**
 * callchain_ends__count - count where a merged callchain ends
 * @ends: the counts
 * @machine: the machine that the sample is from
 * @sample: the sample, with a merged callchain
 *
 * Return: 0 or -ENOMEM.
 */
int callchain_ends__count(struct callchain_ends *ends, struct machine *machine,
			  const struct perf_sample *sample)
{
	struct addr_location al;
	struct ends_dso *in;
	struct thread *thread;
	bool is_caller = false;
	u64 ip = last_address(sample->callchain, &is_caller);

	if (!ip)
		return 0;

	thread = machine__findnew_thread(machine, sample->pid, sample->tid);
	if (!thread)
		return -ENOMEM;

	addr_location__init(&al);
	/* A return address may be the start of the next function: look up the call before it. */
	thread__find_map(thread, PERF_RECORD_MISC_USER, ip - is_caller, &al);
	/* Look at the file first, because symbols may come from another file. */
	in = findnew_dso(ends, machine, al.map ? map__dso(al.map) : NULL);
	if (al.map)
		al.sym = map__find_symbol(al.map, al.addr);
	ends->all++;
	if (in && !is_start(in, &al))
		count_end(ends, in);
	addr_location__exit(&al);
	thread__put(thread);
	return in ? 0 : -ENOMEM;
}

static struct ends_dso *next_worst(const struct callchain_ends *ends,
				   const struct ends_dso *after)
{
	struct ends_dso *worst = NULL;
	struct hashmap_entry *pos;
	size_t bucket;

	hashmap__for_each_entry(ends->dsos, pos, bucket) {
		struct ends_dso *in = pos->pvalue;

		/* Objects with the same number are ordered by address. */
		if (!in->nr || (after && (in->nr > after->nr ||
					  (in->nr == after->nr && in >= after))))
			continue;
		if (!worst || in->nr > worst->nr || (in->nr == worst->nr && in > worst))
			worst = in;
	}
	return worst;
}

/**
 * callchain_ends__fprintf - print the objects where most chains end too early
 * @ends: the counts
 * @fp: where to print
 *
 * Return: number of characters.
 */
size_t callchain_ends__fprintf(const struct callchain_ends *ends, FILE *fp)
{
	const struct ends_dso *in = NULL;
	size_t ret;
	int i;

	if (!ends->all)
		return 0;

	ret = fprintf(fp, "%20s: %10" PRI_lu64 "  (%4.1f%%)\n", "merged, end early",
		      ends->early, 100.0 * ends->early / ends->all);
	for (i = 0; i < NR_WORST; i++) {
		in = next_worst(ends, in);
		if (!in)
			break;
		ret += fprintf(fp, "%20s  %10" PRI_lu64 "  (%4.1f%%) %s\n", "", in->nr,
			       100.0 * in->nr / ends->all,
			       in->dso ? dso__long_name(in->dso) : "[unknown]");
	}
	if (ends->unknown)
		ret += fprintf(fp, "%20s: %10" PRI_lu64 "  (%4.1f%%)\n", "merged, end unknown",
			       ends->unknown, 100.0 * ends->unknown / ends->all);
	return ret;
}
