// SPDX-License-Identifier: Apache-2.0
//
// Finds the fabric that this process uses before it joins it, and reads the header of its file, as state.Dir does in
// Go. For code that must not wait for Go: constructors, and the software CUDA.
#ifndef DDLEMU_STATE_FIND_H
#define DDLEMU_STATE_FIND_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layout.h"

#define DDLEMU_STATE_MAGIC 0x31756d656c6464ffull // state.Magic

// ddlemu_only_fabric finds the file of the only fabric in the folder that is up for any job, as state.Dir.Shared does.
// Returns 0 if there is none, or if there are several.
static inline int ddlemu_only_fabric(DIR *d, char *name, size_t size)
{
	int found = 0;
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		size_t n = strlen(e->d_name);
		if (n <= 7 || n >= size || strcmp(e->d_name + n - 7, ".fabric") != 0 || e->d_name[0] == '.' ||
			strncmp(e->d_name, "adhoc-", 6) == 0 || strncmp(e->d_name, "job-", 4) == 0)
			continue;
		if (found++)
			return 0;
		memcpy(name, e->d_name, n + 1);
	}
	return found;
}

// ddlemu_is_private says whether a file is of the given type, belongs to this user, and is closed to everybody else.
// Others are ignored here, and refused by Go.
static inline int ddlemu_is_private(int fd, mode_t type)
{
	struct stat st;
	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == getuid() && (st.st_mode & 077) == 0;
}

// ddlemu_read_header reads the header of the fabric that DDLEMU_FABRIC names, or of the only one that is up. Returns
// the open file, -1 if there is none, or if it is of another version. A process that may have joined the fabric must
// never close the file: that drops its record locks, by which the others see that it is alive.
static inline int ddlemu_read_header(struct ddlemu_header *h)
{
	char path[64], name[280];
	const char *dir = getenv("DDLEMU_DIR"), *want = getenv("DDLEMU_FABRIC");
	if (dir == NULL || *dir == '\0') {
		snprintf(path, sizeof path, "/dev/shm/ddlemu-%u", (unsigned)getuid());
		dir = path;
	}
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 || !ddlemu_is_private(fd, S_IFDIR) ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	int named, file = -1;
	if (want != NULL && *want != '\0')
		named = (size_t)snprintf(name, sizeof name, "%s.fabric", want) < sizeof name &&
			strchr(want, '/') == NULL;
	else
		named = ddlemu_only_fabric(d, name, sizeof name);
	if (named)
		file = openat(dirfd(d), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	closedir(d);
	if (file >= 0 && ddlemu_is_private(file, S_IFREG) && read(file, h, sizeof *h) == (ssize_t)sizeof *h &&
		h->magic == DDLEMU_STATE_MAGIC && h->version == DDLEMU_STATE_VERSION)
		return file;
	return -1; // a file of another version stays open: see above
}

#endif
