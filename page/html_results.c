// SPDX-License-Identifier: Apache-2.0
// The sections of a report about data and predictions of a run: lengths of sequences, confusion
// matrix, sample answers and tags. The records were logged by the tasks (task/details.h); html.c
// calls these after the charts.
#include "core/html.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "page/chart.h"
#include "page/html_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A larger matrix would be unreadable; the most frequent mistakes are listed instead.
#define CLASSES_LIMIT 40
#define MISTAKES_LIMIT 40

static void put_title(const char *title, const struct run *run, struct buffer *page) {
    buffer_print(page, "<h2>%s <span class=\"soft\">", title);
    html_put_text(page, run->name);
    buffer_put_text(page, "</span></h2>\n");
}

// --- lengths -------------------------------------------------------------------------------------

struct lengths {
    double sequences, tokens, longest, largest_bar;
};

static void put_bars(const json *list, const struct lengths *sum, struct buffer *page) {
    const double width = 1000.0 / (double)json_length(list);
    buffer_print(
        page, "<svg class=\"histogram s0\" viewBox=\"0 0 1000 200\" preserveAspectRatio=\"none\" "
              "role=\"img\" aria-label=\"Histogram of lengths; the table has its values\">");
    for (size_t i = 0; i < json_length(list); i++) {
        const json *item = json_at(list, i);
        const double sequences = html_real(item, "sequences");
        const double height = sequences > 0 ? 200 * sequences / sum->largest_bar : 0;
        buffer_print(page,
                     "<path d=\"M%.2f 200v-%.1fh%.2fv%.1fz\"><title>%.0f to %.0f tokens: %.0f "
                     "sequences</title></path>",
                     width * (double)i, height, 0.9 * width, height, html_real(item, "from"),
                     html_real(item, "to"), sequences);
    }
    buffer_print(page,
                 "</svg><div class=\"ends soft\" aria-hidden=\"true\"><span>%.0f</span><span>%.0f "
                 "tokens</span></div>",
                 html_real(json_at(list, 0), "from"),
                 html_real(json_at(list, json_length(list) - 1), "to"));
}

// Attention costs the square of a length, the rest of the layers the length.
static void put_padding(const struct run *run, const struct lengths *sum, struct buffer *page) {
    const struct {
        const char *title;
        double length;
    } paddings[] = {
        {"to max_seq_length", html_real(json_at(run_details(run, "length"), 0), "max_seq_length")},
        {"to the longest sequence", sum->longest}};
    const double mean = sum->tokens / sum->sequences;
    buffer_print(
        page,
        "<p>%.0f sequences of %.1f tokens in the mean, %.0f in the longest. Berth packs "
        "them without padding.</p><div class=\"wide\" tabindex=\"0\"><table><thead><tr><th "
        "scope=\"col\">Padding</th><th scope=\"col\">Tokens</th><th scope=\"col\">Times as "
        "many</th></tr></thead><tbody><tr><td>none</td><td>%.0f</td><td>1</td></tr>",
        sum->sequences, mean, sum->longest, sum->tokens);
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
        if (paddings[i].length > 0) {
            buffer_print(page, "<tr><td>%s, %.0f</td><td>%.0f</td><td>%.2f</td></tr>",
                         paddings[i].title, paddings[i].length, paddings[i].length * sum->sequences,
                         paddings[i].length / mean);
        }
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

void html_put_lengths(const struct run *run, struct buffer *page) {
    const json *list = run_details(run, "length");
    struct lengths sum = {0};
    for (size_t i = 0; i < json_length(list); i++) {
        const json *item = json_at(list, i);
        const double sequences = html_real(item, "sequences"), tokens = html_real(item, "tokens");
        if (sequences > 0 && tokens > 0) {
            sum.sequences += sequences;
            sum.tokens += tokens;
            sum.longest = fmax(sum.longest, html_real(item, "longest"));
            sum.largest_bar = fmax(sum.largest_bar, sequences);
        }
    }
    if (sum.sequences > 0) {
        put_title("Lengths of training sequences", run, page);
        put_bars(list, &sum, page);
        put_padding(run, &sum, page);
        buffer_put_text(
            page, "<details><summary>Values</summary><div class=\"wide\" tabindex=\"0\"><table>"
                  "<thead><tr><th scope=\"col\">Tokens</th><th "
                  "scope=\"col\">Sequences</th></tr></thead><tbody>");
        for (size_t i = 0; i < json_length(list); i++) {
            const json *item = json_at(list, i);
            buffer_print(page, "<tr><td>%.0f to %.0f</td><td>%.0f</td></tr>",
                         html_real(item, "from"), html_real(item, "to"),
                         html_real(item, "sequences"));
        }
        buffer_put_text(page, "</tbody></table></div></details>\n");
    }
}

// --- confusion -----------------------------------------------------------------------------------

// The classes in the order of their first cell.
struct classes {
    const char *names[CLASSES_LIMIT];
    double totals[CLASSES_LIMIT]; // of examples of the class
    size_t count;
    int are_many;
};

static size_t class_of(struct classes *classes, const char *name) {
    for (size_t i = 0; i < classes->count; i++) {
        if (strcmp(classes->names[i], name) == 0) {
            return i;
        }
    }
    if (classes->count == CLASSES_LIMIT) {
        classes->are_many = 1;
        return 0;
    }
    classes->names[classes->count] = name;
    return classes->count++;
}

static double count_of(const json *cells, const char *expected, const char *predicted) {
    for (size_t i = 0; i < json_length(cells); i++) {
        const json *cell = json_at(cells, i);
        if (strcmp(html_text(cell, "expected"), expected) == 0 &&
            strcmp(html_text(cell, "predicted"), predicted) == 0) {
            return html_real(cell, "count");
        }
    }
    return 0;
}

static void put_matrix(const json *cells, const struct classes *classes, struct buffer *page) {
    buffer_put_text(page,
                    "<p class=\"soft\">A row for each true class, a column for each predicted "
                    "one.</p><div class=\"wide\" tabindex=\"0\"><table class=\"matrix\"><thead>"
                    "<tr><td></td>");
    for (size_t i = 0; i < classes->count; i++) {
        buffer_put_text(page, "<th scope=\"col\">");
        html_put_text(page, classes->names[i]);
        buffer_put_text(page, "</th>");
    }
    buffer_put_text(page, "<th scope=\"col\">recall</th></tr></thead><tbody>");
    for (size_t row = 0; row < classes->count; row++) {
        const double total = classes->totals[row];
        buffer_put_text(page, "<tr><th scope=\"row\">");
        html_put_text(page, classes->names[row]);
        buffer_put_text(page, "</th>");
        for (size_t column = 0; column < classes->count; column++) {
            const double count = count_of(cells, classes->names[row], classes->names[column]);
            const double fraction = total > 0 && count > 0 ? fmin(count / total, 1) : 0;
            buffer_print(page, "<td class=\"%c%d\">%.0f</td>", row == column ? 'r' : 'w',
                         (int)ceil(4 * fraction), count);
        }
        buffer_print(page, total > 0 ? "<td>%.1f %%</td></tr>" : "<td>\xe2\x80\x93</td></tr>",
                     100 * count_of(cells, classes->names[row], classes->names[row]) / total);
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

// Lists the cells in the order of the log, which begins with the most frequent.
static void put_mistakes(const json *cells, struct buffer *page) {
    size_t rows = 0;
    buffer_put_text(page,
                    "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">True "
                    "class</th><th scope=\"col\">Predicted</th><th "
                    "scope=\"col\">Examples</th></tr></thead><tbody>");
    for (size_t i = 0; i < json_length(cells) && rows < MISTAKES_LIMIT; i++) {
        const json *cell = json_at(cells, i);
        if (strcmp(html_text(cell, "expected"), html_text(cell, "predicted")) != 0) {
            buffer_put_text(page, "<tr><td>");
            html_put_text(page, html_text(cell, "expected"));
            buffer_put_text(page, "</td><td>");
            html_put_text(page, html_text(cell, "predicted"));
            buffer_print(page, "</td><td>%.0f</td></tr>", html_real(cell, "count"));
            rows++;
        }
    }
    buffer_put_text(page, "</tbody></table></div>\n");
}

void html_put_confusion(const struct run *run, struct buffer *page) {
    const json *cells = run_details(run, "confusion");
    struct classes classes = {.count = 0};
    if (json_length(cells) == 0) {
        return;
    }
    for (size_t i = 0; i < json_length(cells); i++) {
        const json *cell = json_at(cells, i);
        const double count = html_real(cell, "count");
        class_of(&classes, html_text(cell, "predicted"));
        const size_t expected = class_of(&classes, html_text(cell, "expected"));
        classes.totals[expected] += count > 0 ? count : 0;
    }
    put_title("Confusion matrix", run, page);
    if (classes.are_many) {
        put_mistakes(cells, page);
    } else {
        put_matrix(cells, &classes, page);
    }
}

// --- samples -------------------------------------------------------------------------------------

// A byte offset in the text for a character's number; SIZE_MAX: none.
static size_t offset_of(const char *text, double character) {
    const size_t length = strlen(text);
    return character >= 0 && character <= (double)length
               ? utf8_skip(text, length, (int64_t)character)
               : SIZE_MAX;
}

struct span {
    size_t begin, end; // bytes, end exclusive; SIZE_MAX: none
};

static struct span span_of(const json *sample, const char *text, const char *begin,
                           const char *end) {
    const struct span span = {offset_of(text, html_real(sample, begin)),
                              offset_of(text, html_real(sample, end))};
    return span.begin < span.end && span.end != SIZE_MAX ? span : (struct span){SIZE_MAX, SIZE_MAX};
}

static int is_in(const struct span *span, size_t at) {
    return span->begin != SIZE_MAX && at >= span->begin && at < span->end;
}

// The text with both answers marked; where they overlap, both marks apply.
static void put_marked(const json *sample, struct buffer *page) {
    static const char *const opening[] = {"", "<mark class=\"wrong\">", "<mark class=\"right\">",
                                          "<mark class=\"both\">"};
    const char *text = html_text(sample, "context");
    const struct span found = span_of(sample, text, "predicted_begin", "predicted_end"),
                      wanted = span_of(sample, text, "expected_begin", "expected_end");
    const size_t length = strlen(text);
    int before = 0;
    buffer_put_text(page, "<p class=\"text\">");
    for (size_t at = 0, next; at <= length; at = next) {
        const int mark = at < length ? is_in(&found, at) + 2 * is_in(&wanted, at) : 0;
        if (mark != before) {
            buffer_put_text(page, before != 0 ? "</mark>" : "");
            buffer_put_text(page, opening[mark]);
            before = mark;
        }
        next = at + (at < length ? utf8_whole(text[at]) : 1);
        next = at < length && next > length ? length : next;
        html_put_escaped(page, text + at, at < length ? next - at : 0);
    }
    buffer_put_text(page, "</p>");
}

static void put_pair(const char *title, const json *sample, const char *key, struct buffer *page) {
    if (json_member(sample, key) != NULL) {
        const char *text = html_text(sample, key);
        buffer_print(page, "<dt>%s</dt><dd>", title);
        html_put_text(page, *text != '\0' ? text : "(no answer)");
        buffer_put_text(page, "</dd>");
    }
}

static void put_sample(const json *sample, struct buffer *page) {
    const double score = html_real(sample, "score"), probability = html_real(sample, "probability");
    const int is_right = score >= 100;
    buffer_print(page, "<li class=\"sample\"><h3>%s", is_right ? "Right: " : "");
    html_put_text(page, html_text(sample, "question"));
    buffer_put_text(page, "</h3><dl>");
    put_pair("Answer", sample, "predicted", page);
    put_pair("Expected", sample, "expected", page);
    if (!isnan(score)) {
        buffer_print(page, "<dt>Score</dt><dd>%.1f</dd>", score);
    }
    if (!isnan(probability)) {
        buffer_print(page, "<dt>Probability</dt><dd>%.3f</dd>", probability);
    }
    buffer_put_text(page, "</dl>");
    if (json_member(sample, "context") != NULL) {
        put_marked(sample, page);
    }
    buffer_put_text(page, "</li>\n");
}

void html_put_samples(const struct run *run, struct buffer *page) {
    const json *samples = run_details(run, "sample");
    if (json_length(samples) == 0) {
        return;
    }
    put_title("Sample answers", run, page);
    buffer_print(
        page,
        "<p class=\"soft\">Of the last evaluation, at update %.0f; the worst errors first: "
        "wrong answers by the model's probability.",
        html_real(json_at(samples, 0), "step"));
    if (json_member(json_at(samples, 0), "context") != NULL) {
        buffer_put_text(page, " Marked: <mark class=\"wrong\">wrong answer</mark> <mark "
                              "class=\"right\">expected</mark> <mark class=\"both\">both</mark>");
    }
    buffer_put_text(page, "</p>\n<ol class=\"samples\">\n");
    for (size_t i = 0; i < json_length(samples) && i < 100; i++) {
        put_sample(json_at(samples, i), page);
    }
    buffer_put_text(page, "</ol>\n");
}
