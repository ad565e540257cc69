// SPDX-License-Identifier: GPL-2.0
/* What tools/sframe needs: a libdw that its confine.c allows, and its latest system call. */
#include <elfutils/libdw.h>
#include <elfutils/version.h>
#include <sys/syscall.h>

#if !_ELFUTILS_PREREQ(0, 178)
#error "libdw is too old"
#endif

int main(void)
{
	return dwarf_getcfi_elf(NULL) || !__NR_close_range;
}
