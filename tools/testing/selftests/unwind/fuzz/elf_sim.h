/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that kernel/unwind/elf.c needs beyond sim.h: files, and the
 * names of this architecture.
 */
#ifndef _UNWIND_FUZZ_ELF_SIM_H
#define _UNWIND_FUZZ_ELF_SIM_H

#include <sys/types.h>

typedef s16 __s16;
typedef s64 __s64;

#define EIO				5
#define ENOEXEC				8
#define ENOMEM				12
#define S64_MAX				0x7fffffffffffffffLL
#define ELF_DATA			ELFDATA2LSB
#define ALIGN(x, to)			(((x) + (to) - 1) & ~((typeof(x))(to) - 1))
#define elf_check_arch(ehdr)		((ehdr)->e_machine == EM_X86_64)

struct file;
struct mem_cgroup;

ssize_t __kernel_read(struct file *file, void *buf, size_t size, loff_t *pos);

/* Memory is not charged. */
static inline struct mem_cgroup *set_active_memcg(struct mem_cgroup *memcg)
{
	return NULL;
}

#endif /* _UNWIND_FUZZ_ELF_SIM_H */
