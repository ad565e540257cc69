// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that another task has to supply: a task that reads it sleeps until then.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hang.h"

int hang_page(void *addr)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range	= { .start = (uintptr_t)addr, .len = HANG_PAGE },
		.mode	= UFFDIO_REGISTER_MODE_MISSING,
	};
	/* poll() does not work on a blocking userfaultfd. */
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (uffd < 0)
		return -1;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg)) {
		close(uffd);
		return -1;
	}
	return uffd;
}

void wait_for_fault(int uffd)
{
	struct pollfd pollfd = { .fd = uffd, .events = POLLIN };

	while (poll(&pollfd, 1, -1) != 1)
		;
	if (pollfd.revents != POLLIN)
		_exit(1);
}

int resolve(int uffd, void *addr, const void *content)
{
	struct uffdio_copy copy = {
		.dst	= (uintptr_t)addr,
		.src	= (uintptr_t)content,
		.len	= HANG_PAGE,
	};

	return ioctl(uffd, UFFDIO_COPY, &copy);
}

int hanging_stack_init(struct hanging_stack *hang)
{
	char *map = mmap(NULL, 17 * HANG_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return -1;
	hang->page = map + 16 * HANG_PAGE;
	hang->uffd = hang_page(hang->page);
	return hang->uffd < 0 ? -1 : 0;
}

int hanging_stack_resolve(struct hanging_stack *hang)
{
	unsigned long content[HANG_PAGE / sizeof(long)] = { 0, HANGING_RA };

	return resolve(hang->uffd, hang->page, content);
}
