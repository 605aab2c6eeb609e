// SPDX-License-Identifier: Apache-2.0
// Compares lists of names and values over all ranks with rank 0's, after settings or files have
// been read, and reports the first difference with both values and hosts. Callers add the facts;
// the order in which they add them must be the same on every rank.
#include "train/machine/rank_facts.h"

#include "core/checksum.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "settings/settings.h"

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 256, SHOWN = 200 }; // bytes of a value, and of a longer one in messages

// --- the list -----------------------------------------------------------------------------------

static void add_text(struct rank_facts *facts, const char *text) {
    buffer_put(&facts->text, text, strlen(text) + 1);
}

// A longer value ends with its checksum.
void rank_facts_add(struct rank_facts *facts, const char *name, const char *source,
                    const char *value) {
    add_text(facts, name);
    add_text(facts, source != NULL ? source : "");
    if (strlen(value) < TEXT_SIZE) {
        add_text(facts, value);
        return;
    }
    buffer_print(&facts->text, "%.*s... (checksum %016" PRIx64 ")", UTF8_SHOWN(value, SHOWN),
                 checksum_bytes(value, strlen(value)));
    buffer_put_byte(&facts->text, '\0');
}

void rank_facts_add_number(struct rank_facts *facts, const char *name, const char *source,
                           int64_t value) {
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "%" PRId64, value);
    rank_facts_add(facts, name, source, text);
}

void rank_facts_add_checksum(struct rank_facts *facts, const char *name, const char *source,
                             uint64_t value) {
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    rank_facts_add(facts, name, source, text);
}

static void add_setting(struct rank_facts *facts, const struct settings *config,
                        const struct option_row *row) {
    char text[TEXT_SIZE];
    const int is_text = row->type == OPTION_TEXT || row->type == OPTION_LIST;
    const char *value = is_text ? *(const char *const *)((const char *)config + row->offset) : NULL;
    if (value == NULL) {
        settings_print(config, row, text, sizeof text);
        value = text;
    }
    rank_facts_add(facts, row->name, NULL, value);
}

void rank_facts_add_settings(struct rank_facts *facts, const struct settings *config) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (!option_rows[i].local) {
            add_setting(facts, config, &option_rows[i]);
        }
    }
}

// --- comparing ----------------------------------------------------------------------------------

struct fact {
    const char *name, *source, *value;
};

// The fact at *offset of a list, which becomes that of the next one. Without a name at its end.
static struct fact next_fact(const char *list, size_t length, size_t *offset) {
    struct fact fact = {NULL, "", ""};
    const char **const texts[] = {&fact.name, &fact.source, &fact.value};
    for (int i = 0; i < 3 && *offset < length; i++) {
        *texts[i] = list + *offset;
        *offset += strlen(list + *offset) + 1;
    }
    return fact;
}

static int is_same(const struct fact *own, const struct fact *first) {
    return own->name != NULL && first->name != NULL && strcmp(own->name, first->name) == 0 &&
           strcmp(own->value, first->value) == 0;
}

static const char *shown(const char *value) {
    return *value != '\0' ? value : "not set";
}

static enum berth_status report_mismatch(const struct comm *comm, const struct fact *own,
                                         const struct fact *first, struct berth_error *error) {
    const int has_source = *own->source != '\0';
    return error_set(error, has_source ? BERTH_BAD_DATA : BERTH_CONFIG,
                     "rank %d on host %s: %s%s%s%s is %s, but %s on rank 0 (host %s%s%s): it must "
                     "be the same in all processes of a job; compare their programs, their command "
                     "lines and the files named there",
                     comm->rank, comm->host_names[comm->rank], own->name, has_source ? " (" : "",
                     own->source, has_source ? ")" : "", shown(own->value), shown(first->value),
                     comm->host_names[0], has_source ? ", " : "", first->source);
}

static enum berth_status compare(const struct comm *comm, const struct buffer *own,
                                 const char *list, size_t length, struct berth_error *error) {
    size_t own_offset = 0, offset = 0;
    while (own_offset < own->length || offset < length) {
        struct fact mine = next_fact(own->bytes, own->length, &own_offset);
        struct fact first = next_fact(list, length, &offset);
        if (is_same(&mine, &first)) {
            continue;
        }
        if (mine.name == NULL) { // rank 0 has more facts than this rank
            mine = (struct fact){first.name, first.source, ""};
        } else if (first.name == NULL || strcmp(mine.name, first.name) != 0) {
            first = (struct fact){mine.name, mine.source, ""};
        }
        return report_mismatch(comm, &mine, &first, error);
    }
    return BERTH_OK;
}

// *list becomes rank 0's.
static enum berth_status broadcast_list(struct comm *comm, const struct buffer *own, char **list,
                                        uint64_t *length, struct berth_error *error) {
    *length = own->length;
    TRY(comm_settle(
        comm, own->failed ? error_no_memory(error, own->length, "the settings") : BERTH_OK, error));
    comm->broadcast(comm, length, sizeof *length, 0);
    TRY(comm->status(comm, error));
    *list = memory_new(*length + 1);
    TRY(comm_settle(
        comm, *list != NULL ? BERTH_OK : error_no_memory(error, *length, "the settings"), error));
    if (comm->rank == 0) {
        memcpy(*list, own->bytes, own->length);
    }
    comm->broadcast(comm, *list, *length, 0);
    return comm->status(comm, error);
}

enum berth_status rank_facts_compare(struct rank_facts *facts, struct comm *comm,
                                     struct berth_error *error) {
    char *list = NULL;
    uint64_t length;
    enum berth_status status = BERTH_OK;
    if (comm->size > 1) {
        status = broadcast_list(comm, &facts->text, &list, &length, error);
        if (status == BERTH_OK) {
            status = comm_settle(comm, compare(comm, &facts->text, list, length, error), error);
        }
    }
    memory_free(list);
    buffer_done(&facts->text);
    return status;
}

enum berth_status rank_facts_compare_settings(struct comm *comm, const struct settings *config,
                                              struct berth_error *error) {
    struct rank_facts facts = {0};
    rank_facts_add_settings(&facts, config);
    return rank_facts_compare(&facts, comm, error);
}

// Sets *data to a checksum of the code and the constants of the file that holds this function.
// Between constants AddressSanitizer keeps bytes that nothing else may read.
__attribute__((no_sanitize("address"))) static int sum_own_file(struct dl_phdr_info *file,
                                                                size_t size, void *data) {
    const uintptr_t here = (uintptr_t)sum_own_file;
    uint64_t sum = 0;
    int is_own = 0;
    (void)size;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];
        const uintptr_t begin = file->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) == 0) {
            const uint64_t *words = (const uint64_t *)((begin + 7) & ~(uintptr_t)7);
            is_own |= here - begin < segment->p_filesz;
            for (size_t k = 0; k + 1 < segment->p_filesz / sizeof *words; k++) {
                sum = checksum_add(sum, words[k]);
            }
        }
    }
    if (is_own) {
        *(uint64_t *)data = sum;
    }
    return is_own; // which ends the walk
}

enum berth_status rank_facts_compare_job(struct comm *comm, const char *job,
                                         struct berth_error *error) {
    char own[TEXT_SIZE] = "", first[TEXT_SIZE];
    uint64_t build = 0;
    if (comm->size == 1) {
        return BERTH_OK;
    }
    (void)dl_iterate_phdr(sum_own_file, &build);
    snprintf(own, sizeof own, "\"%s\" of berth %s, build %016" PRIx64, job, BERTH_VERSION, build);
    memcpy(first, own, sizeof first);
    comm->broadcast(comm, first, sizeof first, 0);
    TRY(comm->status(comm, error));
    const struct fact mine = {"the job", "", own}, theirs = {"the job", "", first};
    return comm_settle(
        comm, is_same(&mine, &theirs) ? BERTH_OK : report_mismatch(comm, &mine, &theirs, error),
        error);
}
