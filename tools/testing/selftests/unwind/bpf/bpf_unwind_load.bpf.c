// SPDX-License-Identifier: GPL-2.0
/*
 * BPF programs that test the verifier: some hold a tracer, some are rejected.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define __imm(name)	\
	[name] "i"(name)
#define ASKING	(BPF_F_USER_STACK | BPF_F_USER_DEFERRED)

extern int bpf_user_unwind_request(__u64 *cookie) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} array SEC(".maps");

/* Not known to the verifier. */
__u64 any;

static __always_inline int by_function(void)
{
	__u64 cookie;

	bpf_user_unwind_request(&cookie);
	return 0;
}

static __always_inline int by_flag(void *ctx, __u64 flags)
{
	__u64 part[2];

	bpf_get_stack(ctx, part, sizeof(part), flags);
	return 0;
}

/* Program types that may not call the function, */
SEC("?raw_tp/sys_enter")
int function_in_raw_tp(void *ctx)
{
	return by_function();
}

SEC("?xdp")
int function_in_xdp(void *ctx)
{
	return by_function();
}

SEC("?socket")
int function_in_socket(void *ctx)
{
	return by_function();
}

SEC("?tc")
int function_in_tc(void *ctx)
{
	return by_function();
}

SEC("?syscall")
int function_in_syscall(void *ctx)
{
	return by_function();
}

/* ... and types without the helper. */
SEC("?xdp")
int flag_in_xdp(void *ctx)
{
	return by_flag(ctx, ASKING);
}

SEC("?socket")
int flag_in_socket(void *ctx)
{
	return by_flag(ctx, ASKING);
}

SEC("?tc")
int flag_in_tc(void *ctx)
{
	return by_flag(ctx, ASKING);
}

SEC("?sk_msg")
int flag_in_sk_msg(void *ctx)
{
	return by_flag(ctx, ASKING);
}

/* Invalid flags. */
SEC("?raw_tp/sys_enter")
int flag_alone(void *ctx)
{
	return by_flag(ctx, BPF_F_USER_DEFERRED);
}

SEC("?raw_tp/sys_enter")
int flag_with_build_id(void *ctx)
{
	return by_flag(ctx, ASKING | BPF_F_USER_BUILD_ID);
}

SEC("?perf_event")
int flag_with_skip(void *ctx)
{
	return by_flag(ctx, ASKING | 1);
}

SEC("?kprobe")
int flag_with_unknown_flag(void *ctx)
{
	return by_flag(ctx, ASKING | 1ULL << 40);
}

SEC("?fentry/__x64_sys_getpgid")
int no_cookie(void *ctx)
{
	bpf_user_unwind_request(NULL);
	return 0;
}

/* The argument may be NULL. */
SEC("?fentry/__x64_sys_getpgid")
int perhaps_no_cookie(void *ctx)
{
	__u32 key = any;

	bpf_user_unwind_request(bpf_map_lookup_elem(&array, &key));
	return 0;
}

SEC("?raw_tp/sys_enter")
int wrong_map(void *ctx)
{
	return bpf_get_stackid(ctx, &array, BPF_F_USER_STACK);
}

/* Requests, and then reads an uninitialized register. */
SEC("?raw_tp/sys_enter")
int asks_and_is_wrong(void *ctx)
{
	by_flag(ctx, ASKING);
	asm volatile ("r0 = *(u64 *)(r9 + 0);" ::: "r0", "memory");
	return 0;
}

/* Programs that hold a tracer. */
SEC("?tp_btf/sys_enter")
int holds_by_function(void *ctx)
{
	return by_function();
}

SEC("?raw_tp/sys_enter")
int holds_by_flag(void *ctx)
{
	return by_flag(ctx, ASKING);
}

SEC("?syscall")
int holds_in_syscall(void *ctx)
{
	return by_flag(ctx, ASKING);
}

SEC("?raw_tp/sys_enter")
int holds_by_any_flags(void *ctx)
{
	return by_flag(ctx, any);
}

/* A mask may let the flag through. */
SEC("?raw_tp/sys_enter")
int holds_by_masked_flags(void *ctx)
{
	return by_flag(ctx, (any & BPF_F_USER_DEFERRED) | BPF_F_USER_STACK);
}

/*
 * The value of one branch requests. The other one, which the verifier checks first, does
 * not. At the call both states are equal unless the value is compared.
 */
SEC("?raw_tp/sys_enter")
__attribute__((naked)) int holds_by_one_branch(void)
{
	asm volatile (
	"r6 = r1;"
	"r4 = %[any] ll;"
	"r0 = *(u64 *)(r4 + 0);"
	"r7 = %[asking] ll;"
	"if r0 != 0 goto 1f;"
	"r7 = %[user];"
"1:	r1 = r6;"
	"r2 = r10;"
	"r2 += -16;"
	"r3 = 16;"
	"r4 = r7;"
	"call %[bpf_get_stack];"
	"r0 = 0;"
	"exit;"
	:: __imm(bpf_get_stack), [any]"i"(&any), [asking]"i"(ASKING),
	   [user]"i"(BPF_F_USER_STACK)
	: "memory");
}

/* The same with the branches swapped. */
SEC("?raw_tp/sys_enter")
__attribute__((naked)) int holds_by_other_branch(void)
{
	asm volatile (
	"r6 = r1;"
	"r4 = %[any] ll;"
	"r0 = *(u64 *)(r4 + 0);"
	"r7 = %[user];"
	"if r0 != 0 goto 1f;"
	"r7 = %[asking] ll;"
"1:	r1 = r6;"
	"r2 = r10;"
	"r2 += -16;"
	"r3 = 16;"
	"r4 = r7;"
	"call %[bpf_get_stack];"
	"r0 = 0;"
	"exit;"
	:: __imm(bpf_get_stack), [any]"i"(&any), [asking]"i"(ASKING),
	   [user]"i"(BPF_F_USER_STACK)
	: "memory");
}

/* Flags that come from another function. */
static __attribute__((noinline)) long helped(void *ctx, __u64 flags)
{
	__u64 part[2];

	return bpf_get_stack(ctx, part, sizeof(part), flags);
}

SEC("?raw_tp/sys_enter")
int holds_by_call(void *ctx)
{
	return helped(ctx, BPF_F_USER_STACK) + helped(ctx, ASKING) > 0;
}

/* Programs that hold none. */
SEC("?raw_tp/sys_enter")
int holds_nothing(void *ctx)
{
	return by_flag(ctx, BPF_F_USER_STACK);
}

SEC("?raw_tp/sys_enter")
int holds_nothing_by_mask(void *ctx)
{
	return by_flag(ctx, (any & BPF_F_SKIP_FIELD_MASK) | BPF_F_USER_STACK);
}

/* Code that is never run. */
SEC("?raw_tp/sys_enter")
__attribute__((naked)) int holds_nothing_dead(void)
{
	asm volatile (
	"r6 = r1;"
	"r7 = %[user];"
	"r0 = 0;"
	"if r0 == 0 goto 1f;"
	"r7 = %[asking] ll;"
"1:	r1 = r6;"
	"r2 = r10;"
	"r2 += -16;"
	"r3 = 16;"
	"r4 = r7;"
	"call %[bpf_get_stack];"
	"r0 = 0;"
	"exit;"
	:: __imm(bpf_get_stack), [asking]"i"(ASKING), [user]"i"(BPF_F_USER_STACK)
	: "memory");
}

SEC("?fentry.s/bpf_user_unwind_deliver")
int holds_nothing_delivery(void *ctx)
{
	return 0;
}
