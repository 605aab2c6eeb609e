// SPDX-License-Identifier: Apache-2.0
#include "train/machine/rank_settings.h"

#include "core/checksum.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 256, SHOWN = 200 }; // bytes of a value, and of a longer one in messages

// The value as text; a longer one ends with its checksum.
static void print_value(const struct berth_config *config, const struct option_row *row,
                        char text[TEXT_SIZE]) {
    const int is_text = row->type == OPTION_TEXT || row->type == OPTION_LIST;
    const char *value = is_text ? *(const char *const *)((const char *)config + row->offset) : NULL;
    if (value == NULL || strlen(value) < TEXT_SIZE) {
        option_print(config, row, text, TEXT_SIZE);
        return;
    }
    snprintf(text, TEXT_SIZE, "%.*s... (checksum %016" PRIx64 ")", UTF8_SHOWN(value, SHOWN),
             checksum_bytes(value, strlen(value)));
}

static enum berth_status report_mismatch(const struct comm *comm, const char *what, const char *own,
                                         const char *first, struct berth_error *error) {
    return error_set(error, BERTH_CONFIG,
                     "rank %d (host %s): %s is %s, but %s on rank 0: it must be the same in all "
                     "processes of a job; compare their command lines and the files named there",
                     comm->rank, comm->host_names[comm->rank], what, *own != '\0' ? own : "not set",
                     *first != '\0' ? first : "not set");
}

enum berth_status rank_settings_compare_job(struct comm *comm, const char *job,
                                            struct berth_error *error) {
    char own[TEXT_SIZE] = "", first[TEXT_SIZE];
    if (comm->size == 1) {
        return BERTH_OK;
    }
    snprintf(own, sizeof own, "\"%s\" of berth %s", job, BERTH_VERSION);
    memcpy(first, own, sizeof first);
    comm->broadcast(comm, first, sizeof first, 0);
    TRY(comm->status(comm, error));
    return comm_settle(
        comm,
        strcmp(own, first) == 0 ? BERTH_OK : report_mismatch(comm, "the job", own, first, error),
        error);
}

// Reports the first setting in which this rank differs from rank 0.
static enum berth_status compare(const struct comm *comm, const struct berth_config *config,
                                 char (*first)[TEXT_SIZE], struct berth_error *error) {
    for (size_t i = 0; i < option_row_count; i++) {
        char own[TEXT_SIZE];
        print_value(config, &option_rows[i], own);
        if (!option_rows[i].local && strcmp(own, first[i]) != 0) {
            return report_mismatch(comm, option_rows[i].name, own, first[i], error);
        }
    }
    return BERTH_OK;
}

static enum berth_status broadcast_settings(struct comm *comm, const struct berth_config *config,
                                            char (*first)[TEXT_SIZE], struct berth_error *error) {
    for (size_t i = 0; i < option_row_count; i++) {
        print_value(config, &option_rows[i], first[i]);
    }
    comm->broadcast(comm, first, option_row_count * TEXT_SIZE, 0);
    return comm->status(comm, error);
}

enum berth_status rank_settings_compare(struct comm *comm, const struct berth_config *config,
                                        struct berth_error *error) {
    if (comm->size == 1) {
        return BERTH_OK;
    }
    char(*first)[TEXT_SIZE] = memory_array_zeroed(option_row_count, TEXT_SIZE);
    enum berth_status status =
        first != NULL ? BERTH_OK
                      : error_no_memory(error, option_row_count * TEXT_SIZE, "the settings");
    status = comm_settle(comm, status, error);
    if (status == BERTH_OK) {
        status = broadcast_settings(comm, config, first, error);
    }
    if (status == BERTH_OK) {
        status = comm_settle(comm, compare(comm, config, first, error), error);
    }
    memory_free(first);
    return status;
}
