// SPDX-License-Identifier: GPL-2.0
/*
 * The ELF file whose frames are wanted: is it of the kind that the kernel looks at, where
 * is its code, and where its .eh_frame.
 *
 * Files are whatever somebody has written. libelf reads them, and answers only for what
 * is inside of the file; what is not becomes one of the errors here.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "internal.h"

/**
 * image_error - say what is wrong
 * @image:	gets the sentence
 * @error:	a number of errno.h
 * @format:	of the sentence
 *
 * Return: -@error.
 */
int image_error(struct image *image, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(image->message, SFRAME_MESSAGE, format, args);
	va_end(args);
	return -error;
}

/* Is it one that the kernel can run, or map? */
static int image_check(struct image *image)
{
	GElf_Ehdr ehdr;
	size_t nr;

	if (elf_kind(image->elf) != ELF_K_ELF)
		return image_error(image, ENOEXEC, "is not an ELF file");
	image->ident = (const u8 *)elf_getident(image->elf, NULL);
	if (!image->ident || !gelf_getehdr(image->elf, &ehdr))
		return image_error(image, EBADMSG, "is truncated: it has no ELF header");
	if (ehdr.e_machine != EM_X86_64 || gelf_getclass(image->elf) != ELFCLASS64 ||
	    image->ident[EI_DATA] != ELFDATA2LSB)
		return image_error(image, ENOEXEC,
				   "is for another architecture: only 64-bit x86 is known");
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN)
		return image_error(image, ENOEXEC, "is neither a program nor a shared library");
	if (!ehdr.e_phnum || ehdr.e_phnum == PN_XNUM)
		return image_error(image, ENOEXEC, "has no program headers");
	/* libelf does not count those that are not there. */
	if (elf_getphdrnum(image->elf, &nr) || nr != ehdr.e_phnum ||
	    ehdr.e_phentsize != sizeof(Elf64_Phdr) || ehdr.e_phoff > image->size ||
	    nr * sizeof(Elf64_Phdr) > image->size - ehdr.e_phoff)
		return image_error(image, EBADMSG, "is truncated: it lacks program headers");
	return 0;
}

/* Functions are where the kernel looks for them: in what is mapped of the file. */
static int image_segments(struct image *image)
{
	GElf_Phdr phdr;
	size_t nr;

	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(image->elf, i, &phdr))
			return image_error(image, EBADMSG, "has damaged program headers");
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) || !phdr.p_filesz)
			continue;
		if (phdr.p_vaddr > INT64_MAX || phdr.p_filesz > INT64_MAX - phdr.p_vaddr)
			return image_error(image, EBADMSG, "has a segment of no possible address");
		if (image->nr_text == IMAGE_SEGMENTS)
			return image_error(image, EFBIG, "has more than %u executable segments",
					   IMAGE_SEGMENTS);
		image->text[image->nr_text++] = (struct range) {
			phdr.p_vaddr, phdr.p_vaddr + phdr.p_filesz
		};
	}
	return image->nr_text ? 0 : image_error(image, ENODATA, "has no executable segment");
}

static int image_open(struct image *image)
{
	int ret;

	if (!image->elf)
		return image_error(image, EIO, "cannot be read: %s", elf_errmsg(-1));
	ret = image_check(image);
	if (!ret)
		ret = image_segments(image);
	if (ret)
		image_close(image);
	return ret;
}

/**
 * image_open_fd - open a file
 * @image:	set, to be given to image_close() if this returns 0
 * @fd:		the file, which has to stay open
 * @message:	gets a sentence about an error, of SFRAME_MESSAGE bytes
 *
 * Return: 0, or an error of errno.h, negative.
 */
int image_open_fd(struct image *image, int fd, char *message)
{
	struct stat st;

	*image = (struct image) { .message = message };
	if (fstat(fd, &st))
		return image_error(image, errno, "cannot be read: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return image_error(image, EINVAL, "is not a regular file");
	image->size = st.st_size;
	elf_version(EV_CURRENT);
	/* Not mapped: who truncates the file would end this program. */
	image->elf = elf_begin(fd, ELF_C_READ, NULL);
	return image_open(image);
}

/**
 * image_open_memory - open a file that is in memory
 * @image:	as for image_open_fd()
 * @bytes:	the file, which has to stay there
 * @size:	of the file
 * @message:	as for image_open_fd()
 *
 * Return: 0, or an error of errno.h, negative.
 */
int image_open_memory(struct image *image, const void *bytes, size_t size, char *message)
{
	*image = (struct image) { .message = message, .size = size };
	elf_version(EV_CURRENT);
	/* It is only read, but libelf says that to nobody. */
	image->elf = elf_memory((char *)bytes, size);
	return image_open(image);
}

/**
 * image_close - close a file
 * @image:	the file
 */
void image_close(struct image *image)
{
	elf_end(image->elf);
	image->elf = NULL;
}

/**
 * image_limit_memory - have an end of the memory that a file takes
 * @size:	of the file
 *
 * What libdw allocates for registers depends on numbers in the file, and what libelf does
 * on those of a file that has holes. With a limit, there is an error where these make no
 * sense.
 */
void image_limit_memory(u64 size)
{
	static struct rlimit former;
	struct rlimit limit;
	rlim_t enough;

	/* Who has headers read, and then a process for each file, comes here twice. */
	if (!former.rlim_cur && getrlimit(RLIMIT_DATA, &former))
		return;
	enough = (1ULL << 30) + 8 * (size < FILE_SIZE_MAX ? size : FILE_SIZE_MAX);
	limit = former;
	if (limit.rlim_cur > enough)
		limit.rlim_cur = enough;
	setrlimit(RLIMIT_DATA, &limit);
}

/**
 * image_text - find an executable segment
 * @image:	the file
 * @addr:	an address
 *
 * Return: the segment that it is in, or NULL.
 */
const struct range *image_text(const struct image *image, u64 addr)
{
	for (unsigned int i = 0; i < image->nr_text; i++) {
		if (addr >= image->text[i].start && addr < image->text[i].end)
			return &image->text[i];
	}
	return NULL;
}

/**
 * image_section - find a section
 * @image:	the file
 * @name:	of the section
 * @shdr:	gets its header
 *
 * Return: the section, or NULL.
 */
Elf_Scn *image_section(const struct image *image, const char *name, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	/* libelf reads them as a whole, of whatever size the file says. */
	if (elf_getshdrstrndx(image->elf, &strings) ||
	    !gelf_getshdr(elf_getscn(image->elf, strings), shdr) ||
	    shdr->sh_size > IMAGE_NAMES)
		return NULL;
	while ((scn = elf_nextscn(image->elf, scn))) {
		const char *found;

		if (!gelf_getshdr(scn, shdr))
			continue;
		found = elf_strptr(image->elf, strings, shdr->sh_name);
		if (found && !strcmp(found, name))
			return scn;
	}
	return NULL;
}

/**
 * image_sframe - find the SFrame section that a file has
 * @image:	the file
 * @addr:	set to its address
 * @offset:	set to where it is in the file
 * @size:	set to its size, all of which is in the file
 *
 * Where there are both, the section counts: its size is right.
 *
 * Return: 0; -ENODATA if there is none; -EBADMSG if it is not in the file.
 */
int image_sframe(const struct image *image, u64 *addr, u64 *offset, u64 *size)
{
	GElf_Phdr phdr;
	GElf_Shdr shdr;
	size_t nr = 0;

	if (image_section(image, ".sframe", &shdr) && shdr.sh_type != SHT_NOBITS) {
		*addr = shdr.sh_addr;
		*offset = shdr.sh_offset;
		*size = shdr.sh_size;
		goto found;
	}
	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(image->elf, i, &phdr) || phdr.p_type != PT_GNU_SFRAME)
			continue;
		*addr = phdr.p_vaddr;
		*offset = phdr.p_offset;
		*size = phdr.p_filesz;
		goto found;
	}
	return -ENODATA;
found:
	if (*offset > image->size || *size > image->size - *offset)
		return -EBADMSG;
	return 0;
}

/**
 * image_open_cfi - find .eh_frame
 * @image:	the file; @image->eh_frame and @image->eh_addr are set
 *
 * Return: 0, or an error of errno.h, negative.
 */
int image_open_cfi(struct image *image)
{
	GElf_Shdr shdr;
	Elf_Scn *scn;

	scn = image_section(image, ".eh_frame", &shdr);
	if (!scn || shdr.sh_type == SHT_NOBITS || !shdr.sh_size)
		return image_error(image, ENODATA, "has no .eh_frame");
	if (shdr.sh_offset > image->size || shdr.sh_size > image->size - shdr.sh_offset)
		return image_error(image, EBADMSG, "is truncated: it lacks .eh_frame");
	/* As it stands: relocations are for other types of files. */
	image->eh_frame = elf_getdata_rawchunk(image->elf, shdr.sh_offset, shdr.sh_size,
					       ELF_T_BYTE);
	if (!image->eh_frame || !image->eh_frame->d_buf)
		return image_error(image, EIO, "cannot be read: %s", elf_errmsg(-1));
	image->eh_addr = shdr.sh_addr;
	return 0;
}
