// SPDX-License-Identifier: Apache-2.0
// Fills in the {{placeholders}} of page.html. Text from a request is escaped; only scripts with the
// page's nonce run. routes.c calls it for GET / and for a form that was sent.
#include "serve/page.h"

#include "core/buffer.h"
#include "core/html.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "serve/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

struct page {
    struct buffer text;
    struct models *models;
    const struct call *call; // NULL: no result
    char nonce[33];
};

// --- placeholders --------------------------------------------------------------------------------

static void put_nonce(struct page *page, const char *field) {
    buffer_put_text(&page->text, page->nonce);
}

static void put_models(struct page *page, const char *field) {
    for (size_t i = 0; i < models_count(page->models); i++) {
        const struct task_model *instance = models_acquire(page->models, i);
        const char *name = models_name(page->models, i);
        buffer_put_text(&page->text, "<option value=\"");
        html_put_text(&page->text, name);
        buffer_put_text(&page->text, "\" data-task=\"");
        html_put_text(&page->text, instance != NULL ? instance->task->about.pipeline : "");
        buffer_put_text(&page->text,
                        page->call != NULL && page->call->model == i ? "\" selected>" : "\">");
        html_put_text(&page->text, name);
        buffer_put_text(&page->text, "</option>");
        models_release(page->models, instance);
    }
}

// The value of a field of the submitted form.
static void put_field(struct page *page, const char *field) {
    const char *value =
        page->call != NULL ? json_text(json_member(page->call->document, field)) : NULL;
    html_put_text(&page->text, value != NULL ? value : "");
}

static void put_answer(struct page *page, const struct task_text *item) {
    struct buffer *text = &page->text;
    const struct berth_item *answer = item->items;
    const char *context = item->texts[1];
    const size_t length = strlen(context);
    const int is_empty = item->item_count == 0 || answer->start < 0;
    const size_t begin = is_empty ? length : utf8_skip(context, length, answer->start);
    const size_t end = is_empty ? length : utf8_skip(context, length, answer->end);
    buffer_put_text(text, "<h2>");
    html_put_text(text, is_empty ? "No answer" : answer->text);
    buffer_put_text(text, "</h2><p class=\"text\">");
    html_put_escaped(text, context, begin);
    buffer_put_text(text, is_empty ? "" : "<mark>");
    html_put_escaped(text, context + begin, end - begin);
    buffer_put_text(text, is_empty ? "" : "</mark>");
    html_put_escaped(text, context + end, length - end);
    buffer_put_text(text, "</p>");
}

static void put_result(struct page *page, const char *field) {
    struct json_line line = {0};
    const struct call *call = page->call;
    if (call == NULL) {
        return;
    }
    if (call->items[0].items != NULL && call->instance->task->about.needs_pair) {
        put_answer(page, &call->items[0]);
    }
    call->instance->task->write(&line, call->instance, &call->items[0]);
    buffer_put_text(&page->text, "<pre>");
    page->text.failed |= line.failed;
    html_put_text(&page->text, line.text != NULL ? line.text : "");
    buffer_put_text(&page->text, "</pre>");
    json_line_done(&line);
}

static const struct {
    const char *name;
    void (*put)(struct page *page, const char *field);
    const char *field;
} placeholders[] = {{"{{nonce}}", put_nonce, NULL},
                    {"{{models}}", put_models, NULL},
                    {"{{question}}", put_field, "question"},
                    {"{{context}}", put_field, "context"},
                    {"{{result}}", put_result, NULL}};

// --- the page ------------------------------------------------------------------------------------

static void make_nonce(char nonce[33]) {
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        *nonce = '\0'; // which no script matches
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    }
}

struct http_reply page_make(struct models *models, const struct call *call) {
    struct page page = {.models = models, .call = call};
    struct http_reply reply = {.status = 200, .type = "text/html; charset=utf-8"};
    make_nonce(page.nonce);
    const char *from = page_html;
    for (const char *at; (at = strstr(from, "{{")) != NULL;) {
        size_t i = 0;
        buffer_put(&page.text, from, (size_t)(at - from));
        while (strncmp(at, placeholders[i].name, strlen(placeholders[i].name)) != 0) {
            i++; // every placeholder of the page is in the table
        }
        placeholders[i].put(&page, placeholders[i].field);
        from = at + strlen(placeholders[i].name);
    }
    buffer_put_text(&page.text, from);
    if (page.text.failed) {
        buffer_done(&page.text);
        return (struct http_reply){.status = 503, .retry_after = 1};
    }
    snprintf(reply.policy, sizeof reply.policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; "
             "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
             page.nonce, page.nonce);
    reply.body = page.text.bytes;
    reply.length = page.text.length;
    return reply;
}

// --- the form ------------------------------------------------------------------------------------

static enum berth_status read(struct call *call, struct berth_error *error) {
    const struct task_row *task = call->instance->task;
    TRY(call_make_items(call, 1, error));
    // The form has the fields of question answering for every task.
    const json *question = json_member(call->document, "question");
    const json *context = json_member(call->document, "context");
    const int has_second =
        task->about.pair != NULL && (task->about.needs_pair || json_text_length(question) > 0);
    TRY(call_set_text(&call->items[0], task->about.needs_pair ? 1 : 0, context, "context", error));
    return has_second ? call_set_text(&call->items[0], task->about.needs_pair ? 0 : 1, question,
                                      "question", error)
                      : BERTH_OK;
}

const struct protocol protocol_form = {.read = read, .is_form = 1};
