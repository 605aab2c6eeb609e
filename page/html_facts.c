// SPDX-License-Identifier: Apache-2.0
// The sections of a report that are tables of facts, a row for each key and a column for each run:
// outcome, figures, processes, warnings, plan and settings. html.c calls them in their order; names
// of keys come from report/keys.h.
#include "core/html.h"
#include "page/html_parts.h"
#include "report/keys.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define ROWS_LIMIT 1000

struct facts {
    const struct run_set *set;
    const json *(*of)(const struct run *run, const char *process); // the run's object of facts
    const char *process;
    int only_differing; // rows in which the runs agree are left out
    int in_words;       // keys are told in words, values with their units, unknown ones not at all
};

static const json *object_of(const struct facts *facts, size_t run) {
    return facts->of(&facts->set->runs[run], facts->process);
}

static int is_hidden(const char *key, const json *value) {
    static const char *const keys[] = {"time", "elapsed", "kind", "text"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return 1;
        }
    }
    return json_is_object_value(value) || json_is_array_value(value);
}

static int is_same(const json *a, const json *b) {
    const char *texts[] = {json_text(a), json_text(b)};
    if (texts[0] != NULL && texts[1] != NULL) {
        return strcmp(texts[0], texts[1]) == 0;
    }
    if (json_is_boolean(a) && json_is_boolean(b)) {
        return json_truth(a) == json_truth(b);
    }
    return json_is_number_value(a) && json_is_number_value(b)
               ? json_as_real(a) == json_as_real(b)
               : (a == NULL || json_is_null_value(a)) && (b == NULL || json_is_null_value(b));
}

// Whether the runs that have such facts differ; a peer's log may have none.
static int differs(const struct facts *facts, const char *key) {
    const json *first = NULL;
    for (size_t i = 0, seen = 0; i < facts->set->count; i++) {
        const json *object = object_of(facts, i), *value = json_member(object, key);
        if (object != NULL && seen++ > 0 && !is_same(first, value)) {
            return 1;
        }
        first = object != NULL ? value : first;
    }
    return 0;
}

// Whether an earlier run has the key, so that the row already exists.
static int is_known(const struct facts *facts, size_t run, const char *key) {
    for (size_t i = 0; i < run; i++) {
        if (json_member(object_of(facts, i), key) != NULL) {
            return 1;
        }
    }
    return 0;
}

static void put_row(const struct facts *facts, const char *key, struct buffer *page) {
    const int is_marked = facts->set->count > 1 && !facts->only_differing && differs(facts, key);
    buffer_put_text(page, is_marked ? "<tr class=\"differs\"><th scope=\"row\">"
                                    : "<tr><th scope=\"row\">");
    char words[128];
    html_put_text(page, facts->in_words ? key_words(key, words, sizeof words) : key);
    buffer_put_text(page, "</th>");
    for (size_t i = 0; i < facts->set->count; i++) {
        const json *value = json_member(object_of(facts, i), key);
        buffer_put_text(page, "<td>");
        html_put_value(page, key, value);
        if (facts->in_words) {
            html_put_unit(page, key, value);
        }
        buffer_put_text(page, "</td>");
    }
    buffer_put_text(page, "</tr>");
}

// Whether no run has a value, such as the fraction of a peak that nobody measured.
static int is_unknown(const struct facts *facts, const char *key) {
    for (size_t i = 0; i < facts->set->count; i++) {
        const json *value = json_member(object_of(facts, i), key);
        if (value != NULL && !json_is_null_value(value)) {
            return 0;
        }
    }
    return 1;
}

static size_t put_rows(const struct facts *facts, struct buffer *page) {
    size_t rows = 0;
    for (size_t i = 0; i < facts->set->count; i++) {
        struct json_walk walk = {.object = object_of(facts, i)};
        while (walk.object != NULL && json_walk_next(&walk)) {
            if (rows < ROWS_LIMIT && !is_hidden(walk.key, walk.value) &&
                !is_known(facts, i, walk.key) &&
                !(facts->in_words && is_unknown(facts, walk.key)) &&
                (!facts->only_differing || differs(facts, walk.key))) {
                put_row(facts, walk.key, page);
                rows++;
            }
        }
    }
    return rows;
}

static int has_any(const struct facts *facts) {
    for (size_t i = 0; i < facts->set->count; i++) {
        if (object_of(facts, i) != NULL) {
            return 1;
        }
    }
    return 0;
}

static void put_table(const struct facts *facts, struct buffer *page) {
    buffer_put_text(page, "<div class=\"wide\" tabindex=\"0\"><table class=\"facts\">");
    if (facts->set->count > 1) {
        buffer_put_text(page, "<thead><tr><td></td>");
        for (size_t i = 0; i < facts->set->count; i++) {
            buffer_put_text(page, "<th scope=\"col\">");
            html_put_text(page, facts->set->runs[i].name);
            buffer_put_text(page, "</th>");
        }
        buffer_put_text(page, "</tr></thead>");
    }
    buffer_put_text(page, "<tbody>");
    if (put_rows(facts, page) == 0) {
        buffer_put_text(page, "<tr><td>no differences</td></tr>");
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

// --- the end of the run --------------------------------------------------------------------------

static const json *summary_of(const struct run *run, const char *process) {
    (void)process;
    return run->summary;
}

void html_put_outcome(const struct run_set *set, struct buffer *page) {
    const struct facts facts = {.set = set, .of = summary_of, .in_words = 1};
    if (has_any(&facts)) {
        buffer_put_text(page, "<h2>Outcome</h2>\n");
        put_table(&facts, page);
    }
}

// --- benchmarks ----------------------------------------------------------------------------------

static const json *figures_of(const struct run *run, const char *process) {
    (void)process;
    return run->figures;
}

// A list of objects, such as those of bench_operations; the columns are those of the
// first.
static void put_list(const char *name, const json *list, struct buffer *page) {
    buffer_put_text(page, "<h3>");
    html_put_text(page, name);
    buffer_put_text(page, "</h3><div class=\"wide\" tabindex=\"0\"><table><thead><tr>");
    struct json_walk head = {.object = json_at(list, 0)};
    while (json_walk_next(&head)) {
        if (!is_hidden(head.key, head.value)) {
            buffer_put_text(page, "<th scope=\"col\">");
            html_put_text(page, head.key);
            buffer_put_text(page, "</th>");
        }
    }
    buffer_put_text(page, "</tr></thead><tbody>");
    for (size_t i = 0; i < json_length(list) && i < ROWS_LIMIT; i++) {
        struct json_walk walk = {.object = json_at(list, 0)};
        buffer_put_text(page, "<tr>");
        while (json_walk_next(&walk)) {
            if (!is_hidden(walk.key, walk.value)) {
                buffer_put_text(page, "<td>");
                html_put_value(page, walk.key, json_member(json_at(list, i), walk.key));
                buffer_put_text(page, "</td>");
            }
        }
        buffer_put_text(page, "</tr>");
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

// How fast each run is, as bars from zero.
static void put_bars(const struct run_set *set, const char *key, const char *title,
                     struct buffer *page) {
    double max = 0;
    for (size_t i = 0; i < set->count; i++) {
        max = fmax(max, html_real(set->runs[i].figures, key));
    }
    if (!(max > 0)) {
        return;
    }
    buffer_print(page, "<h3>%s</h3><div class=\"wide\"><table class=\"bars\"><tbody>", title);
    for (size_t i = 0; i < set->count; i++) {
        const json *value = json_member(set->runs[i].figures, key);
        const double fraction = json_is_number_value(value) ? json_as_real(value) / max : 0;
        buffer_put_text(page, "<tr><th scope=\"row\">");
        html_put_text(page, set->runs[i].name);
        buffer_print(page,
                     "</th><td><svg class=\"bar s%zu\" viewBox=\"0 0 100 10\" "
                     "preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"M0 0h%.2fv10h-"
                     "%.2fz\"/></svg></td><td>",
                     i % 8, 100 * fmax(fraction, 0), 100 * fmax(fraction, 0));
        html_put_value(page, key, value);
        buffer_put_text(page, "</td></tr>");
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

void html_put_figures(const struct run_set *set, struct buffer *page) {
    const struct facts facts = {.set = set, .of = figures_of};
    if (!has_any(&facts)) {
        return;
    }
    buffer_put_text(page, "<h2>Measurements</h2>\n");
    put_bars(set, "samples_per_second", "Samples per second", page);
    put_bars(set, "mfu", "Model FLOPs utilisation", page);
    put_table(&facts, page);
    for (size_t i = 0; i < set->count; i++) {
        struct json_walk walk = {.object = set->runs[i].figures};
        while (walk.object != NULL && json_walk_next(&walk)) {
            if (json_is_array_value(walk.value) && json_is_object_value(json_at(walk.value, 0))) {
                put_list(walk.key, walk.value, page);
            }
        }
    }
}

// --- processes, warnings -------------------------------------------------------------------------

static void put_time(double seconds, struct buffer *page) {
    char text[64] = "\xe2\x80\x93";
    struct tm broken;
    const time_t time = seconds > 0 && seconds < 1e11 ? (time_t)seconds : 0;
    if (time > 0 && gmtime_r(&time, &broken) != NULL) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &broken);
    }
    buffer_put_text(page, text);
}

// The columns; in a narrow window each cell says its own.
static const char *const process_columns[] = {
    "Run", "Process", "First record (UTC)", "Last record", "Reported updates", "Started from"};
#define PROCESS_COLUMNS (sizeof process_columns / sizeof *process_columns)

static void begin_cell(size_t column, struct buffer *page) {
    buffer_print(page, "%s<td data-name=\"%s\">", column > 0 ? "</td>" : "",
                 process_columns[column]);
}

static void put_process(const struct run *run, size_t number, struct buffer *page) {
    const struct run_process *process = &run->processes[number];
    buffer_put_text(page, "<tr>");
    begin_cell(0, page);
    html_put_text(page, run->name);
    begin_cell(1, page);
    buffer_print(page, "%zu", number + 1);
    begin_cell(2, page);
    put_time(process->begin, page);
    begin_cell(3, page);
    put_time(process->end, page);
    begin_cell(4, page);
    if (process->first <= process->last) {
        buffer_print(page, "%.0f to %.0f", process->first, process->last);
    } else {
        buffer_put_text(page, "none");
    }
    begin_cell(5, page);
    html_put_text(page, process->resumed_from != NULL ? process->resumed_from : "the beginning");
    buffer_put_text(page, "</td></tr>");
}

void html_put_processes(const struct run_set *set, struct buffer *page) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        count += set->runs[i].process_count;
    }
    if (count == 0) {
        return;
    }
    buffer_put_text(page, "<h2>Processes</h2>\n<div class=\"wide\" tabindex=\"0\"><table "
                          "class=\"stacks\"><thead><tr>");
    for (size_t i = 0; i < PROCESS_COLUMNS; i++) {
        buffer_print(page, "<th scope=\"col\">%s</th>", process_columns[i]);
    }
    buffer_put_text(page, "</tr></thead><tbody>");
    for (size_t i = 0; i < set->count; i++) {
        for (size_t process = 0; process < set->runs[i].process_count; process++) {
            put_process(&set->runs[i], process, page);
        }
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

void html_put_warnings(const struct run_set *set, struct buffer *page) {
    int is_first = 1;
    for (size_t i = 0; i < set->count; i++) {
        for (size_t w = 0; w < json_length(set->runs[i].warnings); w++) {
            const char *text = json_text(json_at(set->runs[i].warnings, w));
            buffer_put_text(page, is_first ? "<h2>Warnings</h2>\n<ul>" : "");
            buffer_put_text(page, "<li>");
            if (set->count > 1) {
                html_put_text(page, set->runs[i].name);
                buffer_put_text(page, ": ");
            }
            html_put_text(page, text != NULL ? text : "");
            buffer_put_text(page, "</li>");
            is_first = 0;
        }
    }
    buffer_put_text(page, is_first ? "" : "</ul>\n");
}

// --- plan and settings ---------------------------------------------------------------------------

static const json *plan_of(const struct run *run, const char *process) {
    return json_member(run->plan, process);
}

static const json *settings_of(const struct run *run, const char *process) {
    (void)process;
    return run->settings;
}

void html_put_plan(const struct run_set *set, struct buffer *page) {
    int is_first = 1;
    for (size_t i = 0; i < set->count; i++) {
        struct json_walk walk = {.object = set->runs[i].plan};
        while (walk.object != NULL && json_walk_next(&walk)) {
            const struct facts facts = {.set = set, .of = plan_of, .process = walk.key};
            int is_shown = 0;
            for (size_t before = 0; before < i; before++) {
                is_shown |= plan_of(&set->runs[before], walk.key) != NULL;
            }
            if (is_shown) {
                continue;
            }
            buffer_put_text(page, is_first ? "<h2>Plan</h2>\n" : "");
            buffer_put_text(page, "<details open><summary>");
            html_put_text(page, walk.key);
            buffer_put_text(page, "</summary>");
            put_table(&facts, page);
            buffer_put_text(page, "</details>\n");
            is_first = 0;
        }
    }
}

void html_put_settings(const struct run_set *set, struct buffer *page) {
    struct facts facts = {.set = set, .of = settings_of};
    if (!has_any(&facts)) {
        return;
    }
    buffer_put_text(page, "<h2>Settings</h2>\n");
    if (set->count > 1) {
        facts.only_differing = 1;
        buffer_put_text(page, "<h3>Those that differ</h3>\n");
        put_table(&facts, page);
        facts.only_differing = 0;
    }
    buffer_put_text(page, "<details><summary>All</summary>");
    put_table(&facts, page);
    buffer_put_text(page, "</details>\n");
}
