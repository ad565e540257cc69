// SPDX-License-Identifier: GPL-2.0
/*
 * api FILE TEXT: use the library as other programs do, with its header and its archive alone.
 * FILE becomes the same section by its name, its descriptor and its bytes, in many threads at
 * once. TEXT, which is not an ELF file, gives an error each way.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sframe.h"

#define THREADS	6

/**
 * struct task - a file to convert, and the result
 * @name:	path of the file
 * @how:	by its name, its descriptor, or its bytes
 * @out:	the section
 * @ret:	the library's return value
 */
struct task {
	const char		*name;
	unsigned int		how;
	struct sframe_output	out;
	int			ret;
};

static void *convert(void *arg)
{
	const struct sframe_options options = { .version = 3 };
	struct task *task = arg;
	struct stat st;
	void *bytes;
	int fd;

	if (!task->how) {
		task->ret = sframe_convert_path(task->name, &options, &task->out);
		return NULL;
	}
	fd = open(task->name, O_RDONLY);
	if (task->how == 1) {
		task->ret = sframe_convert_fd(fd, &options, &task->out);
	} else {
		fstat(fd, &st);
		bytes = malloc(st.st_size);
		if (read(fd, bytes, st.st_size) == st.st_size)
			task->ret = sframe_convert_memory(bytes, st.st_size, &options,
							  &task->out);
		free(bytes);
	}
	close(fd);
	return NULL;
}

static int all(const char *name, int wanted)
{
	struct task tasks[THREADS] = {};
	pthread_t threads[THREADS];
	int bad = 0;

	for (int i = 0; i < THREADS; i++) {
		tasks[i] = (struct task) { .name = name, .how = i % 3, .ret = 1 };
		if (pthread_create(&threads[i], NULL, convert, &tasks[i]))
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		const struct sframe_output *out = &tasks[i].out;

		pthread_join(threads[i], NULL);
		if (tasks[i].ret != wanted || !out->bytes != !!wanted ||
		    !*out->message != !wanted || out->size != tasks[0].out.size ||
		    memcmp(&out->stats, &tasks[0].out.stats, sizeof(out->stats)) ||
		    (!wanted && memcmp(out->bytes, tasks[0].out.bytes, out->size)))
			bad = printf("%s, way %d: %d '%s'\n", name, i % 3, tasks[i].ret,
				     out->message);
	}
	for (int i = 0; i < THREADS; i++)
		sframe_free(&tasks[i].out);
	return bad;
}

int main(int argc, char **argv)
{
	const struct sframe_options options = { .version = 4 };
	struct sframe_output out;

	if (argc < 3 || all(argv[1], 0) || all(argv[2], -ENOEXEC))
		return 1;
	if (sframe_convert_path(argv[1], &options, &out) != -EINVAL || !*out.message)
		return 1;
	return sframe_convert_path("/nonsense", &options, &out) != -ENOENT || !*out.message ||
	       !*sframe_loss_name(SFRAME_LOSS_BAD) || !*sframe_loss_name(SFRAME_LOSS_NR);
}
