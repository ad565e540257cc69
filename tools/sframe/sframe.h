/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Convert .eh_frame to SFrame sections: the interface of libsframe-conv.a.
 *
 * Programs need tools/include in their include path, and link with -ldw -lelf as well,
 * because libdw and libelf parse ELF and DWARF. Nothing here keeps state between calls,
 * so threads may call it concurrently.
 */
#ifndef _TOOLS_SFRAME_H
#define _TOOLS_SFRAME_H

#include <linux/types.h>
#include <stddef.h>

/* Size of an error message, which is one sentence. */
#define SFRAME_MESSAGE		256

/* Maximum size of a section: the kernel rejects larger ones. */
#define SFRAME_SECTION_MAX	(64U << 20)

/**
 * enum sframe_loss - why SFrame cannot describe some code as .eh_frame does
 * @SFRAME_LOSS_NONE:	it can
 * @SFRAME_LOSS_CFA:	the CFA is computed
 * @SFRAME_LOSS_CFA_REG: the CFA is loaded, or from a register other than SP and FP, and
 *			the format is version 2
 * @SFRAME_LOSS_RA:	the same for the return address, or it is computed
 * @SFRAME_LOSS_FP:	the same for the caller's frame pointer, or it is lost
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
 * @version:	version of the format: 3 or 2; 0 is the same as 3
 * @addr:	address of the section in the file's address space, if it is to be
 *		installed; 0 for a section that stays outside the file
 */
struct sframe_options {
	unsigned int	version;
	u64		addr;
};

/**
 * struct sframe_stats - results of a conversion
 * @functions:	FDEs of .eh_frame with code
 * @fdes:	FDEs of the section: functions are split at code that it cannot describe
 * @rows:	rows of the section
 * @covered:	bytes of code that .eh_frame describes
 * @said:	bytes of code that the section describes
 * @plt:	of @said, bytes of PLTs whose rows were derived from their code
 * @lost:	bytes of code that .eh_frame describes but the section does not
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
 * @bytes:	the section, to be freed by sframe_free(); NULL after an error
 * @size:	size of @bytes
 * @stats:	statistics
 * @message:	after an error, an error message without a full stop
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
