// SPDX-License-Identifier: GPL-2.0
/* What tools/sframe needs: a libdw that its confine.c allows, and the latest in other headers. */
#define _GNU_SOURCE
#include <elfutils/libdw.h>
#include <elfutils/version.h>
#include <search.h>
#include <sys/syscall.h>

#if !_ELFUTILS_PREREQ(0, 178)
#error "libdw is too old"
#endif

int main(void)
{
	twalk_r(NULL, NULL, NULL);
	return dwarf_getcfi_elf(NULL) || !__NR_close_range;
}
