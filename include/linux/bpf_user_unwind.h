/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred user stacks for BPF programs, see kernel/bpf/user_unwind.c.
 */
#ifndef _LINUX_BPF_USER_UNWIND_H
#define _LINUX_BPF_USER_UNWIND_H

#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>
#include <uapi/linux/bpf.h>

struct bpf_func_proto;
struct bpf_map;
struct bpf_prog;
struct bpf_reg_state;
struct bpf_stack_build_id;
struct bpf_verifier_env;
struct btf;
struct perf_event;
struct pt_regs;
struct task_struct;
struct unwind_stacktrace;

#if defined(CONFIG_UNWIND_USER) && defined(CONFIG_BPF_EVENTS)

int bpf_user_unwind_check_flags(struct bpf_verifier_env *env,
				const struct bpf_reg_state *flags);
int bpf_user_unwind_check_kfunc(struct bpf_verifier_env *env, const struct btf *btf,
				u32 func_id);
void bpf_user_unwind_put(struct bpf_prog *prog);
void bpf_user_unwind_attached(const struct bpf_prog *prog);
void bpf_user_unwind_enabled(const struct perf_event *event);
bool bpf_user_unwind_overlaps(const struct bpf_prog *prog);
void bpf_user_unwind_walk(u64 flags);
long bpf_user_unwind_get_stack(struct pt_regs *regs, struct task_struct *task, void *buf,
			       u32 size, u64 flags);
bool bpf_user_build_ids(struct bpf_stack_build_id *ids, u32 nr);
void bpf_user_read_build_ids(const struct bpf_map *map, u64 flags);
bool bpf_user_unwind_may_sleep(void);

/* For programs to call and to attach to. */
int bpf_user_unwind_request(u64 *cookie);
int bpf_user_unwind_deliver(u64 cookie, const struct unwind_stacktrace *trace);

/* The helpers in kernel/trace/bpf_trace.c and kernel/bpf/stackmap.c. */
u64 bpf_get_stack_raw_tp(u64 args, u64 buf, u64 size, u64 flags, u64 unused);
u64 bpf_get_stack_sleepable(u64 regs, u64 buf, u64 size, u64 flags, u64 unused);
u64 bpf_get_stackid(u64 regs, u64 map, u64 flags, u64 unused, u64 unused2);
u64 bpf_get_stackid_raw_tp(u64 args, u64 map, u64 flags, u64 unused, u64 unused2);

const struct bpf_func_proto *bpf_user_unwind_func_proto(enum bpf_func_id func_id);

extern const struct bpf_func_proto bpf_get_stackid_sleepable_proto;

#else

static inline int bpf_user_unwind_check_flags(struct bpf_verifier_env *env,
					      const struct bpf_reg_state *flags)
{
	return 0;
}

static inline int bpf_user_unwind_check_kfunc(struct bpf_verifier_env *env,
					      const struct btf *btf, u32 func_id)
{
	return 0;
}

static inline void bpf_user_unwind_put(struct bpf_prog *prog) { }
static inline void bpf_user_unwind_attached(const struct bpf_prog *prog) { }
static inline void bpf_user_unwind_enabled(const struct perf_event *event) { }
static inline bool bpf_user_unwind_overlaps(const struct bpf_prog *prog) { return false; }
static inline void bpf_user_unwind_walk(u64 flags) { }

static inline long bpf_user_unwind_get_stack(struct pt_regs *regs, struct task_struct *task,
					     void *buf, u32 size, u64 flags)
{
	memset(buf, 0, size);
	return -EINVAL;
}

static inline bool bpf_user_build_ids(struct bpf_stack_build_id *ids, u32 nr)
{
	return false;
}

/* The plain helper, without the walk. */
#define bpf_get_stackid_sleepable_proto bpf_get_stackid_proto

static inline const struct bpf_func_proto *
bpf_user_unwind_func_proto(enum bpf_func_id func_id)
{
	return NULL;
}

#endif
#endif /* _LINUX_BPF_USER_UNWIND_H */
