// SPDX-License-Identifier: Apache-2.0
//
// Gets the ranges that the program marks by NVTX (nvtx_abi.h), for the ledger. Each program or library that uses NVTX
// calls InitializeInjectionNvtx2 for itself, often before NCCL loads this library as its net plugin. NCCL's own ranges,
// which have the domain "NCCL", are left out: the ledger has NCCL's calls.
//
// A handle of a domain or of a registered text is the number of its name.

#define _GNU_SOURCE
#include "nvtx_abi.h"

#include <string.h>
#include <wchar.h>

#include "glue.h"
#include "ranges.h"

#define LONGEST 255 // bytes of a name; a longer one is cut
#define NCCLS ((void *)UINTPTR_MAX) // the domain of NCCL

// --- names

// name_of is the number of a text.
static uint32_t name_of(const char *text)
{
	if (text == NULL)
		return 0;
	size_t n = strnlen(text, LONGEST + 1);
	if (n > LONGEST)
		for (n = LONGEST; n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80; n--) // not within a character of UTF-8
			;
	return ranges_name(text, n);
}

// encode writes a character as UTF-8, and returns its bytes.
static size_t encode(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	const size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const uint8_t first[] = { 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = more; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[more] | c);
	return more + 1;
}

static uint32_t name_of_wide(const wchar_t *text)
{
	char out[LONGEST];
	size_t n = 0;
	for (; text != NULL && *text != 0 && n + 4 <= sizeof out; text++)
		n += encode((uint32_t)*text <= 0x10ffff ? (uint32_t)*text : 0xfffd, out + n);
	return ranges_name(out, n);
}

static uint32_t number_of(const void *handle)
{
	return ranges_has_name((uintptr_t)handle) ? (uint32_t)(uintptr_t)handle : 0;
}

static uint32_t name_in(const struct nvtx_attributes *a)
{
	if (a == NULL || a->size < sizeof *a)
		return 0;
	switch (a->text_type) {
	case NVTX_TEXT:
		return name_of(a->text.text);
	case NVTX_WIDE_TEXT:
		return name_of_wide(a->text.wide);
	case NVTX_REGISTERED:
		return number_of(a->text.registered);
	}
	return 0;
}

// --- the calls of a domain

// is_dropped says whether a call is not for the ledger: NCCL's own, or one in a forked child, which has no ledger.
static int is_dropped(const void *domain) { return domain == NCCLS || net_forked(); }

static void domain_mark(void *domain, const struct nvtx_attributes *a)
{
	uint64_t id;
	if (!is_dropped(domain))
		ranges_begin(DDLEMU_MARK, number_of(domain), name_in(a), &id);
}

static uint64_t domain_start(void *domain, const struct nvtx_attributes *a)
{
	uint64_t id = 0;
	if (!is_dropped(domain))
		ranges_begin(DDLEMU_STARTED, number_of(domain), name_in(a), &id);
	return id;
}

static void domain_end(void *domain, uint64_t id)
{
	if (!is_dropped(domain))
		ranges_end(id);
}

static int domain_push(void *domain, const struct nvtx_attributes *a)
{
	uint64_t id;
	return is_dropped(domain) ? NVTX_NO_TRACKING : ranges_begin(DDLEMU_PUSHED, number_of(domain), name_in(a), &id);
}

static int domain_pop(void *domain) { return is_dropped(domain) ? NVTX_NO_TRACKING : ranges_pop(number_of(domain)); }

static void *register_text(void *domain, const char *text)
{
	return is_dropped(domain) ? NULL : (void *)(uintptr_t)name_of(text);
}

static void *register_wide(void *domain, const wchar_t *text)
{
	return is_dropped(domain) ? NULL : (void *)(uintptr_t)name_of_wide(text);
}

static void *create(const char *name)
{
	return name != NULL && strcmp(name, "NCCL") == 0 ? NCCLS : register_text(NULL, name);
}

static void *create_wide(const wchar_t *name)
{
	return name != NULL && wcscmp(name, L"NCCL") == 0 ? NCCLS : register_wide(NULL, name);
}

// --- the calls without a domain

#define TEXT(s) \
	(&(struct nvtx_attributes){ .size = sizeof(struct nvtx_attributes), .text_type = NVTX_TEXT, .text.text = (s) })
#define WIDE(s) \
	(&(struct nvtx_attributes){ \
		.size = sizeof(struct nvtx_attributes), .text_type = NVTX_WIDE_TEXT, .text.wide = (s) })

static void mark(const struct nvtx_attributes *a) { domain_mark(NULL, a); }
static void mark_text(const char *s) { domain_mark(NULL, TEXT(s)); }
static void mark_wide(const wchar_t *s) { domain_mark(NULL, WIDE(s)); }
static uint64_t start(const struct nvtx_attributes *a) { return domain_start(NULL, a); }
static uint64_t start_text(const char *s) { return domain_start(NULL, TEXT(s)); }
static uint64_t start_wide(const wchar_t *s) { return domain_start(NULL, WIDE(s)); }
static void end(uint64_t id) { domain_end(NULL, id); }
static int push(const struct nvtx_attributes *a) { return domain_push(NULL, a); }
static int push_text(const char *s) { return domain_push(NULL, TEXT(s)); }
static int push_wide(const wchar_t *s) { return domain_push(NULL, WIDE(s)); }
static int pop(void) { return domain_pop(NULL); }

// --- the injection

#define CALL(f) ((nvtx_call)(uintptr_t)(f))

static const nvtx_call core_calls[NVTX_CORE_CALLS] = {
	[NVTX_MARK_EX] = CALL(mark),
	[NVTX_MARK_A] = CALL(mark_text),
	[NVTX_MARK_W] = CALL(mark_wide),
	[NVTX_RANGE_START_EX] = CALL(start),
	[NVTX_RANGE_START_A] = CALL(start_text),
	[NVTX_RANGE_START_W] = CALL(start_wide),
	[NVTX_RANGE_END] = CALL(end),
	[NVTX_RANGE_PUSH_EX] = CALL(push),
	[NVTX_RANGE_PUSH_A] = CALL(push_text),
	[NVTX_RANGE_PUSH_W] = CALL(push_wide),
	[NVTX_RANGE_POP] = CALL(pop),
};

static const nvtx_call domain_calls[NVTX_DOMAIN_CALLS] = {
	[NVTX_DOMAIN_MARK_EX] = CALL(domain_mark),
	[NVTX_DOMAIN_RANGE_START_EX] = CALL(domain_start),
	[NVTX_DOMAIN_RANGE_END] = CALL(domain_end),
	[NVTX_DOMAIN_RANGE_PUSH_EX] = CALL(domain_push),
	[NVTX_DOMAIN_RANGE_POP] = CALL(domain_pop),
	[NVTX_DOMAIN_REGISTER_STRING_A] = CALL(register_text),
	[NVTX_DOMAIN_REGISTER_STRING_W] = CALL(register_wide),
	[NVTX_DOMAIN_CREATE_A] = CALL(create),
	[NVTX_DOMAIN_CREATE_W] = CALL(create_wide),
};

// take puts the calls into a module's variables. Returns 0 if there is no such module.
static int take(const struct nvtx_tables *tables, int module, const nvtx_call *calls, unsigned count)
{
	nvtx_call **table;
	unsigned size;
	if (!tables->of_module(module, &table, &size))
		return 0;
	for (unsigned i = 0; i < count && i < size; i++)
		if (calls[i] != NULL && table[i] != NULL)
			*table[i] = calls[i];
	return 1;
}

static int is_traced(void)
{
	const char *folder = net_getenv("DDLEMU_TRACE");
	return folder != NULL && *folder != 0 && !net_forked();
}

void ddlemu_mark(const char *name)
{
	if (is_traced())
		mark_text(name);
}

// Returns 0 if there is nothing to do: then NVTX unloads the library, and its calls do nothing.
int InitializeInjectionNvtx2(nvtx_get_table get)
{
	if (!is_traced())
		return 0;
	const struct nvtx_tables *tables = get(NVTX_TABLE_OF_CALLS);
	if (tables == NULL || tables->size < sizeof *tables)
		return 0;
	return take(tables, NVTX_MODULE_CORE, core_calls, NVTX_CORE_CALLS) &&
		take(tables, NVTX_MODULE_DOMAINS, domain_calls, NVTX_DOMAIN_CALLS);
}
