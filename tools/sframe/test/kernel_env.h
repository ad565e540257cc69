/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parts of the kernel that its decoder uses, in user space.
 */
#ifndef _SFRAME_TEST_KERNEL_ENV_H
#define _SFRAME_TEST_KERNEL_ENV_H

#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

/* The SFrame part of asm/unwind_user.h, without the code that reads user memory or registers. */
#define CONFIG_UNWIND_USER
#define CONFIG_UNWIND_USER_SFRAME
#define arch_unwind_user_load arch_unwind_user_load
#define arch_unwind_user_set arch_unwind_user_set

/* Its code for segments compiles with these; nothing here calls it. */
#define __USER32_CS		0x23
#define __USER_DS		0x2b
#define SEGMENT_TI_MASK		4
#define GDT_ENTRY_TLS_MIN	12
#define GDT_ENTRY_TLS_MAX	14
#define guard(lock)		guard_##lock

#define __packed		__attribute__((packed))
#define static_assert(cond)	_Static_assert(cond, #cond)
#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define likely(x)		(x)
#define unlikely(x)		(x)
#define BIT(nr)			(1UL << (nr))
#define BIT_ULL(nr)		(1ULL << (nr))
#define GENMASK(h, l)		((~0UL << (l)) & (~0UL >> (63 - (h))))
#define U32_MAX			UINT32_MAX
#define U64_MAX			UINT64_MAX
#define min(a, b)		((a) < (b) ? (a) : (b))
#define round_up(x, a)		((((x) - 1) | ((typeof(x))(a) - 1)) + 1)
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define struct_size(p, member, n) offsetof(typeof(*(p)), member[n])
#define sort(base, nr, size, compare, swap) qsort(base, nr, size, compare)
#define cond_resched()		do { } while (0)
#define fatal_signal_pending(task) false

static inline void guard_irqsave(void)
{
}

static inline u64 get_unaligned(const void *p, unsigned int size)
{
	u64 val = 0;

	memcpy(&val, p, size);
	return val;
}

#define get_unaligned_le16(p)	((u16)get_unaligned(p, 2))
#define get_unaligned_le32(p)	((u32)get_unaligned(p, 4))
#define get_unaligned_le64(p)	get_unaligned(p, 8)

#endif /* _SFRAME_TEST_KERNEL_ENV_H */
