/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The SFrame format for x86-64, versions 1 to 3: the layout of a section.
 */
#ifndef _SFRAME_FORMAT_H
#define _SFRAME_FORMAT_H

#define SFRAME_MAGIC		0xdee2
#define SFRAME_ABI_AMD64	3
#define SFRAME_RA_OFF		(-8)

#ifndef SHT_GNU_SFRAME
#define SHT_GNU_SFRAME		0x6ffffff4
#endif
#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		0x6474e554
#endif

/*
 * The header: u16 magic, u8 version, u8 flags, u8 ABI, s8 fixed FP offset, s8 fixed RA
 * offset, u8 length of the auxiliary header, u32 number of FDEs, u32 number of rows, u32
 * bytes of rows, u32 offset of FDEs, u32 offset of rows.
 */
#define SFRAME_HEADER_SIZE	28

#define SFRAME_F_SORTED		0x1
#define SFRAME_F_FP		0x2	/* not in version 3 */
#define SFRAME_F_PCREL		0x4	/* not in version 1 */

/*
 * FDE: start, 8 bytes in version 3 and otherwise 4, u32 size, u32 offset of rows. Versions
 * 1 and 2 add: u32 number of rows, u8 info. Version 2 also adds: u8 block size, u16 zero.
 */
#define SFRAME_FDE_V1_SIZE	17
#define SFRAME_FDE_V2_SIZE	20
#define SFRAME_FDE_V3_SIZE	16
/* Precedes the rows in version 3: u16 number of rows, u8 info, u8 type, u8 block size. */
#define SFRAME_ATTR_SIZE	5

#define SFRAME_FDE_WIDTH(info)	((info) & 0xf)
#define SFRAME_FDE_PCMASK	0x10
#define SFRAME_FDE_UNUSED	0x60	/* the first is for another architecture */
#define SFRAME_FDE_SIGNAL	0x80	/* version 3 */
#define SFRAME_FDE_FLEX		1

/* Row: start of 1, 2 or 4 bytes, u8 info, words. */
#define SFRAME_ROW_SP		0x01
#define SFRAME_ROW_NR(info)	((info) >> 1 & 0xf)
#define SFRAME_ROW_SIZE(info)	((info) >> 5 & 0x3)
#define SFRAME_ROW_MANGLED	0x80	/* another architecture's */

/* Control words of flexible rows. */
#define SFRAME_CTRL_REG		0x1
#define SFRAME_CTRL_LOAD	0x2
#define SFRAME_CTRL_UNUSED	0x4
#define SFRAME_CTRL_SHIFT	3

/* The block size of version 1, which has no field for it. */
#define SFRAME_V1_BLOCK		16
/* Maximum number of rows of a function in version 3. */
#define SFRAME_ROWS_MAX		0xffff

#endif /* _SFRAME_FORMAT_H */
