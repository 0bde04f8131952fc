// SPDX-License-Identifier: Apache-2.0
// What a process uses, from /proc, for tests that look for leaks.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// count_entries counts the entries of a folder, such as /proc/self/task or /proc/self/fd.
static inline int count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

// status_kib returns a line of /proc/self/status, such as "RssShmem:" (memfd pages) or "RssAnon:", in KiB.
static inline long status_kib(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, key, strlen(key)))
			kib = atol(line + strlen(key));
	fclose(f);
	return kib;
}
