// SPDX-License-Identifier: GPL-2.0
/*
 * Short files of the kernel.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

int file_get(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, text, size - 1);
	close(fd);
	text[got < 0 ? 0 : got] = '\0';
	return got < 0 ? -1 : 0;
}

int file_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return ret;
}

int file_print(const char *dir, const char *name, const char *format, ...)
{
	char path[512], text[128];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return file_put(path, text);
}

long file_number(const char *dir, const char *name, const char *key)
{
	char path[512], text[8192], *line;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (file_get(path, text, sizeof(text)))
		return -1;
	if (!key)
		return atol(text);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			return atol(line + strlen(key));
	}
	return -1;
}
