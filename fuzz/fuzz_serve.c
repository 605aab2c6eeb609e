// SPDX-License-Identifier: Apache-2.0
// Fuzzes the bodies of requests, in each protocol and for each task, up to where a model is needed;
// and the escaping of texts for the page.
//
// The settings choose the protocol (modulo their number), the task, whether binary tensors follow
// the JSON, and whether unknown members are refused.
#include "core/html.h"
#include "input.h"
#include "serve/page.h"
#include "serve/protocols.h"

static const struct protocol *const protocols[] = {
    &protocol_hugging_face, &protocol_openai, &protocol_tei_embed, &protocol_tei_predict,
    &protocol_kserve,       &protocol_form,   &protocol_rerank,    &protocol_tei_similarity};
#define PROTOCOLS (sizeof protocols / sizeof *protocols)

static size_t count_tasks(void) {
    size_t count = 0;
    while (task_rows[count] != NULL) {
        count++;
    }
    return count;
}

// Binary tensors follow the first value.
static size_t length_of_json(const struct fuzz_input *input) {
    return input->settings / (PROTOCOLS * count_tasks()) % 2 == 0
               ? input->size
               : json_first_end((const char *)input->bytes, input->size);
}

static void check_item(const struct task_row *task, const struct task_text *item) {
    for (size_t i = 0; i < 2; i++) {
        const char *text = item->texts[i];
        require(text != NULL || (i == 1 && !task->about.needs_pair));
        require(text == NULL || *text != '\0');
    }
}

static void check_call(const struct call *call) {
    require(call->count > 0 && call->count <= call->max_items);
    for (size_t i = 0; i < call->count; i++) {
        check_item(call->instance->task, &call->items[i]);
    }
    require(call->settings.top >= 0 && call->settings.answer_length >= 0);
}

static void check_escaping(const char *bytes, size_t size) {
    struct buffer text = {0};
    html_put_escaped(&text, bytes, size);
    for (size_t i = 0; i < text.length; i++) {
        require(strchr("<>\"'", text.bytes[i]) == NULL || text.bytes[i] == '\0');
        require(text.bytes[i] != '&' || memchr(text.bytes + i, ';', text.length - i) != NULL);
    }
    require(text.length >= size);
    buffer_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct fuzz_input input = fuzz_input_of(data, size);
    struct buffer body = {0};
    buffer_put(&body, input.bytes, input.size);
    buffer_put_byte(&body, '\0');
    struct http_request request = {
        .method = "POST", .path = "/", .body = body.bytes, .body_length = input.size};
    struct unknown_members unknown = {.are_refused =
                                          input.settings / (2 * PROTOCOLS * count_tasks()) % 2};
    struct task_model instance = {.task = task_rows[input.settings / PROTOCOLS % count_tasks()],
                                  .max_tokens = 384};
    struct call *call = memory_array_zeroed(1, sizeof *call);
    struct berth_error error = {0};
    require(call != NULL);
    call->request = &request;
    call->protocol = protocols[input.settings % PROTOCOLS];
    call->instance = &instance;
    call->unknown = &unknown;
    call->model_name = "model";
    call->max_items = 100;
    call->json_length = length_of_json(&input);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = call_read(call, &error);
    if (status == BERTH_OK && (call->protocol->task == NULL ||
                               strcmp(call->protocol->task, instance.task->about.pipeline) == 0)) {
        call->settings = task_usual;
        status = call->protocol->read(call, &error);
        if (status == BERTH_OK) {
            check_call(call);
            status = instance.task->check != NULL
                         ? instance.task->check(call->items, call->count, &error)
                         : status;
        }
    }
    require(!fuzz_failing_stop(input.fail_at) || status == BERTH_NO_MEMORY);
    require(status == BERTH_OK || status == BERTH_USAGE || status == BERTH_NO_MEMORY);
    require(status == BERTH_OK || error.message[0] != '\0');
    call_free(call);
    check_escaping((const char *)input.bytes, input.size);
    buffer_done(&body);
    return 0;
}
