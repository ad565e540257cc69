/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections that users register, see side.c.
 */
#ifndef _KERNEL_UNWIND_SIDE_H
#define _KERNEL_UNWIND_SIDE_H

#include <linux/cleanup.h>

struct unwind_build_id;
struct unwind_object_source;
struct unwind_side;

int unwind_side_init(void);
struct unwind_side *unwind_side_get(const struct unwind_build_id *id, unsigned int nth);
void unwind_side_put(struct unwind_side *side);
const struct unwind_object_source *unwind_side_source(const struct unwind_side *side);
void unwind_side_note(struct unwind_side *side, int error);

DEFINE_FREE(unwind_side, struct unwind_side *, unwind_side_put(_T))

#endif /* _KERNEL_UNWIND_SIDE_H */
