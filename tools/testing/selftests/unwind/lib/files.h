/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Short files of the kernel.
 */
#ifndef _UNWIND_FILES_H
#define _UNWIND_FILES_H

#include <stddef.h>

/* Read or write a whole short file; 0 or -1. */
int file_get(const char *path, char *text, size_t size);
int file_put(const char *path, const char *text);

/* Print text to the file @name in @dir. */
int file_print(const char *dir, const char *name, const char *format, ...);

/* The number in a file of @dir, in line @key unless that is NULL; -1 if not found. */
long file_number(const char *dir, const char *name, const char *key);

#endif /* _UNWIND_FILES_H */
