// SPDX-License-Identifier: Apache-2.0
// Adds cells and rows to a table while it is read, for both formats. Growing is all it does: cells
// are cut by table_delimited.c and table_json.c, and checked by table.c when the table is whole.
#include "data/tables/table_reader.h"

#include "core/memory.h"

enum berth_status table_reader_add(struct table_reader *reader, struct table_texts *texts,
                                   const char *text) {
    size_t needed = texts->count + 1;
    const char **items = memory_grow(texts->items, &texts->capacity, needed, sizeof *items);
    if (items == NULL) {
        return error_no_memory(reader->error, needed * sizeof *items, "the cells of a table");
    }
    texts->items = items;
    texts->items[texts->count++] = text;
    return BERTH_OK;
}

enum berth_status table_reader_add_row(struct table_reader *reader, size_t line) {
    size_t needed = reader->row_count + 1;
    size_t *lines = memory_grow(reader->lines, &reader->row_capacity, needed, sizeof *lines);
    if (lines == NULL) {
        return error_no_memory(reader->error, needed * sizeof *lines, "the rows of a table");
    }
    reader->lines = lines;
    reader->lines[reader->row_count++] = line;
    return BERTH_OK;
}
