// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers of detached events that are inherited. Each task has its own, in shared memory: it is in
 * RAM while its task runs, and may be swapped out otherwise.
 *
 * A group of events, one that was detached and those inherited from it, has a slot on each CPU. A
 * buffer gets there, and its pages are pinned, before its task returns to user mode on that CPU, or
 * the kernel writes a record of the task where it may sleep. It stays there when the task leaves
 * the CPU, until a buffer of another task takes its place. So no more buffers of a group are pinned
 * than there are CPUs, and a task that finds its buffer in the slot again costs next to nothing.
 * Such events take no samples of kernel code, so samples are not lost before that. A record that
 * the kernel writes where it may not sleep, or just after the task was preempted, is lost if the
 * buffer is not in the slot; it is counted.
 *
 * Contexts: pins in the task, where it may sleep; uses with preemption disabled, also in NMI.
 * Locks: perf_shmem_slot::mutex, inside of it perf_shmem::mutex, and inside of that those of shmem.
 * mmap_lock is outside of them all.
 *
 * Invariant: perf_buffer::user_page and ::data_pages are used only with preemption disabled, on a
 * CPU whose slot has the buffer, see rb_usable(). A slot has one pin of the pages and one reference
 * on the buffer. A CPU's own task takes a buffer from the slot while nothing on that CPU can be
 * amid a use; others wait for a grace period before they unpin the pages.
 */
#include <linux/atomic.h>
#include <linux/cleanup.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/security.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/task_work.h>
#include <linux/workqueue.h>

#include "detached.h"
#include "internal.h"

/* How often to try to pin what the next task on the CPU may take away. */
#define PERF_SHMEM_TRIES	64

/* Groups whose events are inherited. */
atomic_t perf_shmem_groups;

/* Without huge pages, whatever others have: each buffer would pin one. */
static struct vfsmount *perf_shmem_mount __ro_after_init;

/**
 * struct perf_shmem - the pages of a buffer in shared memory
 * @rb:		the buffer
 * @file:	its pages: the user page, and the data
 * @group:	whose slots it gets to
 * @mutex:	protects @pins, and the addresses of the pages while there are none
 * @pins:	how many need the pages in RAM
 * @leave:	drops what @left slots had, after a grace period
 * @left:	see @leave
 */
struct perf_shmem {
	struct perf_buffer		*rb;
	struct file			*file;
	struct perf_detached_group	*group;
	struct mutex			mutex;	/* of @pins and the addresses */
	unsigned int			pins;
	struct rcu_work			leave;
	unsigned int			left;
};

/**
 * perf_shmem_usable - may the pages of a buffer be used here and now?
 * @rb:		the buffer, which is in shared memory
 *
 * Context: any, with preemption disabled, and until it is enabled.
 * Return: true if they may.
 */
bool perf_shmem_usable(const struct perf_buffer *rb)
{
	WARN_ON_ONCE(preemptible());
	/* Pairs with shmem_pin() in a task of this CPU, and perf_shmem_leave() in any task. */
	return READ_ONCE(this_cpu_ptr(rb->shmem->group->slots)->rb) == rb;
}

static void *shmem_page(struct perf_buffer *rb, unsigned int index)
{
	return index ? rb->data_pages[index - 1] : rb->user_page;
}

static void shmem_set_page(struct perf_buffer *rb, unsigned int index, void *addr)
{
	if (index)
		rb->data_pages[index - 1] = addr;
	else
		rb->user_page = addr;
}

/*
 * A page with a reference, or an ERR_PTR(). Lack of memory is an error, and kills nobody; a task
 * that was killed for it gets no reserves, as its end would not free the page.
 */
static struct page *shmem_get_page(struct perf_buffer *rb, unsigned int index)
{
	struct address_space *mapping = rb->shmem->file->f_mapping;

	return shmem_read_mapping_page_gfp(mapping, index, mapping_gfp_mask(mapping) |
					   __GFP_RETRY_MAYFAIL | __GFP_NOWARN |
					   __GFP_NOMEMALLOC);
}

static void shmem_put_page(struct page *page)
{
	set_page_dirty(page);
	put_page(page);
}

/* Unpin the first @nr pages. */
static void shmem_put_pages(struct perf_buffer *rb, unsigned int nr)
{
	while (nr--) {
		shmem_put_page(virt_to_page(shmem_page(rb, nr)));
		shmem_set_page(rb, nr, NULL);
	}
}

static int shmem_get_pages(struct perf_buffer *rb)
{
	for (unsigned int i = 0; i <= rb->nr_pages; i++) {
		struct page *page = shmem_get_page(rb, i);

		if (IS_ERR(page)) {
			shmem_put_pages(rb, i);
			return PTR_ERR(page);
		}
		shmem_set_page(rb, i, page_address(page));
	}
	return 0;
}

/* Need the pages in RAM. */
static int shmem_hold(struct perf_buffer *rb)
{
	struct perf_shmem *shmem = rb->shmem;
	int ret = 0;

	guard(mutex)(&shmem->mutex);
	if (!shmem->pins)
		ret = shmem_get_pages(rb);
	if (!ret)
		shmem->pins++;
	return ret;
}

/* Undo shmem_hold(). */
static void shmem_drop(struct perf_buffer *rb)
{
	struct perf_shmem *shmem = rb->shmem;

	guard(mutex)(&shmem->mutex);
	if (!--shmem->pins)
		shmem_put_pages(rb, 1 + rb->nr_pages);
}

/* Let a CPU's slot have no buffer, in a task on that CPU. */
static void shmem_empty(struct perf_shmem_slot *slot)
{
	struct perf_buffer *rb = xchg(&slot->rb, NULL);

	lockdep_assert_held(&slot->mutex);
	if (!rb)
		return;
	atomic64_inc(&rb->shmem->group->unpins);
	shmem_drop(rb);
	ring_buffer_put(rb);
}

/*
 * Put a buffer into this CPU's slot, if its event counts here; with its pin and its reference.
 * Returns false if it does not.
 */
static bool shmem_to_slot(struct perf_event *event, struct perf_shmem_slot *slot,
			  struct perf_buffer *rb)
{
	/* So that the event stays on this CPU, or not. */
	guard(irq)();
	/* If it does not now, it asks again when it does. */
	event->detached->pinning = false;
	if (event->state != PERF_EVENT_STATE_ACTIVE || event->oncpu != smp_processor_id())
		return false;
	WRITE_ONCE(slot->rb, rb);
	/* As all who update the page, so that the PMU's interrupt does not amid this. */
	perf_pmu_disable(event->pmu);
	perf_event_update_userpage(event);
	perf_pmu_enable(event->pmu);
	return true;
}

/* Pin a buffer in the slot of the task's CPU, which takes over the reference if it returns true. */
static bool shmem_pin(struct perf_event *event, struct perf_shmem_slot *slot,
		      struct perf_buffer *rb)
{
	struct perf_detached_group *group = rb->shmem->group;

	/* Tasks on one CPU take turns, so that the group has no more pages than its slots. */
	guard(mutex)(&slot->mutex);
	if (READ_ONCE(slot->rb) == rb)
		return false;
	/* Its PMU may have had no room for it. When it counts, it asks again. */
	if (READ_ONCE(event->state) != PERF_EVENT_STATE_ACTIVE)
		return false;
	/* Until then, the buffer is not in the slot, each time that the task runs again. */
	WRITE_ONCE(event->detached->pinning, true);
	shmem_empty(slot);
	if (shmem_hold(rb)) {
		atomic64_inc(&group->pin_failures);
		WRITE_ONCE(event->detached->pinning, false);
		return false;
	}
	if (!shmem_to_slot(event, slot, rb)) {
		shmem_drop(rb);
		return false;
	}
	atomic64_inc(&group->pins);
	return true;
}

/**
 * perf_shmem_pin - let the buffer of an event be written on this CPU
 * @event:	an event of current
 *
 * Context: in current, where it may sleep.
 */
void perf_shmem_pin(struct perf_event *event)
{
	struct perf_buffer *rb;

	might_sleep();
	/* An oops amid this, after which the task exits. */
	if (event->detached->pinning)
		return;
	/* Interrupts of this CPU may let the event count, and set it once more. */
	WRITE_ONCE(event->detached->pin_wanted, false);
	rb = ring_buffer_get(event);
	if (!rb)
		return;
	guard(migrate)();
	if (!shmem_pin(event, this_cpu_ptr(rb->shmem->group->slots), rb))
		ring_buffer_put(rb);
}

/**
 * perf_shmem_sched_in - an event with a buffer in shared memory is about to count
 * @event:	an event of current
 *
 * Context: interrupts are off, ctx->lock is held.
 */
void perf_shmem_sched_in(struct perf_event *event)
{
	struct perf_detached *detached = event->detached;
	struct perf_buffer *rb;

	lockdep_assert_irqs_disabled();
	/* rcu_dereference(), but the base does not declare it as __rcu; likewise below. */
	rb = READ_ONCE(event->rb);
	if (!rb) {
		/* After event->state. Pairs with detached_detach(): one sees the other's. */
		smp_mb();
		rb = READ_ONCE(event->rb);
	}
	if (rb ? perf_shmem_usable(rb) : !detached->newborn)
		return;
	if (detached->pinning)
		return;
	WRITE_ONCE(detached->pin_wanted, true);
	if (detached->pin_queued)
		return;
	detached->pin_queued = true;
	/* The context has a reference as well. */
	atomic_long_inc(&event->refcount);
	if (!task_work_add(current, &detached->pin, TWA_RESUME | TWAF_NO_ALLOC))
		return;
	/* It exits, and does not return to user mode. */
	atomic_long_dec(&event->refcount);
	detached->pin_queued = false;
}

/* An event of current that has to be pinned, with a reference; or NULL. */
static struct perf_event *shmem_wanted(void)
{
	struct perf_event_context *ctx;
	struct perf_event *event;

	guard(rcu)();
	ctx = READ_ONCE(current->perf_event_ctxp);
	if (!ctx)
		return NULL;
	list_for_each_entry_rcu(event, &ctx->event_list, event_entry) {
		const struct perf_detached *detached = READ_ONCE(event->detached);

		if (detached && READ_ONCE(detached->pin_wanted) &&
		    atomic_long_inc_not_zero(&event->refcount))
			return event;
	}
	return NULL;
}

/* Some events need locks to be freed that the caller may hold, or that are outside of its locks. */
static void shmem_put_event(struct perf_event *event)
{
	if (!atomic_long_add_unless(&event->refcount, -1, 1))
		perf_detached_queue(&event->detached->put);
}

/**
 * perf_shmem_settle - let the buffers of all events of current be written on this CPU
 *
 * For those that have one: others get it at the next return to user mode.
 *
 * Context: in current, where it may sleep. The caller may hold mmap_lock.
 */
void perf_shmem_settle(void)
{
	struct perf_event *event;

	might_sleep();
	/* If it is preempted all the time, records are lost. */
	for (int i = 0; i < PERF_SHMEM_TRIES; i++) {
		event = shmem_wanted();
		if (!event)
			break;
		perf_shmem_pin(event);
		shmem_put_event(event);
	}
}

/**
 * perf_shmem_settle_irq - likewise, and let nothing change that
 *
 * Context: as above; returns with interrupts off.
 */
void perf_shmem_settle_irq(void)
{
	struct perf_event *event;

	for (int i = 0; i < PERF_SHMEM_TRIES; i++) {
		perf_shmem_settle();
		local_irq_disable();
		event = shmem_wanted();
		if (!event)
			return;
		shmem_put_event(event);
		local_irq_enable();
	}
	local_irq_disable();
}

/* Drop what slots had that were taken away from a buffer. */
static void shmem_leave_work(struct work_struct *work)
{
	struct perf_shmem *shmem = container_of(to_rcu_work(work), struct perf_shmem, leave);
	struct perf_buffer *rb = shmem->rb;

	/* The last reference is that of the last slot, or another one. */
	for (unsigned int left = shmem->left; left; left--) {
		shmem_drop(rb);
		ring_buffer_put(rb);
	}
}

/**
 * perf_shmem_leave - take a buffer from all slots
 * @rb:		the buffer, whose event is in no context any more
 *
 * Context: any in which a task may sleep, as the event leaves its context one by one.
 */
void perf_shmem_leave(struct perf_buffer *rb)
{
	struct perf_shmem *shmem = rb->shmem;
	unsigned int left = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct perf_shmem_slot *slot = per_cpu_ptr(shmem->group->slots, cpu);

		/* It comes to no slot any more, so those without it stay as they are. */
		if (READ_ONCE(slot->rb) == rb && cmpxchg(&slot->rb, rb, NULL) == rb)
			left++;
	}
	if (!left)
		return;
	atomic64_add(left, &shmem->group->unpins);
	shmem->left = left;
	/* Nothing comes to a slot again, so this is once. */
	WARN_ON_ONCE(!queue_rcu_work(system_unbound_wq, &shmem->leave));
}

/**
 * perf_shmem_publish - copy the information about an event to its user page
 * @rb:		its buffer
 * @info:	the information
 *
 * Readers see the state last. The page need not be in RAM.
 *
 * Context: process context, may sleep.
 * Return: 0, or an error if there is no memory for the page.
 */
int perf_shmem_publish(struct perf_buffer *rb, const struct perf_event_detached_info *info)
{
	struct perf_event_detached_info *to, copy = *info;
	struct page *page = shmem_get_page(rb, 0);

	if (IS_ERR(page))
		return PTR_ERR(page);
	to = page_address(page) + DETACHED_INFO_OFFSET;
	copy.state = to->state;
	*to = copy;
	/* Readers of the user page take the state first, and the rest after a barrier. */
	smp_store_release(&to->state, info->state);
	shmem_put_page(page);
	return 0;
}

/* What the user page tells before the buffer is in a slot for the first time. */
static int shmem_describe(struct perf_buffer *rb, const struct perf_event *event,
			  const struct perf_event_detached_info *info)
{
	struct perf_event_mmap_page *user_page;
	struct page *page = shmem_get_page(rb, 0);

	if (IS_ERR(page))
		return PTR_ERR(page);
	user_page = page_address(page);
	user_page->cap_bit0_is_deprecated = 1;
	user_page->size = offsetof(struct perf_event_mmap_page, __reserved);
	user_page->data_offset = PAGE_SIZE;
	user_page->data_size = perf_data_size(rb);
	perf_detached_init_page(user_page, event);
	shmem_put_page(page);
	return perf_shmem_publish(rb, info);
}

/* The pages of a buffer without any. The caller frees the buffer if that fails. */
static int shmem_add_pages(struct perf_buffer *rb, struct perf_detached_group *group)
{
	struct perf_shmem *shmem;
	struct file *file;

	/* It could not be mounted at boot. */
	if (!perf_shmem_mount)
		return -ENODEV;
	shmem = kzalloc(sizeof(*shmem), GFP_KERNEL_ACCOUNT);
	if (!shmem)
		return -ENOMEM;
	file = shmem_file_setup_with_mnt(perf_shmem_mount, "perf",
					 (1UL + rb->nr_pages) << PAGE_SHIFT, VM_NORESERVE);
	if (IS_ERR(file)) {
		kfree(shmem);
		/* So does shmem say that there is no memory for an inode. */
		return PTR_ERR(file) == -ENOSPC ? -ENOMEM : PTR_ERR(file);
	}
	file_inode(file)->i_flags |= S_PRIVATE;
	/* Faults of readers allocate pages, too: they have addresses, and may stay for long. */
	mapping_set_gfp_mask(file->f_mapping, GFP_USER);
	/* Only the kernel writes, whatever users do with a mapping, or by /proc/PID/map_files. */
	SHMEM_I(file_inode(file))->seals |= F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
					    F_SEAL_FUTURE_WRITE;
	shmem->rb = rb;
	shmem->file = file;
	shmem->group = perf_detached_group_get(group);
	mutex_init(&shmem->mutex);
	INIT_RCU_WORK(&shmem->leave, shmem_leave_work);
	rb->shmem = shmem;
	return 0;
}

/**
 * perf_shmem_alloc_slots - allocate the slots of a group
 *
 * Return: the slots or NULL.
 */
struct perf_shmem_slot __percpu *perf_shmem_alloc_slots(void)
{
	struct perf_shmem_slot __percpu *slots;
	int cpu;

	slots = alloc_percpu_gfp(struct perf_shmem_slot, GFP_KERNEL_ACCOUNT);
	if (!slots)
		return NULL;
	for_each_possible_cpu(cpu)
		mutex_init(&per_cpu_ptr(slots, cpu)->mutex);
	atomic_inc(&perf_shmem_groups);
	return slots;
}

/**
 * perf_shmem_free_slots - undo perf_shmem_alloc_slots()
 * @slots:	what that returned
 */
void perf_shmem_free_slots(struct perf_shmem_slot __percpu *slots)
{
	if (!slots)
		return;
	atomic_dec(&perf_shmem_groups);
	free_percpu(slots);
}

/**
 * perf_shmem_alloc - allocate a buffer in shared memory
 * @event:	for this event
 * @pages:	number of its pages
 * @group:	whose slots it will get to
 * @info:	about the event
 *
 * Context: process context, may sleep.
 * Return: the buffer, or an ERR_PTR().
 */
struct perf_buffer *perf_shmem_alloc(struct perf_event *event, unsigned int pages,
				     struct perf_detached_group *group,
				     const struct perf_event_detached_info *info)
{
	int flags = RING_BUFFER_SHMEM, ret;
	struct perf_buffer *rb;

	if (!event->attr.write_backward)
		flags |= RING_BUFFER_WRITABLE;
	rb = rb_alloc(pages, event->attr.watermark ? event->attr.wakeup_watermark : 0, -1, flags);
	if (!rb)
		return ERR_PTR(-ENOMEM);
	ret = shmem_add_pages(rb, group);
	if (ret) {
		/* It has no pages at all. */
		kfree(rb);
		return ERR_PTR(ret);
	}
	ret = shmem_describe(rb, event, info);
	if (ret) {
		rb_free(rb);
		return ERR_PTR(ret);
	}
	return rb;
}

/**
 * perf_shmem_free - free the pages of a buffer
 * @rb:		the buffer, which nothing uses any more
 *
 * Context: any.
 */
void perf_shmem_free(struct perf_buffer *rb)
{
	struct perf_shmem *shmem = rb->shmem;

	WARN_ON_ONCE(shmem->pins);
	fput(shmem->file);
	perf_detached_group_put(shmem->group);
	kfree(shmem);
}

/**
 * perf_shmem_mmap - map a buffer in shared memory
 * @event:	its event
 * @vma:	the mapping
 *
 * The mapping is one of the file, and does not pin pages.
 *
 * Return: 0; -EINVAL if it is not a shared mapping of all of the buffer, to be read only, or there
 * is no buffer; another error.
 */
int perf_shmem_mmap(struct perf_event *event, struct vm_area_struct *vma)
{
	struct perf_buffer *rb;
	int ret;

	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_WRITE))
		return -EINVAL;
	ret = security_perf_event_read(event);
	if (ret)
		return ret;
	rb = ring_buffer_get(event);
	if (!rb)
		return -EINVAL;
	ret = -EINVAL;
	if (!vma->vm_pgoff && vma_pages(vma) == 1UL + rb->nr_pages) {
		/* If memory was short when its task exited, readers get to know that now. */
		perf_detached_publish(event->detached, rb);
		vm_flags_clear(vma, VM_MAYWRITE);
		vma_set_file(vma, rb->shmem->file);
		ret = call_mmap(rb->shmem->file, vma);
	}
	ring_buffer_put(rb);
	return ret;
}

static int __init perf_shmem_init(void)
{
	struct file_system_type *type = get_fs_type("tmpfs");
	struct vfsmount *mount;

	if (!type)
		return -ENODEV;
	mount = kern_mount(type);
	put_filesystem(type);
	if (IS_ERR(mount))
		return PTR_ERR(mount);
	perf_shmem_mount = mount;
	return 0;
}
fs_initcall(perf_shmem_init);
