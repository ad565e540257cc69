/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SFrame sections out of .eh_frame: what programs that link libsframe-conv.a call.
 *
 * They have tools/include among their headers, and link -ldw -lelf as well, which is
 * where all that is known of ELF and DWARF comes from. Nothing here keeps state between
 * calls, so threads may call at once.
 */
#ifndef _TOOLS_SFRAME_H
#define _TOOLS_SFRAME_H

#include <linux/types.h>
#include <stddef.h>

/* Bytes of a message about what went wrong, which is one sentence. */
#define SFRAME_MESSAGE		256

/* Sections that are larger are of no use: the kernel does not take them. */
#define SFRAME_SECTION_MAX	(64U << 20)

/**
 * enum sframe_loss - why SFrame does not say what .eh_frame says of some code
 * @SFRAME_LOSS_NONE:	it does
 * @SFRAME_LOSS_CFA:	the CFA is computed
 * @SFRAME_LOSS_CFA_REG: the CFA is from a register that is none of SP and FP, or is
 *			loaded, and the format is version 2
 * @SFRAME_LOSS_RA:	likewise, the return address, or it is computed
 * @SFRAME_LOSS_FP:	likewise, the caller's frame pointer, or it is lost
 * @SFRAME_LOSS_SP:	the caller's stack pointer is not the CFA
 * @SFRAME_LOSS_SIGNAL:	a signal frame, and the format is version 2
 * @SFRAME_LOSS_BAD:	libdw has no answer: .eh_frame is damaged there
 * @SFRAME_LOSS_NR:	number of reasons
 */
enum sframe_loss {
	SFRAME_LOSS_NONE,
	SFRAME_LOSS_CFA,
	SFRAME_LOSS_CFA_REG,
	SFRAME_LOSS_RA,
	SFRAME_LOSS_FP,
	SFRAME_LOSS_SP,
	SFRAME_LOSS_SIGNAL,
	SFRAME_LOSS_BAD,
	SFRAME_LOSS_NR,
};

/**
 * struct sframe_options - how to convert
 * @version:	of the format: 3 or 2; 0 is the same as 3
 * @addr:	address that the section has among the file's own, where it is to be
 *		installed; 0 for data that stay beside the file
 */
struct sframe_options {
	unsigned int	version;
	u64		addr;
};

/**
 * struct sframe_stats - what became of .eh_frame
 * @functions:	FDEs of .eh_frame with code
 * @fdes:	FDEs of the section: functions are split where it cannot say something
 * @rows:	rows of the section
 * @covered:	bytes of code that .eh_frame describes
 * @said:	bytes of code that the section describes
 * @plt:	of @said, bytes of PLTs whose rows are from their code
 * @lost:	bytes of code that .eh_frame describes, and the section does not
 */
struct sframe_stats {
	u64	functions;
	u64	fdes;
	u64	rows;
	u64	covered;
	u64	said;
	u64	plt;
	u64	lost[SFRAME_LOSS_NR];
};

/**
 * struct sframe_output - a section
 * @bytes:	the section, in memory that sframe_free() frees; NULL after an error
 * @size:	of @bytes
 * @stats:	what is in it
 * @message:	after an error, a sentence about it, without a dot
 */
struct sframe_output {
	u8			*bytes;
	size_t			size;
	struct sframe_stats	stats;
	char			message[SFRAME_MESSAGE];
};

int sframe_convert_path(const char *path, const struct sframe_options *options,
			struct sframe_output *out);
int sframe_convert_fd(int fd, const struct sframe_options *options,
		      struct sframe_output *out);
int sframe_convert_memory(const void *image, size_t size,
			  const struct sframe_options *options, struct sframe_output *out);
void sframe_free(struct sframe_output *out);
const char *sframe_loss_name(enum sframe_loss loss);

#endif /* _TOOLS_SFRAME_H */
