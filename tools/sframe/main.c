// SPDX-License-Identifier: GPL-2.0
/*
 * sframe: make, print, check and install SFrame sections of programs and libraries.
 *
 * Each error message is one sentence. Exit status: 0, 1 if something failed or differs, 2 if
 * the command line is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "session.h"

static const char usage[] =
"Usage: sframe convert [-o OUT] [--format 2|3] [--address ADDR] FILE\n"
"       sframe dump [--address ADDR] FILE\n"
"       sframe check [--format 2|3] [--address ADDR] [--partial] FILE [SECTION]\n"
"       sframe install [-o OUT] [--format 2|3] FILE\n"
"       sframe run [--all | --pid PID] [--cache DIR] [--verbose] COMMAND...\n"
"       sframe --help\n"
"\n"
"convert  makes an SFrame section of the .eh_frame of FILE, and writes it to\n"
"         OUT, or FILE.sframe\n"
"dump     prints the section of FILE, which is an ELF file or a section\n"
"check    compares SECTION, or the section of FILE, or what convert makes,\n"
"         with .eh_frame of FILE; status 1 if they differ\n"
"install  adds a section to FILE, or writes that to OUT\n"
"run      runs COMMAND, while the kernel has sections for all that it, the\n"
"         process PID, or any process maps; those are kept in a cache\n"
"\n"
"  -o, --output OUT     file to write; - is standard output\n"
"  -f, --format 2|3     version of SFrame, 3 by default\n"
"  -a, --address ADDR   address of the section, 0 by default\n"
"  -p, --partial        it is no difference if something is missing\n"
"  -v, --verbose        say what is in the section that was made, or what run does\n";

/**
 * struct command - the command line
 * @file:	file to work on
 * @section:	file with a section, or NULL
 * @output:	file to write, or NULL
 * @options:	options of the conversion
 * @addr:	--address was given
 * @format:	--format was given
 * @partial:	option of check
 * @verbose:	print more
 */
struct command {
	const char		*file;
	const char		*section;
	const char		*output;
	struct sframe_options	options;
	bool			addr;
	bool			format;
	bool			partial;
	bool			verbose;
};

/**
 * fail - print an error message
 * @status:	exit status to return
 * @format:	format of the message
 *
 * Return: @status.
 */
int fail(int status, const char *format, ...)
{
	va_list args;

	fputs("sframe: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return status;
}

/**
 * fail_option - print an error message after getopt_long() returned '?'
 * @status:	exit status to return
 * @known:	letters of all options
 * @arg:	the argument that it parsed last
 *
 * Return: @status.
 */
int fail_option(int status, const char *known, const char *arg)
{
	if (!optopt)
		return fail(status, "there is no option '%s'", arg);
	/* Only a long option with a value can be known and wrong. */
	if (strchr(known, optopt))
		return fail(status, "'%s' has a value, but takes none", arg);
	return fail(status, "there is no option '-%c'", optopt);
}

/**
 * help - print the usage
 */
void help(void)
{
	fputs(usage, stdout);
}

/* Read an open file, and get its status from before that. */
static int read_fd(int fd, u8 **bytes, size_t *size, struct stat *st)
{
	ssize_t got;

	if (fstat(fd, st))
		return -errno;
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if ((u64)st->st_size > FILE_SIZE_MAX)
		return -EFBIG;
	*bytes = malloc(st->st_size + 1);
	if (!*bytes)
		return -ENOMEM;
	for (*size = 0; *size < (size_t)st->st_size; *size += got) {
		got = read(fd, *bytes + *size, st->st_size - *size);
		if (got < 0) {
			got = errno;
			free(*bytes);
			return -got;
		}
		if (!got)
			break;
	}
	return 0;
}

/* Open and read a file. Returns 0, and the caller closes @fd; or 1 after a message. */
static int read_open(const char *name, int *fd, u8 **bytes, size_t *size, struct stat *st)
{
	int ret;

	*fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0)
		return fail(1, "%s: cannot be opened: %s", name, strerror(errno));
	ret = read_fd(*fd, bytes, size, st);
	if (!ret)
		return 0;
	close(*fd);
	if (ret == -EINVAL)
		return fail(1, "%s: is not a regular file", name);
	if (ret == -EFBIG)
		return fail(1, "%s: is larger than %llu GiB", name, FILE_SIZE_MAX >> 30);
	return fail(1, "%s: cannot be read: %s", name, strerror(-ret));
}

static int read_file(const char *name, u8 **bytes, size_t *size)
{
	struct stat st;
	int fd, ret = read_open(name, &fd, bytes, size, &st);

	if (!ret)
		close(fd);
	return ret;
}

static void say_stats(const struct command *command, const struct sframe_output *out)
{
	const struct sframe_stats *stats = &out->stats;

	if (!command->verbose)
		return;
	fprintf(stderr, "%s: %" PRIu64 " functions, %" PRIu64 " FDEs, %" PRIu64
		" rows, %zu bytes; of %" PRIu64 " bytes of code with .eh_frame", command->file,
		stats->functions, stats->fdes, stats->rows, out->size, stats->covered);
	for (unsigned int i = 0; i < SFRAME_LOSS_NR; i++) {
		if (stats->lost[i])
			fprintf(stderr, ", lost %" PRIu64 ": %s", stats->lost[i],
				sframe_loss_name(i));
	}
	fputc('\n', stderr);
}

static int write_out(const char *name, const struct new_file *file)
{
	const char *why;

	/* What is left takes little time, and an end here would leave a temporary file. */
	signal(SIGXCPU, SIG_IGN);
	why = write_file(name, file);
	return why ? fail(1, "%s: cannot be written: %s", name, why) : 0;
}

/* The output may be another name of the file itself; - is standard output. */
static bool is_file(const char *output, const struct stat *read)
{
	struct stat st;

	return strcmp(output, "-") && !stat(output, &st) && st.st_dev == read->st_dev &&
	       st.st_ino == read->st_ino;
}

static int convert_to(const struct command *command, const char *name)
{
	struct new_file file = { .mode = 0644, .former = -1 };
	struct sframe_output out;
	struct stat st;
	int ret;

	/* A user of -o may mean install, which would keep the program. */
	if (!stat(command->file, &st) && is_file(name, &st))
		return fail(1, "%s: is the file to convert, and not replaced by its section", name);
	if (sframe_convert_path(command->file, &command->options, &out))
		return fail(1, "%s: %s", command->file, out.message);
	file.bytes = out.bytes;
	file.size = out.size;
	ret = write_out(name, &file);
	if (!ret)
		say_stats(command, &out);
	sframe_free(&out);
	return ret;
}

static int do_convert(const struct command *command)
{
	char *name = NULL;
	int ret;

	if (command->output)
		return convert_to(command, command->output);
	if (asprintf(&name, "%s.sframe", command->file) < 0)
		return fail(1, "there is no memory");
	ret = convert_to(command, name);
	free(name);
	return ret;
}

/* Find the section of an ELF file. Returns -ENODATA if it has none, or another error. */
static int section_of(struct image *image, const u8 *bytes, struct section *section)
{
	u64 offset, size;
	int ret;

	ret = image_sframe(image, &section->addr, &offset, &size);
	if (ret == -EBADMSG)
		return image_error(image, EBADMSG, "is truncated: it lacks .sframe");
	if (ret)
		return image_error(image, ENODATA, "has no .sframe");
	section->bytes = bytes + offset;
	section->size = size;
	return 0;
}

static bool is_section(const u8 *bytes, size_t size)
{
	return size >= 2 && bytes[0] == (SFRAME_MAGIC & 0xff) && bytes[1] == SFRAME_MAGIC >> 8;
}

static int do_dump(const struct command *command)
{
	struct section section = { .addr = command->options.addr };
	char message[SFRAME_MESSAGE];
	struct image image;
	u8 *bytes;
	size_t size;
	int ret;

	ret = read_file(command->file, &bytes, &size);
	if (ret)
		return ret;
	if (is_section(bytes, size)) {
		section.bytes = bytes;
		section.size = size;
		ret = dump_section(&section, command->file);
	} else if (image_open_memory(&image, bytes, size, message)) {
		ret = fail(1, "%s: %s", command->file, message);
	} else {
		ret = section_of(&image, bytes, &section) ?
			fail(1, "%s: %s", command->file, message) :
			dump_section(&section, command->file);
		image_close(&image);
	}
	free(bytes);
	return ret;
}

/* Get the section to check, in @out if it was read or converted for this. */
static int section_to_check(const struct command *command, struct image *image,
			    const u8 *bytes, struct section *section,
			    struct sframe_output *out)
{
	int ret = -ENODATA;

	if (command->section) {
		ret = read_file(command->section, &out->bytes, &out->size);
		if (ret)
			return ret;
	} else {
		if (!command->format && !command->addr)
			ret = section_of(image, bytes, section);
		if (ret == -ENODATA)
			ret = convert_image(image, &command->options, out);
		if (ret)
			return fail(1, "%s: %s", command->file, image->message);
		if (!out->bytes)
			return 0;
	}
	section->bytes = out->bytes;
	section->size = out->size;
	section->addr = command->options.addr;
	return 0;
}

static int check_image(const struct command *command, struct image *image,
		       const u8 *bytes)
{
	struct sframe_output out = {};
	struct section section = {};
	int ret;

	ret = section_to_check(command, image, bytes, &section, &out);
	if (ret)
		return ret;
	ret = image_open_cfi(image);
	if (!ret)
		ret = check_section(image, &section, command->file, command->partial);
	if (ret < 0)
		ret = fail(1, "%s: %s", command->file, image->message);
	sframe_free(&out);
	return ret;
}

static int do_check(const struct command *command)
{
	char message[SFRAME_MESSAGE];
	struct image image;
	u8 *bytes;
	size_t size;
	int ret;

	ret = read_file(command->file, &bytes, &size);
	if (ret)
		return ret;
	if (image_open_memory(&image, bytes, size, message)) {
		ret = fail(1, "%s: %s", command->file, message);
	} else {
		ret = check_image(command, &image, bytes);
		image_close(&image);
	}
	free(bytes);
	return ret;
}

/* Keep the file open until it is replaced: another file with its name is not replaced. */
static int install_file(const struct command *command, struct new_file *file,
			const u8 *bytes, size_t size)
{
	struct sframe_output out = {};
	char message[SFRAME_MESSAGE];
	struct image image;
	int ret;

	ret = image_open_memory(&image, bytes, size, message);
	if (!ret) {
		ret = install_image(&image, bytes, size, command->options.version, &out);
		image_close(&image);
	}
	if (ret)
		return fail(1, "%s: %s", command->file, message);
	file->bytes = out.bytes;
	file->size = out.size;
	ret = write_out(command->output ?: command->file, file);
	if (!ret)
		say_stats(command, &out);
	sframe_free(&out);
	return ret;
}

static int do_install(const struct command *command)
{
	struct new_file file;
	size_t size;
	int fd, ret;
	u8 *bytes;

	ret = read_open(command->file, &fd, &bytes, &size, &file.read);
	if (ret)
		return ret;
	file.former = !command->output || is_file(command->output, &file.read) ? fd : -1;
	file.mode = file.read.st_mode;
	ret = install_file(command, &file, bytes, size);
	free(bytes);
	close(fd);
	return ret;
}

static bool parse_number(const char *text, u64 *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	return !errno && *text >= '0' && *text <= '9' && !*end;
}

/* Returns 0, -1 if nothing is left to do, or the status of an error. */
static int parse(int argc, char **argv, struct command *command)
{
	static const struct option options[] = {
		{ "output",	required_argument,	NULL, 'o' },
		{ "format",	required_argument,	NULL, 'f' },
		{ "address",	required_argument,	NULL, 'a' },
		{ "partial",	no_argument,		NULL, 'p' },
		{ "verbose",	no_argument,		NULL, 'v' },
		{ "help",	no_argument,		NULL, 'h' },
		{}
	};
	u64 version;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":o:f:a:pvh", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			command->output = optarg;
			break;
		case 'f':
			if (!parse_number(optarg, &version) || version < 2 || version > 3)
				return fail(2, "--format takes 2 or 3, and not '%s'", optarg);
			command->options.version = version;
			command->format = true;
			break;
		case 'a':
			if (!parse_number(optarg, &command->options.addr))
				return fail(2, "--address takes a number, and not '%s'", optarg);
			command->addr = true;
			break;
		case 'p':
			command->partial = true;
			break;
		case 'v':
			command->verbose = true;
			break;
		case 'h':
			help();
			return -1;
		case ':':
			return fail(2, "'%s' lacks its value", argv[optind - 1]);
		default:
			return fail_option(2, "ofapvh", argv[optind - 1]);
		}
	}
	return 0;
}

static const struct verb {
	const char	*name;
	int		(*run)(const struct command *command);
	int		files;
} verbs[] = {
	{ "convert",	do_convert,	1 },
	{ "dump",	do_dump,	1 },
	{ "check",	do_check,	2 },
	{ "install",	do_install,	1 },
};

/* SIGXCPU: nothing but write() is safe here. */
static void take_too_long(int sig)
{
	static const char text[] = "sframe: the file takes too much CPU time\n";
	ssize_t done = write(STDERR_FILENO, text, sizeof(text) - 1);

	_exit(done < 0 ? sig : 1);
}

static int run_verb(const struct verb *verb, int argc, char **argv, struct command *command)
{
	int nr = argc - optind, ret;
	struct stat st;

	if (!nr)
		return fail(2, "%s needs a FILE", verb->name);
	if (nr > verb->files)
		return fail(2, "%s takes no '%s'", verb->name, argv[optind + verb->files]);
	command->file = argv[optind];
	command->section = nr > 1 ? argv[optind + 1] : NULL;
	if (verb->run == do_install && command->addr)
		return fail(2, "install finds an address itself");
	/* The other verbs read the file into memory, and install makes a new one there. */
	if (verb->run == do_convert || stat(command->file, &st))
		st.st_size = 0;
	image_limit_memory(2 * (u64)st.st_size);
	job_limit_cpu(JOB_SECONDS);
	signal(SIGXCPU, take_too_long);
	ret = verb->run(command);
	if (fflush(stdout) || ferror(stdout))
		return fail(1, "standard output cannot be written: %s", strerror(errno));
	return ret;
}

int main(int argc, char **argv)
{
	struct command command = {};
	int ret;

	if (argc < 2)
		return fail(2, "needs a verb: convert, dump, check, install or run");
	if (argv[1][0] == '-') {
		ret = parse(argc, argv, &command);
		return ret < 0 ? 0 : ret ?: fail(2, "options come after the verb");
	}
	/* run parses its own options, which end at the command. */
	if (!strcmp(argv[1], "run"))
		return run_main(argc - 1, argv + 1);
	for (unsigned int i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (strcmp(argv[1], verbs[i].name))
			continue;
		ret = parse(argc - 1, argv + 1, &command);
		if (ret)
			return ret < 0 ? 0 : ret;
		return run_verb(&verbs[i], argc - 1, argv + 1, &command);
	}
	return fail(2, "there is no verb '%s'", argv[1]);
}
