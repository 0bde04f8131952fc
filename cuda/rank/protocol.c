// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *commands;
static int replies = -1;
static void (*at_end)(void);

// The next command. There is at most one: the parent sends a command after the reply to the last.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char next_line[PROTOCOL_LINE_MAX];
static int has_next;

static void *read_commands(void *unused)
{
	(void)unused;
	char line[PROTOCOL_LINE_MAX];
	while (fgets(line, sizeof(line), commands) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		pthread_mutex_lock(&lock);
		while (has_next)
			pthread_cond_wait(&changed, &lock);
		memcpy(next_line, line, sizeof(next_line));
		has_next = 1;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	at_end();
	return NULL;
}

int protocol_open(void (*on_end)(void))
{
	at_end = on_end;
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	replies = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in < 0 || replies < 0 || null < 0)
		return -1;
	if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -1;
	close(null);
	commands = fdopen(in, "r");
	if (commands == NULL)
		return -1;
	pthread_t thread;
	errno = pthread_create(&thread, NULL, read_commands, NULL);
	if (errno != 0)
		return -1;
	pthread_detach(thread);
	return 0;
}

void protocol_split(struct command *c)
{
	char *rest = c->line;
	c->words = 0;
	c->verb = strsep(&rest, " ");
	while (rest != NULL && c->words < PROTOCOL_WORDS_MAX) {
		char *value = strsep(&rest, " ");
		const char *key = strsep(&value, "=");
		c->keys[c->words] = key;
		c->values[c->words++] = value != NULL ? value : "";
	}
}

void protocol_next(struct command *c)
{
	pthread_mutex_lock(&lock);
	while (!has_next)
		pthread_cond_wait(&changed, &lock);
	memcpy(c->line, next_line, sizeof(c->line));
	has_next = 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	protocol_split(c);
}

const char *protocol_value(const struct command *c, const char *key)
{
	for (int i = 0; i < c->words; i++)
		if (strcmp(c->keys[i], key) == 0)
			return c->values[i];
	return NULL;
}

int protocol_number(const struct command *c, const char *key, int64_t low, int64_t high, int64_t *out)
{
	const char *value = protocol_value(c, key);
	if (value == NULL || *value == '\0')
		return -1;
	char *end;
	errno = 0;
	long long number = strtoll(value, &end, 10);
	if (errno != 0 || *end != '\0' || number < low || number > high)
		return -1;
	*out = number;
	return 0;
}

void protocol_reply(const char *format, ...)
{
	char line[PROTOCOL_LINE_MAX];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (length < 0)
		return;
	size_t n = (size_t)length < sizeof(line) - 2 ? (size_t)length : sizeof(line) - 2;
	for (size_t i = 0; i < n; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	line[n++] = '\n';
	// A line is shorter than PIPE_BUF, so write is atomic. If the parent has ended, the reading thread notices it.
	while (write(replies, line, n) < 0 && errno == EINTR)
		continue;
}
