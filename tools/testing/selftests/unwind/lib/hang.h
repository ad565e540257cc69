/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that another task has to supply: a task that reads it sleeps until then.
 */
#ifndef _UNWIND_HANG_H
#define _UNWIND_HANG_H

#define HANG_PAGE	4096UL
/* The return address in the frame of a hanging stack. */
#define HANGING_RA	((unsigned long)hang_page)

/* A userfaultfd for the page at @addr, which must not be present; or -1. */
int hang_page(void *addr);

/* Wait until a task faults. */
void wait_for_fault(int uffd);

/* End all waits for the page at @addr; 0 on success. */
int resolve(int uffd, void *addr, const void *content);

/*
 * A stack of 16 pages with a missing page above. Resolving that page supplies one frame,
 * the last of the chain.
 */
struct hanging_stack {
	char		*page;
	int		uffd;
};

/* 0, or -1 without userfaultfd. */
int hanging_stack_init(struct hanging_stack *hang);

/* Supply the page. */
int hanging_stack_resolve(struct hanging_stack *hang);

#endif /* _UNWIND_HANG_H */
