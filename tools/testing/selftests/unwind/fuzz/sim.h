/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel that the walker and the SFrame decoder see as programs.
 *
 * fuzz.sh includes this before each file under test, with the headers of the
 * kernel that hold types of the walker or layouts of the ABI; every other header
 * is empty. User memory, mappings, locks and page faults are simulated, and each
 * rule about their use is checked where it can be broken, see sim.c.
 */
#ifndef _UNWIND_FUZZ_SIM_H
#define _UNWIND_FUZZ_SIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __KERNEL__			1
#define CONFIG_X86_64			1
#define CONFIG_UNWIND_USER		1
#define CONFIG_UNWIND_USER_SFRAME	1
#define CONFIG_UPROBES			1
#define CONFIG_PER_VMA_LOCK		1
#define CONFIG_IA32_EMULATION		1
#define CONFIG_X86_X32_ABI		1

typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16;
typedef unsigned int u32, __u32, gfp_t;
typedef unsigned long long u64, __u64;
typedef signed char s8;
typedef short s16;
typedef int s32, __s32;
typedef long long s64, __s64;
typedef u16 __le16;
typedef u32 __le32;
typedef u64 __le64;

#define noinline			__attribute__((noinline))
#undef __always_inline
#define __always_inline			inline __attribute__((always_inline))
#define __packed			__attribute__((packed))
#define __user
#define __force
#define __ro_after_init
#define __counted_by(member)
#define __must_check			__attribute__((warn_unused_result))
#define __uninitialized
#define __maybe_unused			__attribute__((unused))
#define __cleanup(func)			__attribute__((cleanup(func)))
#define fallthrough			__attribute__((fallthrough))
#define likely(x)			__builtin_expect(!!(x), 1)
#define unlikely(x)			__builtin_expect(!!(x), 0)
#define __static_assert(cond, text, ...) _Static_assert(cond, text)
#define static_assert(cond, ...)	__static_assert(cond, ##__VA_ARGS__, #cond)
#define READ_ONCE(x)			(*(const volatile typeof(x) *)&(x))
/* A single thread has no data races. */
#define data_race(x)			(x)
#define pr_notice_once(...)		((void)0)
#define __PASTE2(a, b)			a##b
#define __PASTE(a, b)			__PASTE2(a, b)
#define __UNIQUE_ID(prefix)		__PASTE(prefix, __COUNTER__)
#define BITS_PER_LONG			64
#define BITS_PER_TYPE(type)		(sizeof(type) * 8)
#define BIT(nr)				(1UL << (nr))
#define BIT_ULL(nr)			(1ULL << (nr))
#define GENMASK(high, low)		(~0UL >> (63 - (high)) & ~0UL << (low))
#define ARRAY_SIZE(a)			(sizeof(a) / sizeof((a)[0]))
#define IS_ENABLED(CONFIG_any)		1
#define offset_in_page(p)		((unsigned long)(p) % PAGE_SIZE)
#define PAGE_SHIFT			12
#define PAGE_SIZE			BIT(PAGE_SHIFT)
#define IS_ALIGNED(x, a)		(((x) & ((typeof(x))(a) - 1)) == 0)
#define min(a, b)			((a) < (b) ? (a) : (b))
#define offsetofend(type, member)	(offsetof(type, member) + sizeof(((type *)0)->member))
#define max(a, b)			((a) > (b) ? (a) : (b))
#define min_t(type, a, b)		min((type)(a), (type)(b))
#define round_up(x, a)			((((x) - 1) | ((typeof(x))(a) - 1)) + 1)
#define DIV_ROUND_UP(n, d)		(((n) + (d) - 1) / (d))
#define struct_size(p, member, n)	offsetof(typeof(*(p)), member[n])
#define ilog2(n)			(63 - __builtin_clzl(n))
#define __ffs64(x)			__builtin_ctzll(x)
#define ror64(x, n)			((u64)(x) >> (n) | (u64)(x) << (-(n) & 63))
#define rol64(x, n)			((u64)(x) << (n) | (u64)(x) >> (-(n) & 63))
#define roundup_pow_of_two(n)		(1UL << (64 - __builtin_clzl((n) - 1)))
#define OPTIMIZER_HIDE_VAR(x)		((void)(x))
#define hash_long(val, bits)		((val) * 0x61c8864680b583ebUL >> (64 - (bits)))
#define hash_64(val, bits)		hash_long(val, bits)
#define U16_MAX				0xffff
#define U32_MAX				0xffffffffU
#define U64_MAX				0xffffffffffffffffULL
#define test_bit(nr, addr)		(*(addr) >> (nr) & 1)
/* Byte by byte, so that the address sanitizer sees each of them. */
#define get_unaligned_le16(p)		(((const u8 *)(p))[0] | ((const u8 *)(p))[1] << 8)
#define get_unaligned_le32(p)						\
	(get_unaligned_le16(p) | (u32)get_unaligned_le16((const u8 *)(p) + 2) << 16)
#define get_unaligned_le64(p)						\
	(get_unaligned_le32(p) | (u64)get_unaligned_le32((const u8 *)(p) + 4) << 32)
#define sort(base, nr, size, compare, swap) qsort(base, nr, size, compare)
#define EINTR				4
#define EAGAIN				11
#define EFAULT				14
#define EINVAL				22
#define ENODATA				61
#define ETIMEDOUT			110
#define EOPNOTSUPP			95

#define DECLARE_PER_CPU(type, name)	extern typeof(type) name
#define this_cpu_add(var, n)		((var) += (n))

/* Segments, system calls and signal frames of the ABI. */
#define __USER32_CS			0x23
#define __USER_DS			0x2b
#define __USER_CS			0x33
#define SEGMENT_TI_MASK			4
#define GDT_ENTRY_TLS_MIN		12
#define GDT_ENTRY_TLS_MAX		14
#define X86_VM_MASK			0x20000
#define __X32_SYSCALL_BIT		0x40000000
#define __NR_rt_sigreturn		15
#define __NR_ia32_sigreturn		119
#define __NR_ia32_rt_sigreturn		173

#define stack_t				struct sim_stack
struct sim_stack { void *sp; int flags; size_t size; };
typedef struct { u32 sp; int flags; u32 size; } compat_stack_t;
typedef struct { u32 sig[2]; } compat_sigset_t;
typedef struct { u32 pad[32]; } compat_siginfo_t;
struct siginfo { u64 pad[16]; };

/* A broken rule crashes the program, which the fuzzer and the replay notice. */
#define sim_rule(cond, ...)						\
do {									\
	if (!(cond)) {							\
		fprintf(stderr, "broken rule: " __VA_ARGS__);		\
		fputc('\n', stderr);					\
		abort();						\
	}								\
} while (0)

/* The task */

#define TASK_SIZE_MAX			0x7ffffffff000UL
#define PF_EXITING			4
#define SIGNAL_GROUP_EXIT		4

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct arch_uprobe { u8 insn[16]; };

struct return_instance {
	unsigned long		func;
	unsigned long		stack;
	unsigned long		orig_ret_vaddr;
	bool			chained;
	struct return_instance	*next;
};

struct uprobe_task {
	struct arch_uprobe	*auprobe;
	struct return_instance	*return_instances;
	unsigned int		depth;
};

struct maple_tree { bool unused; };

#define MMF_HAS_UPROBES			19

struct mm_struct {
	unsigned long		flags;
	struct maple_tree	mm_mt;
	struct sim_seqcount { unsigned int sequence; } mm_lock_seq;
	struct {
		void				*vdso;
		const struct vdso_image		*vdso_image;
	} context;
};

struct vdso_image {
	void			*data;
	unsigned long		size;
};

extern struct vdso_image vdso_image_64;

struct signal_struct {
	unsigned int		flags;
	struct task_struct	*group_exec_task;
};

struct task_struct {
	unsigned int		flags;
	bool			in_execve;
	struct mm_struct	*mm;
	struct uprobe_task	*utask;
	struct signal_struct	*signal;
};

extern struct task_struct sim_task;
extern struct pt_regs sim_regs;

#define current				(&sim_task)
#define task_pt_regs(task)		((void)(task), &sim_regs)
#define user_mode(regs)			(((regs)->cs & 3) == 3)
#define user_64bit_mode(regs)		((regs)->cs == __USER_CS)
#define is_user_task(task)		(!!(task)->mm)

bool sim_fatal_signal(void);
void sim_resched(void);
unsigned long get_segment_base(unsigned int segment);
unsigned long uprobe_get_trampoline_vaddr(void);

#define fatal_signal_pending(task)	((void)(task), sim_fatal_signal())
#define cond_resched()			sim_resched()

/* User memory */

enum sim_read { SIM_CALL, SIM_WINDOW };

size_t sim_read(void *dst, unsigned long addr, size_t size, enum sim_read how);
void sim_window_open(unsigned long addr, size_t size, bool masked);
void sim_window_close(void);
bool sim_can_mask(void);
unsigned long sim_mask(unsigned long addr);
void sim_pagefault(int change);
bool pagefault_disabled(void);

/* A page that is never mapped separates the last user address from the rest. */
#define access_ok(addr, size)						\
	((void)(size), (unsigned long)(addr) <= TASK_SIZE_MAX)
#define get_user(x, ptr)						\
({									\
	u64 __val = 0;							\
	bool __bad = !access_ok(ptr, sizeof(*(ptr))) ||			\
		     sim_read(&__val, (unsigned long)(ptr), sizeof(*(ptr)), SIM_CALL); \
	(x) = __bad ? 0 : __val;					\
	__bad ? -EFAULT : 0;						\
})

/* Replaces the assembly. */
static inline unsigned long arch_unwind_user_load(unsigned long addr, unsigned int ws)
{
	unsigned long word = 0;

	return sim_read(&word, addr, ws, SIM_WINDOW) ? -EFAULT : word;
}

#define arch_unwind_user_load arch_unwind_user_load

static inline size_t copy_from_user(void *dst, const void *src, size_t size)
{
	return access_ok(src, size) ?
		sim_read(dst, (unsigned long)src, size, SIM_CALL) : size;
}

#define user_read_access_begin(ptr, size)				\
	(access_ok(ptr, size) &&					\
	 (sim_window_open((unsigned long)(ptr), size, false), true))
#define user_read_access_end()		sim_window_close()
#define can_do_masked_user_access()	sim_can_mask()
#define masked_user_access_begin(ptr)					\
	(sim_window_open(0, 0, true), (void *)sim_mask((unsigned long)(ptr)))
#define pagefault_disable()		sim_pagefault(1)
#define pagefault_enable()		sim_pagefault(-1)

/* Mappings and locks. A mapping that was looked up lives as long as the lock. */

#define VM_READ				1UL
#define VM_WRITE			2UL
#define VM_EXEC				4UL
#define VM_MAYSHARE			0x80UL
#define VM_LOCKED			0x2000UL

struct vm_area_struct {
	unsigned long		vm_start;
	unsigned long		vm_end;
	unsigned long		vm_flags;
	unsigned long		vm_pgoff;
	struct mm_struct	*vm_mm;
	struct file		*vm_file;
};

enum sim_lock { SIM_RCU, SIM_MMAP, SIM_VMA, SIM_IRQ, SIM_LOCKS };

bool sim_lock(enum sim_lock lock, bool may_wait);
void sim_unlock(enum sim_lock lock);
struct vm_area_struct *sim_vma(unsigned long addr);
struct vm_area_struct *sim_vma_range(unsigned long addr, unsigned long *first,
				     unsigned long *last);
struct vm_area_struct *sim_lock_vma(unsigned long addr);
bool sim_raced(void);

#define rcu_read_lock()			((void)sim_lock(SIM_RCU, false))
#define rcu_read_unlock()		sim_unlock(SIM_RCU)
#define mmap_read_trylock(mm)		((void)(mm), sim_lock(SIM_MMAP, false))
#define mmap_read_lock_killable(mm)	((void)(mm), sim_lock(SIM_MMAP, true) ? 0 : -EINTR)
#define mmap_read_unlock(mm)		((void)(mm), sim_unlock(SIM_MMAP))
#define vma_lookup(mm, addr)		((void)(mm), sim_vma(addr))
#define lock_vma_under_rcu(mm, addr)	((void)(mm), sim_lock_vma(addr))
#define vma_end_read(vma)		((void)(vma), sim_unlock(SIM_VMA))

struct ma_state {
	struct maple_tree	*tree;
	unsigned long		index;
	unsigned long		last;
};

#define MA_STATE(name, mt, first, end)					\
	struct ma_state name = { .tree = (mt), .index = (first), .last = (end) }

static inline void *mas_walk(struct ma_state *mas)
{
	return sim_vma_range(mas->index, &mas->index, &mas->last);
}

/* A single thread needs no ordering. */
#define smp_load_acquire(p)		READ_ONCE(*(p))
#define read_seqcount_retry(s, start)	(READ_ONCE((s)->sequence) != (start) || sim_raced())

#include <linux/cleanup.h>

/* Files and their objects */

struct file;

struct file *sim_get_file(struct file *file);
void sim_put_file(struct file *file);
bool sim_in_rcu(void);
long sim_epoch(const long *epoch);

#define get_file(file)			sim_get_file(file)
#define fput(file)			sim_put_file(file)

#define ERR_PTR(error)			((void *)(long)(error))
#define IS_ERR(ptr)			((unsigned long)(ptr) >= -4095UL)

DEFINE_FREE(fput, struct file *, !_T || IS_ERR(_T) ? (void)0 : fput(_T))

#define atomic_long_t			struct sim_atomic_long
struct sim_atomic_long { long counter; };
typedef struct { int counter; } atomic_t;
struct hlist_node { struct hlist_node *next, **pprev; };
struct list_head { struct list_head *next, *prev; };
struct rcu_head { void *unused; };
struct timespec64 { s64 tv_sec; long tv_nsec; };
#define kuid_t				u32

#define atomic_long_read(v)		sim_epoch(&(v)->counter)
#define atomic_read(v)			READ_ONCE((v)->counter)
#define atomic_read_acquire(v)		atomic_read(v)
#define rcu_read_lock_held()		sim_in_rcu()
#define RCU_LOCKDEP_WARN(cond, text)	sim_rule(!(cond), text)

DEFINE_LOCK_GUARD_0(rcu, rcu_read_lock(), rcu_read_unlock())
DEFINE_LOCK_GUARD_0(irqsave, sim_lock(SIM_IRQ, false), sim_unlock(SIM_IRQ))

#endif /* _UNWIND_FUZZ_SIM_H */
