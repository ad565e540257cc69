// SPDX-License-Identifier: GPL-2.0
/*
 * Freestanding workload: call chains through frames of different shapes, none with a frame
 * pointer unless the shape needs one. Every chain is _start -> top -> ... -> leaf; the leaf
 * spins so that a sampler hits it, or makes one system call. argv[1]: number of rounds (0
 * or absent: 200).
 */
typedef unsigned long ulong;
#define NOINLINE __attribute__((noinline, noclone))
#define BARRIER() __asm__ volatile("" ::: "memory")

static long sys(long nr, long a, long b, long c)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return r;
}

volatile ulong sink;

NOINLINE ulong leaf_spin(ulong n)
{
	for (ulong i = 0; i < n; i++) {
		sink += i;
		BARRIER();
	}
	return sink;
}

NOINLINE ulong leaf_syscall(ulong n)
{
	ulong r = 0;

	for (ulong i = 0; i < n; i++)
		r += sys(110, 0, 0, 0);		/* getppid */
	BARRIER();
	return r;
}

/* many callee-saved registers pushed, rbp used as a general register */
NOINLINE ulong callee_saved(ulong a, ulong b, ulong c, ulong d, ulong e, ulong f)
{
	ulong x = leaf_spin(a & 1023), y = leaf_spin(b & 1023), z = leaf_spin(c & 1023);
	ulong w = leaf_spin(d & 1023), v = leaf_spin(e & 1023), u = leaf_syscall(f & 3);

	BARRIER();
	return x ^ y ^ z ^ w ^ v ^ u ^ a ^ b ^ c ^ d ^ e ^ f;
}

/* large fixed frame */
NOINLINE ulong big_frame(ulong n)
{
	volatile char buf[5000];

	buf[n % sizeof(buf)] = (char)n;
	n += callee_saved(n, n + 1, n + 2, n + 3, n + 4, n + 5);
	BARRIER();
	return n + buf[n % sizeof(buf)];
}

/* variable frame: the compiler uses rbp as the frame base */
NOINLINE ulong var_frame(ulong n)
{
	volatile char *p = __builtin_alloca(16 + (n & 255));

	p[0] = (char)n;
	n += big_frame(n);
	BARRIER();
	return n + p[0];
}

/* realigned stack with a variable frame: DRAP, CFA = *(rbp - 8) */
NOINLINE ulong realigned(ulong n)
{
	volatile char v[64] __attribute__((aligned(64)));
	volatile char *p = __builtin_alloca(16 + (n & 63));

	v[n & 63] = 1;
	p[0] = 2;
	n += var_frame(n);
	BARRIER();
	return n + v[1] + p[0];
}

/* early return before the prologue is done, shrink-wrapped body */
NOINLINE ulong shrink_wrapped(ulong n)
{
	if (__builtin_expect(n == ~0UL, 0))
		return 0;
	n += realigned(n) + leaf_spin(n & 127);
	BARRIER();
	return n;
}

/* recursion to a known depth */
NOINLINE ulong recurse(ulong depth, ulong n)
{
	ulong r = depth ? recurse(depth - 1, n) : shrink_wrapped(n);

	BARRIER();
	return r + 1;
}

NOINLINE ulong top(ulong rounds)
{
	ulong r = 0;

	for (ulong i = 0; i < rounds; i++)
		r += recurse(i % 40, i);
	return r;
}

__attribute__((used)) void start_c(ulong *sp)
{
	ulong n = 0;

	if (sp[0] > 1)
		for (char *s = (char *)sp[2]; *s >= '0' && *s <= '9'; s++)
			n = n * 10 + (*s - '0');
	top(n ? n : 200);
	sys(231, 0, 0, 0);			/* exit_group */
	__builtin_unreachable();
}

__asm__(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined rip\n"
	"xor %ebp,%ebp\nmov %rsp,%rdi\nand $-16,%rsp\ncall start_c\nhlt\n.cfi_endproc\n.size _start,.-_start\n");
