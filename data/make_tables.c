// SPDX-License-Identifier: Apache-2.0
// Makes the tables of src/text from unicode.txt, whose head describes it. The build compiles this
// program for the machine that it runs on:
//
//   make_tables unicode.txt UNICODE_TABLES.h PYTHON_TABLES.h
//
// src/text/unicode.c describes the first header, src/text/python.c uses the second one. A mapping
// that the columns share is a run of the first one's table; a second table has what differs.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 0x110000, BLOCK = 128, OUTPUTS = 1 << 13, OUTPUT_MAX = 18, KINDS = 256 };
enum { COLUMNS = 3, COMPONENTS = 2 }; // the last column is that of components
enum { DROP = 1, SPACE = 2, MARK = 16, MAPPED = 32, CASED = 128, IGNORABLE = 256 };
#define POOLED 0x80000000u

static const struct {
    const char *name;
    unsigned flag;
} flag_names[] = {{"drop", DROP},   {"space", SPACE}, {"punctuation", 4},
                  {"cjk", 8},       {"mark", MARK},   {"kept", 64},
                  {"cased", CASED}, {"word", 512},    {"ignorable", IGNORABLE},
                  {"letter", 1},    {"number", 2},    {"numeric", 4},
                  {"blank", 8},     {"accent", 16},   {"joins", 32},
                  {"joined", 64},   {"control", 128}};

// Of code points; an output of no points: the code point itself.
struct output {
    uint32_t points[OUTPUT_MAX], count;
};
struct mapping {
    uint16_t of[POINTS]; // its output's index + 1; 0: none
    struct output outputs[OUTPUTS];
    int count;
};

struct column {
    uint16_t flags[POINTS];
    uint8_t combining[POINTS];
    struct mapping lower, strip, fold; // strip: accents alone; fold: lower case of what is left
    struct mapping canonical, compatible, composed;
};
static struct column columns[COLUMNS];
static uint8_t python_word[POINTS], python_ignorable[POINTS];
static uint32_t pool[1 << 15], pooled;

static void fail(const char *what, const char *word) {
    fprintf(stderr, "make_tables: %s: %s\n", what, word);
    exit(1);
}

// --- mappings -----------------------------------------------------------------------------------

static struct output output_of(const struct mapping *mapping, uint32_t point) {
    const struct output itself = {{point}, 1};
    return mapping->of[point] == 0 ? itself : mapping->outputs[mapping->of[point] - 1];
}

static int is_same(struct output a, struct output b) {
    return a.count == b.count && memcmp(a.points, b.points, a.count * sizeof *a.points) == 0;
}

// An output that is the code point itself is kept, too: a second table says so.
static void put(struct mapping *mapping, uint32_t point, struct output output) {
    if (mapping->count == OUTPUTS) {
        fail("too many outputs", "OUTPUTS");
    }
    mapping->outputs[mapping->count++] = output;
    mapping->of[point] = (uint16_t)mapping->count;
}

static int maps(const struct mapping *mapping, uint32_t point) {
    const struct output itself = {{point}, 1};
    return !is_same(output_of(mapping, point), itself);
}

static int is_hangul(uint32_t point) {
    return point >= 0xAC00 && point <= 0xD7A3; // mapped by a formula
}

// Sets what follows from the words read: the folded outputs, and which points have one.
static void finish(struct column *column) {
    for (uint32_t point = 0; point < POINTS; point++) {
        const struct output stripped = output_of(&column->strip, point);
        struct output folded = {{0}, 0};
        for (uint32_t i = 0; i < stripped.count; i++) {
            const struct output lower = output_of(&column->lower, stripped.points[i]);
            for (uint32_t k = 0; k < lower.count && folded.count < OUTPUT_MAX; k++) {
                folded.points[folded.count++] = lower.points[k];
            }
        }
        const struct output itself = {{point}, 1};
        if (column->flags[point] & (DROP | SPACE | MARK)) {
            continue;
        }
        if (!is_same(folded, itself)) {
            put(&column->fold, point, folded);
        }
        if (!is_same(folded, itself) || is_hangul(point)) {
            column->flags[point] |= MAPPED;
        }
    }
}

// --- reading ------------------------------------------------------------------------------------

struct section {
    char name[32];
    int columns[COLUMNS];
};

static void add_range(const struct section *section, int c, uint32_t first, uint32_t last) {
    unsigned flag = 0;
    for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++) {
        flag |= strcmp(section->name, flag_names[i].name) == 0 ? flag_names[i].flag : 0;
    }
    for (uint32_t point = first; point <= last; point++) {
        if (flag != 0) {
            columns[c].flags[point] |= (uint16_t)flag;
        } else if (strcmp(section->name, "python_word") == 0) {
            python_word[point] = 1;
        } else if (strcmp(section->name, "python_ignorable") == 0) {
            python_ignorable[point] = 1;
        } else {
            fail("no such section", section->name);
        }
    }
}

static void add_outputs(const struct section *section, int c, uint32_t first, uint32_t last,
                        uint32_t step, const char *words) {
    struct column *column = &columns[c];
    struct mapping *mapping = strcmp(section->name, "lower") == 0        ? &column->lower
                              : strcmp(section->name, "canonical") == 0  ? &column->canonical
                              : strcmp(section->name, "compatible") == 0 ? &column->compatible
                              : strcmp(section->name, "composed") == 0   ? &column->composed
                                                                         : &column->strip;
    struct output output = {{0}, 0};
    for (char *end; output.count < OUTPUT_MAX; words = end + 1) {
        output.points[output.count++] = (uint32_t)strtoul(words, &end, 16);
        if (*end != '+') {
            break;
        }
    }
    for (uint32_t point = first; point <= last; point += step) {
        put(mapping, point, output);
        output.points[0] += step;
    }
}

static void read_word(const struct section *section, const char *word) {
    char *at;
    const uint32_t first = (uint32_t)strtoul(word, &at, 16);
    const uint32_t last = *at == '-' ? (uint32_t)strtoul(at + 1, &at, 16) : first;
    const uint32_t step = *at == '/' ? (uint32_t)strtoul(at + 1, &at, 10) : 1;
    if (last >= POINTS || first > last || step == 0 || strchr(">=", *at) == NULL) {
        fail("expected FIRST-LAST", word);
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (!section->columns[c]) {
            continue;
        }
        if (*at == '\0') {
            add_range(section, c, first, last);
        } else if (*at == '>') {
            add_outputs(section, c, first, last, step, at + 1);
        } else {
            memset(columns[c].combining + first, atoi(at + 1), last - first + 1);
        }
    }
}

static void read_file(const char *path) {
    static char line[4096];
    struct section section = {"", {0}};
    FILE *in = fopen(path, "r");
    if (in == NULL) {
        fail("cannot open", path);
    }
    while (fgets(line, sizeof line, in) != NULL) {
        char which[4];
        if (sscanf(line, ":%31s %3s", section.name, which) == 2) {
            for (int c = 0; c < COLUMNS; c++) {
                section.columns[c] = strchr(which, '0' + c) != NULL;
            }
        } else if (line[0] != '#') {
            for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
                read_word(&section, word);
            }
        }
    }
    fclose(in);
}

// --- writing ------------------------------------------------------------------------------------

static FILE *out;
static int items;

static void begin(const char *type, const char *name) {
    fprintf(out, "static const %s %s[] = {", type, name);
    items = 0;
}

static void separate(void) {
    fputs(items++ % 16 == 0 ? "\n    " : " ", out);
}

static void end(void) {
    fputs("\n};\n", out);
}

static void put_ranges(const char *name, int (*has)(uint32_t point)) {
    begin("struct python_range", name);
    for (uint32_t point = 0; point < POINTS; point++) {
        if (has(point)) {
            const uint32_t first = point;
            while (point + 1 < POINTS && has(point + 1)) {
                point++;
            }
            separate();
            fprintf(out, "{0x%" PRIX32 ", 0x%" PRIX32 "},", first, point);
        }
    }
    end();
}

// Where `is_python`, `to` is a difference, and an output of several points is left out.
static void put_run(const uint32_t run[4], int is_python) {
    if (!is_python) {
        separate();
        fprintf(out, "{0x%" PRIX32 ", 0x%" PRIX32 ", %" PRIu32 ", 0x%" PRIX32 "},", run[0], run[1],
                run[2], run[3]);
    } else if ((run[3] & POOLED) == 0) {
        separate();
        fprintf(out, "{0x%" PRIX32 ", 0x%" PRIX32 ", %" PRIu32 ", %" PRId64 "},", run[0], run[1],
                run[2], (int64_t)run[3] - run[0]);
    }
}

// Runs of [first, last, step, to]: first, first + step, ... become to, to + step, ...
static void put_runs(const char *name, const struct mapping *mapping, int is_python) {
    uint32_t run[4] = {0, 0, 0, POOLED};
    int has_run = 0;
    begin(is_python ? "struct python_run" : "struct unicode_run", name);
    for (uint32_t point = 0; point < POINTS; point++) {
        if (mapping->of[point] == 0) {
            continue;
        }
        const struct output output = mapping->outputs[mapping->of[point] - 1];
        const uint32_t gap = point - run[1];
        if (has_run && output.count == 1 && (run[3] & POOLED) == 0 &&
            output.points[0] - run[3] == point - run[0] && gap <= 2 &&
            (gap == run[2] || run[0] == run[1])) {
            run[1] = point;
            run[2] = gap;
            continue;
        }
        if (has_run) {
            put_run(run, is_python);
        }
        has_run = 1;
        run[0] = run[1] = point;
        run[2] = 1;
        run[3] = output.points[0];
        if (output.count > 1 && !is_python) {
            run[3] = POOLED | pooled;
            pool[pooled++] = output.count;
            memcpy(pool + pooled, output.points, output.count * sizeof *output.points);
            pooled += output.count;
        } else if (output.count > 1) {
            run[3] = POOLED;
        }
    }
    put_run(run, is_python);
    end();
}

// What column 1 has and column 0 has not, or otherwise; `otherwise` is what a point becomes that
// only column 0 maps (NULL: itself).
static struct mapping *differences(const struct mapping *ours, const struct mapping *theirs,
                                   const struct mapping *otherwise, int adds_missing) {
    struct mapping *differing = calloc(1, sizeof *differing);
    static const struct mapping none;
    for (uint32_t point = 0; differing != NULL && point < POINTS; point++) {
        const int is_mapped = theirs->of[point] != 0;
        if (is_mapped &&
            (ours->of[point] == 0 || !is_same(output_of(theirs, point), output_of(ours, point)))) {
            put(differing, point, output_of(theirs, point));
        } else if (!is_mapped && ours->of[point] != 0 && adds_missing) {
            put(differing, point, output_of(otherwise != NULL ? otherwise : &none, point));
        }
    }
    return differing != NULL ? differing : (fail("out of memory", "differences"), NULL);
}

// The mapping without those that leave a point as it is, or fold it alike.
static struct mapping *reduced(const struct mapping *mapping, const struct mapping *fold) {
    struct mapping *kept = calloc(1, sizeof *kept);
    static const struct mapping none;
    for (uint32_t point = 0; kept != NULL && point < POINTS; point++) {
        const struct output output = output_of(mapping, point);
        const int is_listed =
            fold == NULL ? maps(mapping, point)
                         : !is_same(output, output_of(fold->of[point] ? fold : &none, point));
        if (is_listed) {
            put(kept, point, output);
        }
    }
    return kept != NULL ? kept : (fail("out of memory", "reduced"), NULL);
}

static uint64_t pair_of(uint32_t point) {
    uint64_t pair = 0;
    for (int c = 0; c < 2; c++) {
        pair = pair << 24 | (uint64_t)columns[c].flags[point] << 8 | columns[c].combining[point];
    }
    return pair;
}

enum { DECOMPOSES = 256, COMPOSES = 512 };

static void flag_forms(struct column *column) {
    for (uint32_t point = 0; point < POINTS; point++) {
        if (column->canonical.of[point] != 0 || column->compatible.of[point] != 0 ||
            is_hangul(point)) {
            column->flags[point] |= DECOMPOSES;
        }
        if (column->composed.of[point] != 0) {
            column->flags[output_of(&column->composed, point).points[1]] |= COMPOSES;
        }
        if (point >= 0x1161 && point < 0x11C3) { // vowels and trailing consonants of Hangul
            column->flags[point] |= COMPOSES;
        }
    }
}

static uint64_t component_of(uint32_t point) {
    const struct column *column = &columns[COMPONENTS];
    return (uint64_t)column->flags[point] << 8 | column->combining[point];
}

static void put_stage2(const char *name, const uint8_t blocks[][BLOCK], int count) {
    fprintf(out, "static const uint8_t %s_stage2[][UNICODE_BLOCK] = {", name);
    for (int b = 0; b < count; b++) {
        fputs(b == 0 ? "{" : "}, {", out);
        for (int i = items = 0; i < BLOCK; i++) {
            separate();
            fprintf(out, "%d,", blocks[b][i]);
        }
    }
    fputs("}};\n", out);
}

// Numbers the kinds of points: that of most points 0, then those from U+0080 on, then ASCII's.
// Writes both stages of the table of kinds; returns their number.
static int put_stages(const char *name, uint64_t (*kind_of)(uint32_t point),
                      uint64_t kinds[KINDS]) {
    static uint8_t kind[POINTS], blocks[KINDS][BLOCK], stage1[POINTS / BLOCK];
    int count = 1, block_count = 0, stage1_count = POINTS / BLOCK;
    char stage1_name[64];
    kinds[0] = 0;
    for (uint32_t i = 0; i < POINTS; i++) {
        const uint32_t point = (i + 0x80) % POINTS;
        int k = 0;
        while (k < count && kinds[k] != kind_of(point)) {
            k++;
        }
        if (k == KINDS) {
            fail("too many", "kinds");
        }
        kinds[k] = kind_of(point);
        count += k == count;
        kind[point] = (uint8_t)k;
    }
    for (int b = 0; b < POINTS / BLOCK; b++) {
        int k = 0;
        while (k < block_count && memcmp(blocks[k], kind + b * BLOCK, BLOCK) != 0) {
            k++;
        }
        if (k == KINDS - 1) {
            fail("too many", "blocks");
        }
        memcpy(blocks[k], kind + b * BLOCK, BLOCK);
        block_count += k == block_count;
        stage1[b] = (uint8_t)k;
    }
    while (stage1_count > 1 && stage1[stage1_count - 1] == stage1[stage1_count - 2]) {
        stage1_count--; // the rest of the code points looks like the last block
    }
    snprintf(stage1_name, sizeof stage1_name, "%s_stage1", name);
    begin("uint8_t", stage1_name);
    for (int b = 0; b < stage1_count; b++) {
        separate();
        fprintf(out, "%d,", stage1[b]);
    }
    end();
    put_stage2(name, (const uint8_t(*)[BLOCK])blocks, block_count);
    return count;
}

static void put_kinds(void) {
    uint64_t kinds[KINDS];
    fprintf(out, "#define UNICODE_BLOCK %d\n", BLOCK);
    int count = put_stages("unicode", pair_of, kinds);
    fputs("static const struct unicode_properties unicode_property_table[][2] = {\n", out);
    for (int k = 0; k < count; k++) {
        fprintf(out, "    {{%u, %u}, {%u, %u}},\n", (unsigned)(kinds[k] >> 32),
                (unsigned)(kinds[k] >> 24 & 255), (unsigned)(kinds[k] >> 8 & 0xFFFF),
                (unsigned)(kinds[k] & 255));
    }
    fputs("};\n", out);
    count = put_stages("unicode_component", component_of, kinds);
    fputs("static const struct unicode_component unicode_components[] = {\n", out);
    for (int k = 0; k < count; k++) {
        fprintf(out, "    {%u, %u},\n", (unsigned)(kinds[k] >> 8), (unsigned)(kinds[k] & 255));
    }
    fputs("};\n", out);
}

static uint64_t key_of(const struct output *output) {
    return (uint64_t)output->points[0] << 32 | output->points[1];
}

static int compare_pairs(const void *a, const void *b) {
    const uint64_t x = key_of(a), y = key_of(b);
    return x < y ? -1 : x > y;
}

// Pairs of points in ascending order, and what they compose.
static void put_pairs(const struct mapping *composed) {
    static struct output pairs[OUTPUTS];
    uint32_t count = 0;
    for (uint32_t point = 0; point < POINTS; point++) {
        if (composed->of[point] != 0) {
            pairs[count] = output_of(composed, point);
            pairs[count++].points[2] = point;
        }
    }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    begin("struct unicode_pair", "unicode_pairs");
    for (uint32_t i = 0; i < count; i++) {
        separate();
        fprintf(out, "{0x%" PRIX32 ", 0x%" PRIX32 ", 0x%" PRIX32 "},", pairs[i].points[0],
                pairs[i].points[1], pairs[i].points[2]);
    }
    end();
}

static void open_output(const char *path, const char *include) {
    out = fopen(path, "w");
    if (out == NULL) {
        fail("cannot create", path);
    }
    fprintf(out, "// Made by data/make_tables.c from data/unicode.txt.\n#include %s\n", include);
}

static void close_output(const char *path) {
    if (ferror(out) != 0 || fclose(out) != 0) {
        fail("cannot write", path);
    }
}

static void put_unicode(const char *path) {
    const struct column *ours = &columns[0], *theirs = &columns[1];
    const struct mapping *lower[2], *strip[2];
    for (int c = 0; c < 2; c++) {
        lower[c] = reduced(&columns[c].lower, NULL);
        strip[c] = reduced(&columns[c].strip, &columns[c].fold);
    }
    open_output(path, "\"text/unicode.h\"");
    fputs("struct unicode_run {\n    uint32_t first, last, step, to;\n};\n"
          "struct unicode_pair {\n    uint32_t first, second, to;\n};\n",
          out);
    put_kinds();
    put_runs("unicode_runs", &ours->fold, 0);
    put_runs("unicode_google_runs", differences(&ours->fold, &theirs->fold, NULL, 0), 0);
    put_runs("unicode_lower_runs", lower[0], 0);
    put_runs("unicode_google_lower_runs", differences(lower[0], lower[1], NULL, 1), 0);
    put_runs("unicode_strip_runs", strip[0], 0);
    put_runs("unicode_google_strip_runs", differences(strip[0], strip[1], &theirs->fold, 1), 0);
    put_runs("unicode_canonical_runs", &columns[COMPONENTS].canonical, 0);
    put_runs("unicode_compatible_runs", &columns[COMPONENTS].compatible, 0);
    put_pairs(&columns[COMPONENTS].composed);
    begin("uint32_t", "unicode_pool");
    for (uint32_t i = 0; i < pooled; i++) {
        separate();
        fprintf(out, "0x%" PRIX32 ",", pool[i]);
    }
    end();
    close_output(path);
}

static int is_word(uint32_t point) {
    return python_word[point];
}

static int is_cased(uint32_t point) {
    return (columns[1].flags[point] & CASED) != 0;
}

// Also some that the tokenizer drops.
static int is_ignorable(uint32_t point) {
    return python_ignorable[point] || (columns[1].flags[point] & IGNORABLE) != 0;
}

static void put_python(const char *path) {
    open_output(path, "<stdint.h>");
    fputs("struct python_range {\n    uint32_t first, last;\n};\n"
          "struct python_run { // first, first + step, ..., last become themselves plus delta\n"
          "    uint32_t first, last, step;\n    int32_t delta;\n};\n",
          out);
    put_ranges("python_words", is_word);
    put_ranges("python_cased", is_cased);
    put_ranges("python_ignorable", is_ignorable);
    put_runs("python_lower_runs", reduced(&columns[1].lower, NULL), 1);
    close_output(path);
}

int main(int count, char **words) {
    if (count != 4) {
        fail("expected", "unicode.txt UNICODE_TABLES.h PYTHON_TABLES.h");
    }
    read_file(words[1]);
    finish(&columns[0]);
    finish(&columns[1]);
    flag_forms(&columns[COMPONENTS]);
    put_unicode(words[2]);
    put_python(words[3]);
    return 0;
}
