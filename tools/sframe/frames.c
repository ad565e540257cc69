// SPDX-License-Identifier: GPL-2.0
/*
 * Read .eh_frame with libdw: list the code that has FDEs, and iterate over the rows.
 *
 * libdw returns the row of an address and the range of that row, but does not list FDEs.
 * To list them, decode the one part that dwarf_next_cfi() leaves to its caller: the code
 * range, which is two numbers in the encoding of the CIE.
 *
 * Where FDEs overlap, the code belongs to the FDE that starts first; if two start at the
 * same address, to the first one in .eh_frame. libdw may choose the rows of another FDE,
 * but it always makes the same choice when it is asked in this order.
 */
#include <dwarf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Encodings of addresses that are useful in .eh_frame of x86-64. */
#define PE_ABSPTR	0x00
#define PE_UDATA2	0x02
#define PE_UDATA4	0x03
#define PE_UDATA8	0x04
#define PE_SDATA2	0x0a
#define PE_SDATA4	0x0b
#define PE_SDATA8	0x0c
#define PE_SIGNED	0x08
#define PE_FORMAT	0x0f
#define PE_PCREL	0x10
#define PE_OMIT		0xff

/*
 * libdw allocates as many registers for a row as the file wants. FRAME_MAX bytes have room for more
 * than 200, while x86-64 has less than 150. A function with more has no rows, and may have cost
 * a lot of work, like one that libdw rejects. Programs have no such functions, or few.
 */
#define FRAME_MAX	(1 << 11)
#define BAD_WORK	(1 << 28)

/* Attempts to get libdw ready if memory is short. */
#define OPEN_TRIES	3

/**
 * struct cie - the fields of a CIE that its FDEs need
 * @offset:	its offset
 * @encoding:	encoding of addresses, PE_OMIT if unknown
 */
struct cie {
	u64	offset;
	u8		encoding;
};

static unsigned int pe_size(u8 encoding)
{
	switch (encoding & PE_FORMAT) {
	case PE_UDATA2:
	case PE_SDATA2:
		return 2;
	case PE_UDATA4:
	case PE_SDATA4:
		return 4;
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return 8;
	default:
		return 0;
	}
}

/* Decode the number at @at. */
static u64 pe_number(u8 encoding, const u8 *at)
{
	unsigned int size = pe_size(encoding);
	u64 val = 0;

	for (unsigned int i = 0; i < size; i++)
		val |= (u64)at[i] << 8 * i;
	if ((encoding & PE_SIGNED) && size < 8 && val >> (8 * size - 1))
		val |= ~0ULL << 8 * size;
	return val;
}

/* The address encoding of a CIE: the augmentation data for R. */
static u8 cie_encoding(const Dwarf_CIE *cie)
{
	const u8 *data = cie->augmentation_data;
	const u8 *end = data + cie->augmentation_data_size;
	const char *what = cie->augmentation;

	if (!*what)
		return PE_ABSPTR;
	if (*what != 'z' || !data)
		return PE_OMIT;
	while (*++what && data < end) {
		switch (*what) {
		case 'R':
			return *data;
		case 'L':
			data++;
			break;
		case 'P':
			if (!pe_size(*data) || (size_t)(end - data) <= pe_size(*data))
				return PE_OMIT;
			data += 1 + pe_size(*data);
			break;
		case 'S':
		case 'B':
			break;
		default:
			return PE_OMIT;
		}
	}
	return *what ? PE_OMIT : PE_ABSPTR;
}

static u8 cfi_encoding(const struct image *image, u64 offset, struct cie *cie)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (cie->offset == offset)
		return cie->encoding;
	cie->offset = offset;
	cie->encoding = PE_OMIT;
	if (!dwarf_next_cfi(image->ident, image->eh_frame, true, offset, &next, &entry) &&
	    dwarf_cfi_cie_p(&entry))
		cie->encoding = cie_encoding(&entry.cie);
	return cie->encoding;
}

/* Get the code of an FDE; false if this is no code of the file. */
static bool cfi_range(const struct image *image, const Dwarf_FDE *fde, u8 encoding,
		      struct cfi_function *function)
{
	const u8 *base = image->eh_frame->d_buf;
	unsigned int size = pe_size(encoding);
	const struct range *text;
	u64 length;

	if (!size || (encoding & ~(PE_FORMAT | PE_PCREL)) ||
	    (size_t)(fde->end - fde->start) < 2 * size)
		return false;
	function->start = pe_number(encoding, fde->start);
	if (encoding & PE_PCREL)
		function->start += image->eh_addr + (fde->start - base);
	length = pe_number(encoding & ~PE_SIGNED, fde->start + size);
	function->insns = fde->end - fde->start;

	text = image_text(image, function->start);
	if (!text || !length)
		return false;
	function->end = length < text->end - function->start ? function->start + length :
							       text->end;
	return true;
}

static int cfi_add(struct cfi_list *list, size_t *space, const struct cfi_function *function)
{
	if (list->nr == *space) {
		size_t more = *space ? *space * 2 : 1024;
		struct cfi_function *grown;

		grown = realloc(list->functions, more * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->functions = grown;
		*space = more;
	}
	list->functions[list->nr] = *function;
	list->functions[list->nr].order = list->nr;
	list->nr++;
	return 0;
}

static int cfi_compare(const void *a, const void *b)
{
	const struct cfi_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Remove overlaps: code of two functions belongs to the first one. */
static void cfi_part(struct cfi_list *list)
{
	u64 end = 0;
	size_t nr = 0;

	if (list->nr)
		qsort(list->functions, list->nr, sizeof(*list->functions), cfi_compare);
	for (size_t i = 0; i < list->nr; i++) {
		struct cfi_function *function = &list->functions[i];

		if (function->end <= end)
			continue;
		if (function->start < end)
			function->start = end;
		end = function->end;
		list->functions[nr++] = *function;
	}
	list->nr = nr;
}

/**
 * cfi_list - list the functions with FDEs in .eh_frame
 * @image:	the file
 * @list:	set, in order of addresses and without overlaps; pass it to cfi_list_free()
 *
 * Return: 0, or a negative errno.
 */
int cfi_list(struct image *image, struct cfi_list *list)
{
	struct cie cie = { .offset = UINT64_MAX };
	struct cfi_function function = {};
	Dwarf_Off offset = 0, next;
	Dwarf_CFI_Entry entry;
	size_t space = 0;

	*list = (struct cfi_list) {};
	for (;; offset = next) {
		int ret;

		next = offset;
		ret = dwarf_next_cfi(image->ident, image->eh_frame, true, offset, &next, &entry);
		if (ret > 0 || next <= offset)
			break;
		if (ret || dwarf_cfi_cie_p(&entry))
			continue;
		if (!cfi_range(image, &entry.fde,
			       cfi_encoding(image, entry.fde.CIE_pointer, &cie), &function))
			continue;
		if (cfi_add(list, &space, &function)) {
			cfi_list_free(list);
			return image_no_memory(image);
		}
	}
	cfi_part(list);
	return 0;
}

/**
 * cfi_list_free - free a list of functions
 * @list:	the list
 */
void cfi_list_free(struct cfi_list *list)
{
	free(list->functions);
	*list = (struct cfi_list) {};
}

/*
 * For its first row, libdw looks up the ABI's rules for registers. Without memory, it goes on
 * without them, and that is no error. Returns false if this may have happened; malloc() may
 * also have set errno, and then found memory elsewhere. Learns which error stands for an address
 * without an FDE, because libdw has no name for it.
 */
static bool cfi_begin(struct cfi_cursor *cursor, const struct cfi_list *list)
{
	errno = 0;
	if (list->nr && !dwarf_cfi_addrframe(cursor->cfi, list->functions[0].start, &cursor->frame))
		free(cursor->frame);
	cursor->frame = NULL;
	/* No code is there. */
	if (!dwarf_cfi_addrframe(cursor->cfi, UINT64_MAX, &cursor->frame))
		free(cursor->frame);
	cursor->no_match = dwarf_errno();
	cursor->frame = NULL;
	return errno != ENOMEM;
}

/**
 * cfi_open - prepare for reading rows
 * @image:	the file, with its .eh_frame
 * @list:	its functions
 * @cursor:	set; pass it to cfi_close()
 *
 * Return: 0, or a negative errno.
 */
int cfi_open(struct image *image, const struct cfi_list *list, struct cfi_cursor *cursor)
{
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		*cursor = (struct cfi_cursor) { .cfi = dwarf_getcfi_elf(image->elf) };
		if (!cursor->cfi)
			return image_error(image, EBADMSG, "has a damaged .eh_frame: %s",
					   dwarf_errmsg(-1));
		if (cfi_begin(cursor, list))
			return 0;
		cfi_close(cursor);
	}
	return image_no_memory(image);
}

/**
 * cfi_close - free a cursor
 * @cursor:	the cursor
 */
void cfi_close(struct cfi_cursor *cursor)
{
	free(cursor->frame);
	dwarf_cfi_end(cursor->cfi);
}

/* Call libdw. Returns 0, without a frame if there is no valid row; or -ENOMEM. */
static int cfi_frame(struct cfi_cursor *cursor, u64 addr)
{
	free(cursor->frame);
	errno = 0;
	if (dwarf_cfi_addrframe(cursor->cfi, addr, &cursor->frame)) {
		cursor->frame = NULL;
		if (errno == ENOMEM)
			return -ENOMEM;
		if (dwarf_errno() == cursor->no_match)
			return 0;
	} else {
		if (malloc_usable_size(cursor->frame) <= FRAME_MAX)
			return 0;
		free(cursor->frame);
		cursor->frame = NULL;
	}
	cursor->work += BAD_WORK;
	return 0;
}

/**
 * cfi_row - get the row of an address
 * @image:	the file
 * @cursor:	set to the row of @addr, from @addr to its end; without a row, to the rest of
 *		the function
 * @function:	a function
 * @addr:	an address in it
 *
 * Each time, libdw starts at the beginning of the function, which is slow for a function with
 * thousands of rows.
 *
 * Return: 0; -EFBIG if the file exceeds CFI_WORK_MAX; -ENOMEM.
 */
int cfi_row(struct image *image, struct cfi_cursor *cursor, const struct cfi_function *function,
	    u64 addr)
{
	Dwarf_Addr start, end;

	cursor->start = addr;
	cursor->end = function->end;
	cursor->work += function->insns;
	if (cursor->work > CFI_WORK_MAX)
		return image_error(image, EFBIG, "has an .eh_frame that takes too much work");
	if (cfi_frame(cursor, addr))
		return image_no_memory(image);
	if (!cursor->frame)
		return 0;
	if (dwarf_frame_info(cursor->frame, &start, &end, &cursor->signal) != REG_RA ||
	    start > addr || end <= addr) {
		free(cursor->frame);
		cursor->frame = NULL;
		return 0;
	}
	if (end < cursor->end)
		cursor->end = end;
	return 0;
}
