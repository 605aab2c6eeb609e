// SPDX-License-Identifier: Apache-2.0
// Tables: what each format accepts and refuses, messages for bad files, every prefix, running out
// of memory.
#include "core/json_memory.h"
#include "core/scratch.h"
#include "data/tables/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table_options tsv = {.format = TABLE_TSV}, csv = {.format = TABLE_CSV},
                                  json_lines = {.format = TABLE_JSON_LINES};

static void assert_says(const char *message, const char *part) {
    if (strstr(message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", message, part);
    }
}

static struct table read_bytes(const char *bytes, size_t length,
                               const struct table_options *options) {
    struct table table;
    struct berth_error error = {0};
    if (table_read_memory("t", bytes, length, options, &table, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return table;
}

static struct table read_text(const char *text, const struct table_options *options) {
    return read_bytes(text, strlen(text), options);
}

static const char *cell(const struct table *table, size_t row, size_t column) {
    const char *text = NULL;
    struct berth_error error = {0};
    if (table_text(table, row, column, &text, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return text;
}

// Compares the table as text: the columns, '/', then the rows; '|' ends cells and ';' ends rows.
static void expect_cells(const char *text, const struct table_options *options,
                         const char *expected) {
    char found[512] = "";
    struct table table = read_text(text, options);
    for (size_t c = 0; c < table.column_count; c++) {
        strcat(strcat(found, table.columns[c]), "|");
    }
    strcat(found, "/");
    for (size_t r = 0; r < table.row_count; r++) {
        for (size_t c = 0; c < table.column_count; c++) {
            strcat(strcat(found, cell(&table, r, c)), "|");
        }
        strcat(found, ";");
    }
    assert_string_equal(found, expected);
    table_done(&table);
    assert_null(table.storage);
}

static void reads_tsv(void **state) {
    expect_cells("a\tb\n1\t2\n3\t4\n", &tsv, "a|b|/1|2|;3|4|;");
    expect_cells("a\tb\r\n1\t2\r\n3\t4", &tsv, "a|b|/1|2|;3|4|;");
    expect_cells("\xEF\xBB\xBF"
                 "a\tb\n1\t\n\t4\n",
                 &tsv, "a|b|/1||;|4|;");
    expect_cells("a\tb\n\"x, \\t\ty\"\n", &tsv,
                 "a|b|/\"x, \\t|y\"|;"); // quotes are ordinary characters
    expect_cells("\n\r\na\tb\n\n1\t2\r\n\n", &tsv, "a|b|/1|2|;");
    expect_cells("a\tb\r1\t2\r\r\n3\t4\x0B\xE2\x80\xA8\xC2\x85\f", &tsv,
                 "a|b|/1|2|;3|4\x0B\xE2\x80\xA8\xC2\x85\f|;"); // only these end lines
    expect_cells("a\nx\n\ny\r\n", &tsv, "a|/x|;|;y|;");        // one column: an empty line is a row
    expect_cells("caf\xC3\xA9\t\xE4\xB8\x96\n1\t2\n", &tsv, "caf\xC3\xA9|\xE4\xB8\x96|/1|2|;");
}

static void reads_csv(void **state) {
    expect_cells("a,b\n1,2\n3,4", &csv, "a|b|/1|2|;3|4|;");
    expect_cells("a,b\r\n\"1\",\"2\"\r\n", &csv, "a|b|/1|2|;");
    expect_cells("a,b\r\"1\",\"2\"\r3,4\r", &csv, "a|b|/1|2|;3|4|;");
    expect_cells("\"a,b\",\"c\"\"d\"\n\"x\ny\r\nz\",\"\"\n", &csv, "a,b|c\"d|/x\ny\r\nz||;");
    expect_cells("a,b\n\"\"\"\",\" \"\n", &csv, "a|b|/\"| |;");
    expect_cells("\xEF\xBB\xBF"
                 "a,b\n,\n\n1,\t\n",
                 &csv, "a|b|/||;1|\t|;");
    expect_cells("a\nx\n\n\"\"\n", &csv, "a|/x|;|;|;");
}

static void reads_json_lines(void **state) {
    expect_cells("{\"a\":\"x\",\"b\":1}\n\n {\"b\":2.50,\"a\":true}\r\n", &json_lines,
                 "a|b|/x|1|;true|2.5|;");
    expect_cells("{\"a\":3.0,\"b\":\"\\u00e9\\n\"}", &json_lines, "a|b|/3.0|\xC3\xA9\n|;");
    struct table table = read_text("{\"a\":\"x\"}\n{\"b\":null,\"c\":[1],\"d\":{}}\n", &json_lines);
    static const char *const says[] = {
        "line 2, column \"a\": expected a string or a number, found nothing",
        "column \"b\": expected a string or a number, found null",
        "column \"c\": expected a string or a number, found an array",
        "column \"d\": expected a string or a number, found a nested array or object"};
    assert_int_equal(table.column_count, 4);
    for (size_t c = 0; c < 4; c++) {
        const char *text;
        struct berth_error error = {0};
        assert_int_equal(table_text(&table, 1, c, &text, &error), BERTH_BAD_DATA);
        assert_says(error.message, says[c]);
    }
    table_done(&table);
}

// One array of objects, over any lines, is read as the lines of its objects.
static void reads_arrays_of_objects(void **state) {
    expect_cells("[{\"a\":\"x\",\"b\":1},{\"a\":\"y\",\"b\":2}]", &json_lines, "a|b|/x|1|;y|2|;");
    struct table table =
        read_text("[\n {\n  \"a\": \"]},\\\"{\"\n },\n {\"a\": 2}\n]\n", &json_lines);
    assert_int_equal(table.row_count, 2);
    assert_string_equal(cell(&table, 0, 0), "]},\"{");
    assert_int_equal(table.lines[0], 2);
    assert_int_equal(table.lines[1], 5);
    table_done(&table);
}

static void counts_lines(void **state) {
    struct table table = read_text("a,b\n\n\"x\ny\",2\n\n3,4\n", &csv);
    assert_int_equal(table.row_count, 2);
    assert_int_equal(table.lines[0], 3);
    assert_int_equal(table.lines[1], 6);
    table_done(&table);
    table = read_text("{\"a\":1}\n\n{\"a\":2}\n", &json_lines);
    assert_int_equal(table.lines[1], 3);
    table_done(&table);
}

static void takes_names_of_columns(void **state) {
    static const char *const names[] = {"one", "two", NULL};
    struct table_options options = {.format = TABLE_TSV, .column_names = names};
    expect_cells("1\t2\n3\t4\n", &options, "one|two|/1|2|;3|4|;");
    struct table table = read_text("\n1\t2\n", &options);
    assert_int_equal(table.lines[0], 2);
    table_done(&table);
}

static void leaves_ragged_rows_out(void **state) {
    struct table_options options = {.format = TABLE_TSV, .ragged = 1};
    expect_cells("a\tb\n1\n2\t3\n4\t5\t6\n", &options, "a|b|/2|3|;");
    struct table table = read_text("a\tb\n2\t3\n1\n4\t5\t6\n7\t8\n", &options);
    assert_int_equal(table.skipped_rows, 2);
    assert_int_equal(table.skipped_line, 3);
    assert_int_equal(table.lines[1], 5);
    table_done(&table);
}

struct bad {
    const char *text;
    const struct table_options *options;
    const char *says;
};

static void names_what_is_wrong(void **state) {
    static const char *const names[] = {"one", "two", NULL};
    static const struct table_options named = {.format = TABLE_TSV, .column_names = names};
    static const struct table_options ragged = {.format = TABLE_TSV, .ragged = 1};
    static const struct bad cases[] = {
        {"", &tsv, "t: the file is empty"},
        {"\xEF\xBB\xBF", &csv, "t: the file is empty"},
        {" \r\n\t\n", &json_lines, "t: the file is empty"},
        {"a\tb\n", &tsv, "t: the table has no rows after its header"},
        {"a\tb\n1\n", &ragged, "t: the table has no rows with as many fields as columns"},
        {"a\tb\n1\t2\n3\n", &tsv,
         "t: line 3: the row has 1 field, expected 2; nothing for column \"b\""},
        {"a\tb\n1\t2\t3\n", &tsv,
         "t: line 2: the row has 3 fields, expected 2; more text after column \"b\""},
        {"1\t2\t3\n", &named, "t: line 1: the row has 3 fields, expected 2"},
        {"a,b\n\"x\n\n\",2,3\n", &csv, "t: line 2: the row has 3 fields"},
        {"a\tb\ta\n1\t2\t3\n", &tsv,
         "t: line 1: duplicate column \"a\" in the header (columns 1 and 3)"},
        {"a\tb\n1\t\xC3\xA9\xFF\n", &tsv, "t: line 2, column 4 (byte 8): not UTF-8"},
        {"\xEF\xBB\xBF"
         "a\tb\n1\t\xFF\n",
         &tsv, "t: line 2, column 3 (byte 9): not UTF-8"},
        {"{\"a\":\"\xED\xA0\x80\"}", &json_lines, "t: line 1, column 7 (byte 6): not UTF-8"},
        {"\xFF\xFE"
         "a",
         &tsv, "t: line 1, column 1 (byte 0): not UTF-8"}, // half a UTF-16 character
        {"\x1F\x8B\x08....", &tsv, "t: compressed with gzip; decompress it first (gunzip)"},
        {"\xFE\xFF", &csv, "t: the file is empty"},
        {"a,b\n1,\"x\n", &csv, "t: line 2, column 3: unclosed quote"},
        {"a,b\n\"x\n\xC3\xA9\"y,2\n", &csv, "t: line 3, column 3: text after the closing quote"},
        {"a,b\n\xC3\xA9,x\"y\"\n", &csv, "t: line 2, column 4: a quote in an unquoted field"},
        {"a,b\n\"\xC3\xA9\"\"\xC3\xA9\",\xC3\xA9\"\n", &csv,
         "t: line 2, column 9: a quote in an unquoted"},
        {"a,b\n1,2\r3,4,5\n", &csv, "t: line 3: the row has 3 fields"},
        {"{\"a\":1}\r{\"a\":\r", &json_lines, "t: line 2: JSON: line 1, column 6"},
        {"{\"a\":1}\n{\"a\":\n", &json_lines, "t: line 2: JSON: line 1, column 6"},
        {"{\"a\":1}\n{\"a\":1,\"a\":2}\n", &json_lines, "t: line 2: JSON: line 1, column"},
        {"{\"a\":1}\n[1]\n", &json_lines, "t: line 2, column 1: expected one JSON object per line"},
        {"7\n", &json_lines, "t: line 1, column 1: expected one JSON object per line"},
        {"{\"a\":1},\n{\"a\":2}\n", &json_lines,
         "found ','; expected one JSON object per line, such as {\"text\": \"...\", \"label\": "
         "\"...\"}, with no comma after it and no NaN"},
        {"{\"a\":NaN}\n", &json_lines,
         "in a: not valid JSON: expected a JSON value, found 'N'; expected one JSON object per "
         "line"},
        {"{\n\"a\":1\n}\n", &json_lines, "t: line 1: JSON: line 1, column 2"},
        {"[\n]\n", &json_lines,
         "t: line 2: expected an object such as {\"text\": \"...\"} in the "
         "array of rows, found \"]\""},
        {"[{\"a\":1},\n]", &json_lines, "t: line 2: expected an object"},
        {"[{\"a\":1}\n{\"a\":1}]", &json_lines, "t: line 2: expected a comma or ] in the array"},
        {"[{\"a\":1}", &json_lines, "found the end of the file"},
        {"[{\"a\":1", &json_lines, "t: line 1: JSON: line 1, column"},
        {"[{\"a\":1}]\n{}", &json_lines, "t: line 2: text after the array of rows"},
        {"[\n1]", &json_lines, "t: line 2: expected an object"},
        {"{\"a\":1}\n{\"b\":\"x\\u0000\"}\n", &json_lines,
         "t: line 2, column \"b\": a string contains U+0000"},
        {"{\"a\":1}\n{\"b\":[\"x\", \"\\u0000\"]}\n", &json_lines,
         "t: line 2, column \"b\": a string contains U+0000"},
        {"{}\n", &json_lines, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table table;
        struct berth_error error = {0};
        enum berth_status status = table_read_memory("t", cases[i].text, strlen(cases[i].text),
                                                     cases[i].options, &table, &error);
        assert_int_equal(status, cases[i].says == NULL ? BERTH_OK : BERTH_BAD_DATA);
        assert_true(cases[i].says == NULL || table.storage == NULL);
        assert_says(error.message, cases[i].says == NULL ? "" : cases[i].says);
        table_done(&table);
    }
}

// Byte order marks and UTF-16 of either order, of every format.
static void reads_other_encodings(void **state) {
    static const struct {
        const char *bytes;
        size_t length;
    } marks[] = {{"\xEF\xBB\xBF", 3}, {"\xFF\xFE", 2}, {"\xFE\xFF", 2}, {"", 0}};
    static const struct {
        const char *text;
        const struct table_options *options;
    } texts[] = {{"a\tb\n1\tx\n", &tsv},
                 {"a,b\r\n\"1\",\"x\"\r\n", &csv},
                 {"{\"a\":1,\"b\":\"x\"}\n", &json_lines}};
    for (size_t i = 0; i < 12; i++) {
        char bytes[128];
        const char *text = texts[i / 4].text;
        size_t used = marks[i % 4].length;
        int high_first = i % 4 == 2;
        memcpy(bytes, marks[i % 4].bytes, used);
        for (size_t c = 0; text[c] != '\0'; c++) {
            if (i % 4 == 1 || i % 4 == 2) {
                bytes[used + (size_t)high_first] = text[c];
                bytes[used + (size_t)!high_first] = '\0';
                used += 2;
            } else {
                bytes[used++] = text[c];
            }
        }
        struct table table = read_bytes(bytes, used, texts[i / 4].options);
        assert_int_equal(table.row_count, 1);
        assert_string_equal(table.columns[0], "a");
        assert_string_equal(cell(&table, 0, 0), "1");
        assert_string_equal(cell(&table, 0, 1), "x");
        table_done(&table);
    }
}

// A line longer than any row, and a file beyond the limit, refused before it is read.
static void refuses_endless_lines_and_files(void **state) {
    const size_t length = ((size_t)64 << 20) + 10;
    char *text = malloc(length);
    struct table table;
    struct berth_error error = {0};
    assert_non_null(text);
    memset(text, 'x', length);
    memcpy(text, "a\tb\n", 4);
    assert_int_equal(table_read_memory("t", text, length, &tsv, &table, &error), BERTH_BAD_DATA);
    assert_says(error.message, "t: line 2, column 1 (byte 4): a line longer than 64 MiB");
    free(text);
    scratch_write("t.tsv", "");
    assert_int_equal(truncate(scratch("t.tsv"), (off_t)5 << 30), 0); // takes no disk space
    assert_int_equal(table_read(scratch("t.tsv"), &tsv, &table, &error), BERTH_BAD_DATA);
    assert_says(error.message, "5368709120 bytes, the limit is");
}

// A list that has a list or an object in it is none.
static void knows_lists(void **state) {
    struct table table =
        read_text("{\"a\":[\"x\",2]}\n{\"a\":[\"x\",[2]]}\n{\"a\":[{}]}\n{\"a\":1}\n", &json_lines);
    assert_int_equal(json_length(table_list(&table, 0, 0)), 2);
    for (size_t row = 1; row < 4; row++) {
        assert_null(table_list(&table, row, 0));
        assert_false(table_is_empty(&table, row, 0));
    }
    table_done(&table);
}

static enum berth_status read_lines(void) {
    static const char text[] = "{\"a\":[1,\"y\",true],\"b\":{\"c\":2}}\n{\"a\":null,\"b\":\"z\"}\n";
    struct table table;
    const enum berth_status status =
        table_read_memory("t", text, sizeof text - 1, &json_lines, &table, NULL);
    if (status == BERTH_OK) {
        assert_int_equal(table.row_count, 2);
        assert_int_equal(json_length(table_list(&table, 0, 0)), 3);
    }
    table_done(&table);
    return status;
}

static void reads_json_without_memory(void **state) {
    assert_true(json_memory_fail_each(read_lines) > 20);
}

// UTF-16 is converted; out of memory that is an error, too, also for the last byte.
static void converts_without_memory(void **state) {
    static const char head[] = "\xff\xfe"
                               "a\0\t\0b\0\n\0"
                               "1\0\t\0";
    for (size_t digits = 1; digits < 150; digits++) {
        char text[sizeof head + 300];
        const size_t length = sizeof head - 1 + 2 * digits;
        uint64_t n = 0, made;
        memcpy(text, head, sizeof head - 1);
        for (size_t i = sizeof head - 1; i < length; i += 2) {
            memcpy(text + i, "2", 2);
        }
        do {
            struct table table;
            memory_fail_at(++n, 0);
            const enum berth_status status =
                table_read_memory("t", text, length, &tsv, &table, NULL);
            made = memory_fail_at(0, 0);
            assert_int_equal(status, made >= n ? BERTH_NO_MEMORY : BERTH_OK);
            table_done(&table);
        } while (made >= n);
        assert_true(n > 4);
    }
}

static void refuses_nul_bytes(void **state) {
    static const struct table_options *const all[] = {&tsv, &csv, &json_lines};
    static const char text[] = "{\"a\":\"b\"}\n{\"a\":\"\0\"}\n";
    for (size_t i = 0; i < 3; i++) {
        struct table table;
        struct berth_error error = {0};
        assert_int_equal(table_read_memory("t", text, sizeof text - 1, all[i], &table, &error),
                         BERTH_BAD_DATA);
        assert_says(error.message, "t: line 2, column 7 (byte 16): a NUL byte");
    }
}

static void names_the_nearest_column(void **state) {
    struct table table = read_text("sentence1\tsentence2\tlabel\nx\ty\tz\n", &tsv);
    size_t index;
    struct berth_error error = {0};
    assert_int_equal(table_column(&table, "text_column", "label", &index, &error), BERTH_OK);
    assert_int_equal(index, 2);
    assert_int_equal(table_find(&table, "sentence2"), 1);
    assert_int_equal(table_column(&table, "text_column", "sentense1", &index, &error),
                     BERTH_BAD_DATA);
    assert_string_equal(error.message,
                        "t: line 1: text_column: no column \"sentense1\"; did you mean "
                        "\"sentence1\"? the file has \"sentence1\", \"sentence2\", \"label\"");
    assert_int_equal(table_column(&table, "label_column", "zzzzzzzz", &index, &error),
                     BERTH_BAD_DATA);
    assert_says(error.message, "no column \"zzzzzzzz\"; the file has \"sentence1\"");
    table_done(&table);
    table = read_text("text;label\na;1\n", &tsv);
    assert_int_equal(table_column(&table, "text_column", "text", &index, &error), BERTH_BAD_DATA);
    assert_says(error.message,
                "the file has \"text;label\"; expected commas between the columns of a .csv file");
    table_done(&table);
    // As a file of a task of GLUE is read.
    static const char csv_text[] = "text,label\na,1\n";
    assert_int_equal(table_read_memory("t.csv", csv_text, strlen(csv_text), &tsv, &table, &error),
                     BERTH_OK);
    assert_int_equal(table_column(&table, "text_column", "text", &index, &error), BERTH_BAD_DATA);
    assert_says(error.message, "the file has \"text,label\"; expected tabs between the columns, as "
                               "in GLUE's files; without task_name");
    table_done(&table);
}

static void shortens_long_names(void **state) {
    char text[8192] = "";
    for (size_t i = 0; i < 30; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu%0100d", i > 0 ? "\t" : "",
                 i, 0);
    }
    strcat(text, "\nx\n");
    struct table_options options = {.format = TABLE_TSV};
    struct table table;
    struct berth_error error = {0};
    assert_int_equal(table_read_memory("t", text, strlen(text), &options, &table, &error),
                     BERTH_BAD_DATA);
    assert_true(strlen(error.message) < 200);
    *strrchr(text, 'x') = '\0';
    for (size_t i = 0; i < 29; i++) {
        strcat(text, "\t");
    }
    table = read_text(text, &options);
    size_t index;
    table_column(&table, "text_column", "absent", &index, &error);
    assert_says(error.message, ", ...");
    table_done(&table);
}

// To compare each pair of them would take minutes.
static void checks_many_columns(void **state) {
    enum { COLUMNS = 400000 };
    char *text = malloc((size_t)COLUMNS * 8);
    size_t length = 0;
    for (int i = 0; i < COLUMNS - 1; i++) {
        length += (size_t)sprintf(text + length, "%d\t", i);
    }
    strcpy(text + length, "7\n");
    struct table table;
    struct berth_error error = {0};
    assert_int_equal(table_read_memory("t", text, strlen(text), &tsv, &table, &error),
                     BERTH_BAD_DATA);
    assert_says(error.message, "duplicate column \"7\" in the header (columns 8 and 400000)");
    free(text);
}

static void cuts_names_between_characters(void **state) {
    char text[128] = "x", expected[128] = "duplicate column \"x";
    for (size_t i = 0; i < 40; i++) {
        strcat(text, "\xC3\xA9");
        strcat(expected, i < 29 ? "\xC3\xA9" : "");
    }
    char table_text[300];
    snprintf(table_text, sizeof table_text, "%s\t%s\n1\t2\n", text, text);
    strcat(expected, "\" in the header (columns");
    struct table table;
    struct berth_error error = {0};
    assert_int_equal(table_read_memory("t", table_text, strlen(table_text), &tsv, &table, &error),
                     BERTH_BAD_DATA);
    assert_says(error.message, expected);
}

static void knows_formats_by_name(void **state) {
    static const struct {
        const char *path;
        enum table_format format;
    } good[] = {{"x/train.tsv", TABLE_TSV},     {"a.b.TXT", TABLE_TSV},
                {"a.Csv", TABLE_CSV},           {"a.jsonl", TABLE_JSON_LINES},
                {"a.ndjson", TABLE_JSON_LINES}, {"a.json", TABLE_JSON_LINES}};
    enum table_format format;
    struct berth_error error = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(table_format_of(good[i].path, &format, &error), BERTH_OK);
        assert_int_equal(format, good[i].format);
    }
    assert_int_equal(table_format_of("train.xlsx", &format, &error), BERTH_USAGE);
    assert_says(error.message, "train.xlsx: unknown file format");
    assert_int_equal(table_format_of("train", &format, &error), BERTH_USAGE);
    scratch_write("train.csv.gz", "\x1f\x8b\x08 and so on");
    assert_int_equal(table_format_of(scratch("train.csv.gz"), &format, &error), BERTH_BAD_DATA);
    assert_says(error.message, "train.csv.gz: compressed with gzip; decompress it first (gunzip)");
    scratch_write("train.csv.old", "a,b\n");
    assert_int_equal(table_format_of(scratch("train.csv.old"), &format, &error), BERTH_USAGE);
}

// A prefix is refused, or gives its complete rows.
static void reads_every_prefix(void **state) {
    static const struct {
        const char *text;
        const struct table_options *options;
    } cases[] = {{"a\tb\r\n1\t2\n\"3\t\xC3\xA9\n", &tsv},
                 {"a,b\r\n\"1\"\"\",\"2\n3\"\n4,\xC3\xA9\n", &csv},
                 {"{\"a\":\"1\",\"b\":2}\n{\"a\":\"\xC3\xA9\",\"b\":3}\n", &json_lines}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table whole = read_text(cases[i].text, cases[i].options);
        size_t good = 0;
        for (size_t length = 0; length < strlen(cases[i].text); length++) {
            struct table table;
            struct berth_error error = {0};
            enum berth_status status = table_read_memory("prefix", cases[i].text, length,
                                                         cases[i].options, &table, &error);
            assert_true(status == BERTH_OK || status == BERTH_BAD_DATA);
            if (status == BERTH_BAD_DATA) {
                assert_says(error.message, "prefix: ");
                continue;
            }
            good++;
            assert_true(table.row_count >= 1 && table.row_count <= whole.row_count);
            for (size_t r = 0; r + 1 < table.row_count; r++) {
                for (size_t c = 0; c < table.column_count; c++) {
                    assert_string_equal(cell(&table, r, c), cell(&whole, r, c));
                }
            }
            table_done(&table);
        }
        assert_true(good >= 2);
        table_done(&whole);
    }
}

static void survives_missing_memory(void **state) {
    static const char *const names[] = {"a", "b", NULL};
    static const struct table_options named = {.format = TABLE_TSV, .column_names = names};
    static const struct {
        const char *text;
        const struct table_options *options;
        uint64_t least;
    } cases[] = {
        {"a\tb\n1\t2\n", &tsv, 6},
        {"1\t2\n", &named, 6},
        {"a,b\n\"1\",2\n", &csv, 6},
        {"{\"a\":1,\"b\":\"x\"}\n", &json_lines, 6},
        {"{\"a\":[1,\"y\",true],\"b\":{\"c\":2}}\n{\"a\":null,\"b\":\"z\"}\n", &json_lines, 6},
        {"\xef\xbb\xbf"
         "a\tb\n1\t2\n",
         &tsv, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum berth_status status = BERTH_NO_MEMORY;
        uint64_t n = 0;
        uint64_t made;
        do {
            struct table table;
            struct berth_error error = {0};
            memory_fail_at(++n, 0);
            status = table_read_memory("t", cases[i].text, strlen(cases[i].text), cases[i].options,
                                       &table, &error);
            made = memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            assert_true((status == BERTH_OK) == (table.storage != NULL));
            table_done(&table);
        } while (made >= n);
        assert_int_equal(status, BERTH_OK);
        assert_true(n >= cases[i].least);
    }
}

static void reads_files(void **state) {
    struct table table;
    struct berth_error error = {0};
    scratch_write("t.tsv", "a\tb\n1\t2\n");
    assert_int_equal(table_read(scratch("t.tsv"), &tsv, &table, &error), BERTH_OK);
    assert_string_equal(table.name, scratch("t.tsv"));
    assert_string_equal(cell(&table, 0, 1), "2");
    table_done(&table);
    assert_int_equal(table_read(scratch("none.tsv"), &tsv, &table, &error), BERTH_NO_INPUT);
    assert_says(error.message, scratch("none.tsv"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tsv),
        cmocka_unit_test(reads_csv),
        cmocka_unit_test(reads_json_lines),
        cmocka_unit_test(reads_arrays_of_objects),
        cmocka_unit_test(counts_lines),
        cmocka_unit_test(takes_names_of_columns),
        cmocka_unit_test(leaves_ragged_rows_out),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(knows_lists),
        cmocka_unit_test(converts_without_memory),
        cmocka_unit_test(reads_json_without_memory),
        cmocka_unit_test(refuses_nul_bytes),
        cmocka_unit_test(reads_other_encodings),
        SCRATCH_TEST(refuses_endless_lines_and_files),
        cmocka_unit_test(names_the_nearest_column),
        cmocka_unit_test(shortens_long_names),
        cmocka_unit_test(checks_many_columns),
        cmocka_unit_test(cuts_names_between_characters),
        SCRATCH_TEST(knows_formats_by_name),
        cmocka_unit_test(reads_every_prefix),
        cmocka_unit_test(survives_missing_memory),
        SCRATCH_TEST(reads_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
