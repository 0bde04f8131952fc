// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: functions of glibc 2.38 that Debian's archive uses, for hosts with an older glibc. They differ from
// the old functions only in that they also read binary numbers (0b1).
#include <stdarg.h>
#include <stdio.h>

// The old functions, under names that glibc's headers do not redirect to the new ones.
extern "C" {
long old_strtol(const char *, char **, int) __asm__("strtol");
long long old_strtoll(const char *, char **, int) __asm__("strtoll");
unsigned long old_strtoul(const char *, char **, int) __asm__("strtoul");
unsigned long long old_strtoull(const char *, char **, int) __asm__("strtoull");
int old_vsscanf(const char *, const char *, va_list) __asm__("__isoc99_vsscanf");
int old_vfscanf(FILE *, const char *, va_list) __asm__("__isoc99_vfscanf");

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN long __isoc23_strtol(const char *text, char **end, int base) { return old_strtol(text, end, base); }
HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base) { return old_strtoll(text, end, base); }
HIDDEN unsigned long __isoc23_strtoul(const char *text, char **end, int base) { return old_strtoul(text, end, base); }
HIDDEN unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
	return old_strtoull(text, end, base);
}

HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const int n = old_vsscanf(text, format, args);
	va_end(args);
	return n;
}

HIDDEN int __isoc23_fscanf(FILE *file, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const int n = old_vfscanf(file, format, args);
	va_end(args);
	return n;
}
}
