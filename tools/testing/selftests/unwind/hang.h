/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that somebody else has to supply: whoever reads it sleeps until then.
 */
#ifndef _UNWIND_HANG_H
#define _UNWIND_HANG_H

#define HANG_PAGE	4096UL
/* Where the frame of a hanging stack returns to. */
#define HANGING_RA	((unsigned long)hang_page)

/* A userfaultfd over the page at @addr, which does not exist; or -1. */
int hang_page(void *addr);

/* Wait until somebody faults. */
void wait_for_fault(int uffd);

/* End all waits for the page at @addr; 0 on success. */
int resolve(int uffd, void *addr, const void *content);

/*
 * A stack of 16 pages, and above it one that is missing. Its content will be one
 * frame that calls nothing.
 */
struct hanging_stack {
	char		*page;
	int		uffd;
};

/* 0, or -1 when there is no userfaultfd. */
int hanging_stack_init(struct hanging_stack *hang);

/* Supply the page. */
int hanging_stack_resolve(struct hanging_stack *hang);

#endif /* _UNWIND_HANG_H */
