// SPDX-License-Identifier: GPL-2.0
/*
 * Print a section in the format of readelf --sframe.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

static void dump_flags(const struct section *section)
{
	static const char * const names[] = {
		"SFRAME_F_FDE_SORTED", "SFRAME_F_FRAME_POINTER", "SFRAME_F_FDE_FUNC_START_PCREL",
	};
	const char *before = "    Flags: ";

	for (unsigned int i = 0; i < 3; i++) {
		if (!(section->flags & 1 << i))
			continue;
		printf("%s%s", before, names[i]);
		before = ",\n           ";
	}
	printf("%s\n", section->flags ? "" : "    Flags: NONE");
}

static void dump_header(const struct section *section)
{
	printf("  Header :\n\n    Version: SFRAME_VERSION_%u\n", section->version);
	dump_flags(section);
	if (section->version > 1)
		printf("    CFA fixed RA offset: %d\n", section->ra_off);
	printf("    Num FDEs: %u\n    Num FREs: %u\n\n  Function Index :\n", section->nr_fdes,
	       section->nr_rows);
}

static const char *rule_base(u8 base)
{
	static const char * const names[REG_NR] = {
		"r0", "r1", "r2", "r3", "r4", "r5", "fp", "sp",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};

	return base & BASE_CFA ? "c" : names[base & (REG_NR - 1)];
}

/* Format a rule as a column. Plain rows print offsets without brackets, as in readelf. */
static const char *rule_text(const struct rule *rule, bool flex, char *text, size_t size)
{
	bool load = flex && rule->base & BASE_LOAD;

	snprintf(text, size, "%s%s%+d%s", load ? "(" : "", rule_base(rule->base & ~BASE_LOAD),
		 rule->off, load ? ")" : "");
	return text;
}

/* Format the return address: f if it is at its fixed offset, u in version 1, U if padded. */
static const char *ra_text(const struct section *section, const struct row *row, bool padded,
			   char *text, size_t size)
{
	if (row->ra.base != (BASE_CFA | BASE_LOAD) || row->ra.off != SFRAME_RA_OFF)
		return rule_text(&row->ra, true, text, size);
	return section->version == 1 ? "u" : padded ? "U" : "f";
}

static void dump_row(const struct section *section, const struct fde *fde,
		     const struct row *row, bool padded)
{
	bool flex = fde->type == SFRAME_FDE_FLEX;
	char cfa[24], fp[24], ra[24];

	printf("    %016llx", (unsigned long long)(fde->block ? 0 : fde->start) + row->start);
	if (row->outermost) {
		printf("  RA undefined\n");
		return;
	}
	printf("  %-9s %-9s %-13s\n", rule_text(&row->cfa, flex, cfa, sizeof(cfa)),
	       row->fp.base == BASE_SAME ? "u" : rule_text(&row->fp, flex, fp, sizeof(fp)),
	       ra_text(section, row, padded, ra, sizeof(ra)));
}

static const char *dump_fde(const struct section *section, u32 index)
{
	const char *wrong;
	struct fde fde;
	struct row row;
	bool padded;
	size_t at;

	wrong = section_fde(section, index, &fde);
	if (wrong)
		return wrong;
	printf("\n    func idx [%u]: pc = 0x%llx, size = %u bytes", index,
	       (unsigned long long)fde.start, fde.size);
	if (fde.type || fde.info & SFRAME_FDE_SIGNAL)
		printf(", attr = \"%s%s\"", fde.info & SFRAME_FDE_SIGNAL ? "S" : "",
		       fde.type ? "F" : "");
	printf("\n    STARTPC%s      CFA       FP        %-13s\n", fde.block ? "[m]" : "   ",
	       "RA");

	at = fde.rows;
	for (u32 i = 0; i < fde.nr; i++) {
		wrong = section_row(section, &fde, &at, &row, &padded);
		if (wrong)
			return wrong;
		dump_row(section, &fde, &row, padded);
	}
	return NULL;
}

/**
 * dump_section - print a section
 * @from:	its bytes, their size and address
 * @name:	name of the file, for messages
 *
 * Return: 0, or 1 if something is wrong with it.
 */
int dump_section(const struct section *from, const char *name)
{
	struct section section = *from;
	const char *wrong;
	int ret = 0;

	section.next = 0;
	do {
		wrong = section_open(&section, section.next);
		if (wrong) {
			fprintf(stderr, "sframe: %s: has a damaged section: %s\n", name, wrong);
			return 1;
		}
		printf("Contents of the SFrame section .sframe:\n");
		dump_header(&section);
		for (u32 i = 0; i < section.nr_fdes; i++) {
			wrong = dump_fde(&section, i);
			if (!wrong)
				continue;
			fprintf(stderr, "sframe: %s: has a damaged function [%u]: %s\n", name, i,
				wrong);
			ret = 1;
		}
		if (section.next)
			printf("\n");
	} while (section.next);
	return ret;
}
