// SPDX-License-Identifier: GPL-2.0
/*
 * Open an ELF file: check that the kernel supports it, and find its code and its .eh_frame.
 *
 * Files are not trusted. libelf reads a file only after checks of its counts and sizes, and
 * everything outside the file is an error here.
 */
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* How many section headers the kernel reads, in total and at once. */
#define KERNEL_SHDRS	1024
#define KERNEL_BATCH	8U
/* How many of their names the kernel reads. */
#define KERNEL_NAMES	64
#define KERNEL_PAGE	4096

/* Start of .eh_frame_hdr: version 1, a relative address and a count of 4 bytes each. */
#define EH_INDEX	"\x01\x1b\x03"
#define EH_INDEX_SIZE	12

/**
 * image_no_memory - set an error message
 * @image:	gets the message
 *
 * Return: -ENOMEM.
 */
int image_no_memory(struct image *image)
{
	snprintf(image->message, SFRAME_MESSAGE, "needs more memory than there is");
	return -ENOMEM;
}

/**
 * image_error - set an error message
 * @image:	gets the message
 * @error:	an errno
 * @format:	of the message
 *
 * Return: -@error; -ENOMEM if that may be the reason for which the file seems to be damaged, or to
 * lack something. libelf and libdw set errno only if an allocation fails.
 */
int image_error(struct image *image, int error, const char *format, ...)
{
	va_list args;

	if (errno == ENOMEM && (error == EBADMSG || error == ENODATA || error == EIO))
		return image_no_memory(image);
	va_start(args, format);
	vsnprintf(image->message, SFRAME_MESSAGE, format, args);
	va_end(args);
	return -error;
}

/**
 * struct bytes - a file before libelf opens it
 * @fd:		the file, -1 if it is in memory
 * @at:		its address in memory
 */
struct bytes {
	int		fd;
	const void	*at;
};

/* Returns the number of bytes read, which may be less than @size, or a negative errno. */
static ssize_t image_peek(const struct image *image, const struct bytes *bytes, void *to,
			  size_t size, u64 offset)
{
	ssize_t got;

	if (offset >= image->size)
		return 0;
	if (size > image->size - offset)
		size = image->size - offset;
	if (bytes->fd < 0) {
		memcpy(to, bytes->at + offset, size);
		return size;
	}
	do {
		got = pread(bytes->fd, to, size, offset);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int image_unreadable(struct image *image, int error)
{
	return image_error(image, error, "cannot be read: %s", strerror(error));
}

/* Can the kernel run or map this file? */
static int image_check_kind(struct image *image, const Elf64_Ehdr *ehdr, size_t got)
{
	if (got < SELFMAG || memcmp(ehdr->e_ident, ELFMAG, SELFMAG))
		return image_error(image, ENOEXEC, "is not an ELF file");
	if (got < sizeof(*ehdr))
		return image_error(image, EBADMSG, "is truncated: it has no ELF header");
	if (le16toh(ehdr->e_machine) != EM_X86_64 || ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr->e_ident[EI_DATA] != ELFDATA2LSB)
		return image_error(image, ENOEXEC,
				   "is for another architecture: only 64-bit x86 is known");
	if (le16toh(ehdr->e_type) != ET_EXEC && le16toh(ehdr->e_type) != ET_DYN)
		return image_error(image, ENOEXEC, "is neither a program nor a shared library");
	return 0;
}

static int image_check_phdrs(struct image *image, const Elf64_Ehdr *ehdr)
{
	u64 offset = le64toh(ehdr->e_phoff);
	u32 nr = le16toh(ehdr->e_phnum);

	if (!nr || nr == PN_XNUM)
		return image_error(image, ENOEXEC, "has no program headers");
	/* libelf does not count missing program headers. */
	if (le16toh(ehdr->e_phentsize) != sizeof(Elf64_Phdr) || offset > image->size ||
	    nr * sizeof(Elf64_Phdr) > image->size - offset)
		return image_error(image, EBADMSG, "is truncated: it lacks program headers");
	if (nr > IMAGE_PHDRS)
		return image_error(image, EFBIG, "has more than %u program headers", IMAGE_PHDRS);
	return 0;
}

/*
 * libelf allocates memory per section. With 65280 or more sections, the first section header
 * holds their number, in 64 bits, because it does not fit into the ELF header.
 */
static int image_check_shdrs(struct image *image, const struct bytes *bytes,
			     const Elf64_Ehdr *ehdr)
{
	u64 offset = le64toh(ehdr->e_shoff);
	Elf64_Shdr first = {};
	ssize_t got = 0;

	if (offset && !ehdr->e_shnum)
		got = image_peek(image, bytes, &first, sizeof(first), offset);
	if (got < 0)
		return image_unreadable(image, -got);
	if (first.sh_size || le16toh(ehdr->e_shnum) >= SHN_LORESERVE)
		return image_error(image, EFBIG, "has too many sections");
	return 0;
}

/* Check the headers first, because libelf trusts them. */
static int image_check(struct image *image, const struct bytes *bytes, Elf64_Ehdr *ehdr)
{
	ssize_t got = image_peek(image, bytes, ehdr, sizeof(*ehdr), 0);
	int ret;

	if (got < 0)
		return image_unreadable(image, -got);
	ret = image_check_kind(image, ehdr, got);
	if (!ret)
		ret = image_check_phdrs(image, ehdr);
	return ret ?: image_check_shdrs(image, bytes, ehdr);
}

/* libelf reads the headers again: check that they have not changed meanwhile. */
static bool image_is_as_checked(const struct image *image, const Elf64_Ehdr *checked)
{
	Elf64_Ehdr ehdr;
	const Elf_Data from = {
		.d_buf = (void *)checked, .d_type = ELF_T_EHDR, .d_size = sizeof(*checked),
		.d_version = EV_CURRENT,
	};
	Elf_Data to = { .d_buf = &ehdr, .d_size = sizeof(ehdr), .d_version = EV_CURRENT };
	size_t nr;

	return elf64_xlatetom(&to, &from, ELFDATA2LSB) &&
	       !memcmp(&ehdr, elf64_getehdr(image->elf), sizeof(ehdr)) &&
	       !elf_getshdrnum(image->elf, &nr) && nr < SHN_LORESERVE;
}

/* Can this segment be mapped? Otherwise the kernel has no code there. */
static bool image_is_mappable(const GElf_Phdr *phdr)
{
	return phdr->p_offset % KERNEL_PAGE == phdr->p_vaddr % KERNEL_PAGE &&
	       phdr->p_offset <= INT64_MAX && phdr->p_filesz <= INT64_MAX - phdr->p_offset;
}

/* Record the mapped executable segments: the kernel looks up functions only there. */
static int image_segments(struct image *image)
{
	GElf_Phdr phdr;
	size_t nr;

	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (!gelf_getphdr(image->elf, i, &phdr))
			return image_error(image, EBADMSG, "has damaged program headers");
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) || !phdr.p_filesz ||
		    !image_is_mappable(&phdr))
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

static int image_open(struct image *image, const Elf64_Ehdr *checked)
{
	size_t nr;
	int ret;

	if (!image->elf)
		return image_error(image, EIO, "cannot be read: %s", elf_errmsg(-1));
	image->ident = (const u8 *)elf_getident(image->elf, NULL);
	if (elf_kind(image->elf) != ELF_K_ELF || !image->ident || !elf64_getehdr(image->elf) ||
	    elf_getphdrnum(image->elf, &nr) || nr != elf64_getehdr(image->elf)->e_phnum)
		ret = image_error(image, EBADMSG, "has a damaged ELF header");
	else if (!image_is_as_checked(image, checked))
		ret = image_error(image, EAGAIN, "changes while it is read");
	else
		ret = image_segments(image);
	if (ret)
		image_close(image);
	return ret;
}

/**
 * image_open_fd - open a file
 * @image:	set; pass it to image_close() if this returns 0
 * @fd:		the file, which has to stay open
 * @message:	set to an error message, SFRAME_MESSAGE bytes
 *
 * Return: 0, or a negative errno.
 */
int image_open_fd(struct image *image, int fd, char *message)
{
	Elf64_Ehdr ehdr = {};
	struct stat st;
	int ret;

	*image = (struct image) { .message = message };
	errno = 0;
	if (fstat(fd, &st))
		return image_unreadable(image, errno);
	if (!S_ISREG(st.st_mode))
		return image_error(image, EINVAL, "is not a regular file");
	image->size = st.st_size;
	ret = image_check(image, &(struct bytes) { .fd = fd }, &ehdr);
	if (ret)
		return ret;
	elf_version(EV_CURRENT);
	/* Do not map the file: truncating it would then kill this program. */
	image->elf = elf_begin(fd, ELF_C_READ, NULL);
	return image_open(image, &ehdr);
}

/**
 * image_open_memory - open a file in memory
 * @image:	as for image_open_fd()
 * @bytes:	the file, which has to stay there
 * @size:	its size
 * @message:	as for image_open_fd()
 *
 * Return: 0, or a negative errno.
 */
int image_open_memory(struct image *image, const void *bytes, size_t size, char *message)
{
	Elf64_Ehdr ehdr = {};
	int ret;

	*image = (struct image) { .message = message, .size = size };
	errno = 0;
	ret = image_check(image, &(struct bytes) { .fd = -1, .at = bytes }, &ehdr);
	if (ret)
		return ret;
	elf_version(EV_CURRENT);
	/* libelf only reads it, but its parameter is not const. */
	image->elf = elf_memory((char *)bytes, size);
	return image_open(image, &ehdr);
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
 * image_limit_memory - limit the memory of this process
 * @held:	bytes of files that the caller itself will have in memory
 *
 * libdw allocates memory for registers by numbers in the file, and libelf by sizes in it,
 * which may be sparse. With a limit, absurd numbers lead to an error. A conversion takes half
 * the size of a large program, and no file is larger than FILE_SIZE_MAX.
 */
void image_limit_memory(u64 held)
{
	static struct rlimit former;
	struct rlimit limit;
	rlim_t enough;

	/* A conversion of a session inherits the limit for headers: keep the former one. */
	if (!former.rlim_cur && getrlimit(RLIMIT_DATA, &former))
		return;
	enough = FILE_SIZE_MAX / 2 + held;
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

/*
 * Get the raw names of sections, NULL if there are none. elf_strptr() would decompress them and
 * look for the end of each name, which may be missing.
 */
static const Elf_Data *image_names(const struct image *image)
{
	const Elf_Data *data;
	GElf_Shdr shdr;
	size_t index;
	Elf_Scn *scn;

	if (elf_getshdrstrndx(image->elf, &index))
		return NULL;
	scn = elf_getscn(image->elf, index);
	/* libelf reads all names at once, whatever size the file claims. */
	if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB ||
	    shdr.sh_size > IMAGE_NAMES)
		return NULL;
	data = elf_rawdata(scn, NULL);
	return data && data->d_buf ? data : NULL;
}

/**
 * image_section - find a section
 * @image:	the file
 * @name:	name of the section
 * @shdr:	set to its header
 *
 * Return: the section, or NULL.
 */
Elf_Scn *image_section(const struct image *image, const char *name, GElf_Shdr *shdr)
{
	const Elf_Data *names = image_names(image);
	size_t size = strlen(name) + 1;
	Elf_Scn *scn = NULL;

	while (names && (scn = elf_nextscn(image->elf, scn))) {
		if (gelf_getshdr(scn, shdr) && shdr->sh_name < names->d_size &&
		    size <= names->d_size - shdr->sh_name &&
		    !memcmp((const char *)names->d_buf + shdr->sh_name, name, size))
			return scn;
	}
	return NULL;
}

/* Get a part of the file, NULL if it is not completely in the file. */
static const void *image_part(const struct image *image, u64 offset, size_t size, Elf_Type type)
{
	Elf_Data *data;

	if (offset > image->size || size > image->size - offset)
		return NULL;
	data = elf_getdata_rawchunk(image->elf, offset, size, type);
	return data ? data->d_buf : NULL;
}

/* Find the first program header of a type that is not empty. */
static bool find_phdr(const struct image *image, u32 type, GElf_Phdr *phdr)
{
	size_t nr = 0;

	elf_getphdrnum(image->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		if (gelf_getphdr(image->elf, i, phdr) && phdr->p_type == type && phdr->p_filesz)
			return true;
	}
	return false;
}

/**
 * image_eh_functions - get the number of FDEs in .eh_frame
 * @image:	the file
 *
 * Uses .eh_frame_hdr in the form that all linkers write, without counting the FDEs.
 *
 * Return: the number, 0 if unknown.
 */
u32 image_eh_functions(const struct image *image)
{
	const u8 *index;
	GElf_Phdr phdr;

	if (!find_phdr(image, PT_GNU_EH_FRAME, &phdr) || phdr.p_filesz < EH_INDEX_SIZE)
		return 0;
	index = image_part(image, phdr.p_offset, EH_INDEX_SIZE, ELF_T_BYTE);
	if (!index || memcmp(index, EH_INDEX, strlen(EH_INDEX)))
		return 0;
	return index[8] | index[9] << 8 | index[10] << 16 | (u32)index[11] << 24;
}

/* Is this an SFrame section, by type or by name? Checks up to @names names. */
static bool is_sframe(const struct image *image, const Elf64_Shdr *shdr, u64 strings,
		      unsigned int *names)
{
	const char *name;

	if ((shdr->sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) != SHF_ALLOC)
		return false;
	if (shdr->sh_type == SHT_GNU_SFRAME)
		return true;
	if (shdr->sh_type != SHT_PROGBITS || !strings || !*names)
		return false;
	--*names;
	name = image_part(image, strings + shdr->sh_name, sizeof(".sframe"), ELF_T_BYTE);
	return name && !memcmp(name, ".sframe", sizeof(".sframe"));
}

/*
 * Find the section header of the first SFrame section, or NULL. Read the headers from the file:
 * libelf returns none if the last ones are missing.
 */
static const Elf64_Shdr *sframe_shdr(const struct image *image)
{
	const Elf64_Ehdr *ehdr = elf64_getehdr(image->elf);
	unsigned int nr = ehdr->e_shnum, names = KERNEL_NAMES;
	const Elf64_Shdr *strings, *shdrs;

	if (ehdr->e_shentsize != sizeof(*shdrs) || ehdr->e_shstrndx >= nr ||
	    ehdr->e_shoff > image->size)
		return NULL;
	if (nr > KERNEL_SHDRS)
		nr = KERNEL_SHDRS;
	if (nr > (image->size - ehdr->e_shoff) / sizeof(*shdrs))
		nr = (image->size - ehdr->e_shoff) / sizeof(*shdrs) & -KERNEL_BATCH;
	strings = image_part(image, ehdr->e_shoff + ehdr->e_shstrndx * sizeof(*strings),
			     sizeof(*strings), ELF_T_SHDR);
	shdrs = image_part(image, ehdr->e_shoff, nr * sizeof(*shdrs), ELF_T_SHDR);
	for (unsigned int i = 0; strings && shdrs && i < nr; i++) {
		if (is_sframe(image, &shdrs[i], strings->sh_offset, &names) && shdrs[i].sh_size)
			return &shdrs[i];
	}
	return NULL;
}

/**
 * image_sframe - find the SFrame section of a file
 * @image:	the file
 * @addr:	set to its address
 * @offset:	set to its offset in the file
 * @size:	set to its size, cut off at the end of the file: some linkers write a size
 *		that is too large
 *
 * Like kernel/unwind/elf.c: use the program header, or the section header if there is no
 * program header.
 *
 * Return: 0; -ENODATA if there is none; -EBADMSG if it is outside the file.
 */
int image_sframe(const struct image *image, u64 *addr, u64 *offset, u64 *size)
{
	const Elf64_Shdr *shdr;
	GElf_Phdr phdr;

	if (find_phdr(image, PT_GNU_SFRAME, &phdr)) {
		*addr = phdr.p_vaddr;
		*offset = phdr.p_offset;
		*size = phdr.p_filesz;
	} else {
		shdr = sframe_shdr(image);
		if (!shdr)
			return -ENODATA;
		*addr = shdr->sh_addr;
		*offset = shdr->sh_offset;
		*size = shdr->sh_size;
	}
	if (*offset >= image->size)
		return -EBADMSG;
	if (*size > image->size - *offset)
		*size = image->size - *offset;
	return 0;
}

/**
 * image_check_sections - check that a file has all its section headers
 * @image:	the file
 *
 * They are mostly at its end. If some are missing, libelf returns none, and no error. Neither the
 * kernel nor image_sframe() needs them all, so opening such a file is no error.
 *
 * Return: 0, or a negative errno.
 */
int image_check_sections(struct image *image)
{
	const Elf64_Ehdr *ehdr = elf64_getehdr(image->elf);

	if (!ehdr->e_shoff || !ehdr->e_shnum)
		return image_error(image, ENODATA, "has no section headers");
	if (ehdr->e_shoff > image->size ||
	    ehdr->e_shnum * sizeof(Elf64_Shdr) > image->size - ehdr->e_shoff)
		return image_error(image, EBADMSG, "is truncated: it lacks section headers");
	return 0;
}

/**
 * image_open_cfi - find .eh_frame
 * @image:	the file; @image->eh_frame and @image->eh_addr are set
 *
 * Return: 0, or a negative errno.
 */
int image_open_cfi(struct image *image)
{
	int ret = image_check_sections(image);
	GElf_Shdr shdr;
	Elf_Scn *scn;

	if (ret)
		return ret;
	scn = image_section(image, ".eh_frame", &shdr);
	if (!scn || shdr.sh_type == SHT_NOBITS || !shdr.sh_size)
		return image_error(image, ENODATA, "has no .eh_frame");
	if (shdr.sh_offset > image->size || shdr.sh_size > image->size - shdr.sh_offset)
		return image_error(image, EBADMSG, "is truncated: it lacks .eh_frame");
	/* Get the raw data: files of these types have no relocations for it. */
	image->eh_frame = elf_getdata_rawchunk(image->elf, shdr.sh_offset, shdr.sh_size,
					       ELF_T_BYTE);
	if (!image->eh_frame || !image->eh_frame->d_buf)
		return image_error(image, EIO, "cannot be read: %s", elf_errmsg(-1));
	image->eh_addr = shdr.sh_addr;
	return 0;
}
