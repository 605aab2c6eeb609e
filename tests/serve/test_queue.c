// SPDX-License-Identifier: Apache-2.0
// Turns in the server's queue: the order in which waiting calls are run, and the limits. A first
// batch holds the lane until all others wait.
#include "core/harness.h"
#include "core/memory.h"
#include "serve/queue.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define BATCH_TOKENS 10
#define MODELS 3
#define CALLS_MAX 16

static const struct task_model instances[MODELS];

struct room {
    struct queue *queue;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, allowed; // batches that have arrived, and that may end
    char order[256];      // names of calls with the number of their items, batches by commas
    struct http_request requests[CALLS_MAX];
    struct call calls[CALLS_MAX];
    size_t count;
};

static void run_batch(void *context, struct work_batch *batch) {
    struct room *room = context;
    pthread_mutex_lock(&room->lock);
    for (struct call *call = batch->calls; call != NULL; call = call->beside) {
        char name[40];
        snprintf(name, sizeof name, "%s%zu", call->model_name, call->taken - call->done);
        strcat(room->order, name);
        call->done = call->taken;
    }
    strcat(room->order, ",");
    const int number = ++room->arrived;
    pthread_cond_broadcast(&room->changed);
    while (number > room->allowed) {
        pthread_cond_wait(&room->changed, &room->lock);
    }
    pthread_mutex_unlock(&room->lock);
}

// A call that is read gets two items.
static void read_call(void *context, struct work_batch *batch) {
    struct room *room = context;
    struct call *call = batch->calls;
    struct berth_error error;
    assert_null(call->beside);
    call->count = 2;
    assert_int_equal(queue_put(room->queue, call, &error), BERTH_OK);
}

static enum berth_status put(struct room *room, const char *name, uint64_t client, size_t model,
                             size_t count, int64_t tokens, struct berth_error *error) {
    struct call *call = &room->calls[room->count];
    struct http_request *request = &room->requests[room->count++];
    request->client = client;
    *call = (struct call){.request = request,
                          .model_name = name,
                          .model = model,
                          .instance = count > 0 ? &instances[model] : NULL,
                          .count = count,
                          .items = memory_array_zeroed(4, sizeof *call->items),
                          .tokens = (int64_t)count * tokens};
    for (size_t i = 0; i < 4; i++) {
        call->items[i].tokens = tokens;
    }
    return queue_put(room->queue, call, error);
}

static void add(struct room *room, const char *name, uint64_t client, size_t model, size_t count,
                int64_t tokens) {
    struct berth_error error;
    assert_int_equal(put(room, name, client, model, count, tokens, &error), BERTH_OK);
}

// Lets so many batches end in all, and waits for as many to arrive.
static void let(struct room *room, int allowed, int arrived) {
    pthread_mutex_lock(&room->lock);
    room->allowed = allowed;
    pthread_cond_broadcast(&room->changed);
    while (room->arrived < arrived) {
        pthread_cond_wait(&room->changed, &room->lock);
    }
    pthread_mutex_unlock(&room->lock);
}

static void open_room(struct room *room) {
    static queue_work *const work[QUEUE_LANES] = {
        [QUEUE_READ] = read_call, [QUEUE_RUN] = run_batch, [QUEUE_LONG] = run_batch};
    const struct queue_limits limits = {.items = 12, .batch_tokens = BATCH_TOKENS};
    struct berth_error error;
    *room = (struct room){.count = 0};
    pthread_mutex_init(&room->lock, NULL);
    pthread_cond_init(&room->changed, NULL);
    assert_int_equal(queue_open(MODELS, &limits, work, room, &room->queue, &error), BERTH_OK);
    add(room, "first", 1, 0, 1, BATCH_TOKENS);
    let(room, 0, 1);
}

// Runs all that waits, which must come in this order.
static void close_room(struct room *room, const char *order) {
    let(room, INT_MAX, 0);
    queue_end(room->queue);
    assert_string_equal(room->order, order);
    for (size_t i = 0; i < MODELS; i++) {
        assert_int_equal(queue_length(room->queue, i), 0);
    }
    struct berth_error error;
    assert_int_equal(put(room, "late", 1, 0, 1, 1, &error), BERTH_UNAVAILABLE);
    assert_string_equal(error.message, "the server is shutting down");
    queue_close(room->queue);
    for (size_t i = 0; i < room->count; i++) {
        memory_free(room->calls[i].items);
    }
    pthread_cond_destroy(&room->changed);
    pthread_mutex_destroy(&room->lock);
}

static void test_clients_take_turns(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "a", 1, 0, 1, BATCH_TOKENS);
    add(&room, "b", 1, 0, 1, BATCH_TOKENS);
    add(&room, "c", 1, 0, 1, BATCH_TOKENS);
    add(&room, "d", 2, 0, 1, BATCH_TOKENS);
    add(&room, "e", 2, 0, 1, BATCH_TOKENS);
    add(&room, "f", 3, 0, 1, BATCH_TOKENS);
    close_room(&room, "first1,a1,d1,f1,b1,e1,c1,");
}

// Who comes later has a turn in this round, and not also those of the rounds before.
static void test_a_later_client(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "a", 1, 0, 1, BATCH_TOKENS);
    add(&room, "b", 1, 0, 1, BATCH_TOKENS);
    add(&room, "c", 1, 0, 1, BATCH_TOKENS);
    let(&room, 2, 3);
    add(&room, "d", 2, 0, 1, BATCH_TOKENS);
    add(&room, "e", 2, 0, 1, BATCH_TOKENS);
    close_room(&room, "first1,a1,b1,d1,c1,e1,");
}

static void test_small_calls_share_a_batch(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "a", 1, 0, 2, 3);
    add(&room, "b", 2, 0, 1, 4);
    add(&room, "c", 3, 0, 1, 1);
    close_room(&room, "first1,a2b1,c1,");
}

// Of one client: what is larger than a batch takes turns with what is not, and its own large calls
// come one after the other.
static void test_large_calls_give_up_their_turns(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "large", 1, 0, 3, BATCH_TOKENS);
    add(&room, "next", 1, 0, 2, BATCH_TOKENS);
    add(&room, "a", 1, 0, 1, BATCH_TOKENS);
    add(&room, "b", 1, 0, 1, BATCH_TOKENS);
    close_room(&room, "first1,large1,a1,large1,b1,large1,next1,next1,");
}

static void test_models_take_turns(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "a", 1, 0, 1, 1);
    add(&room, "b", 2, 0, 1, BATCH_TOKENS);
    add(&room, "c", 3, 2, 1, 1);
    add(&room, "d", 4, 1, 1, 1);
    add(&room, "e", 5, 0, 1, 1);
    add(&room, "f", 6, 1, 1, 1);
    close_room(&room, "first1,d1f1,c1,a1,b1,e1,");
}

// A reload changes the instance of a model: both have batches of their own.
static void test_instances_share_no_batch(void **state) {
    (void)state;
    struct room room;
    static const struct task_model reloaded;
    open_room(&room);
    add(&room, "a", 1, 0, 1, 1);
    add(&room, "b", 2, 0, 1, 1);
    room.calls[2].instance = &reloaded;
    add(&room, "c", 3, 0, 1, 1);
    close_room(&room, "first1,a1c1,b1,");
}

static void test_long_texts_have_a_lane(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "long", 2, 0, 1, 4 * BATCH_TOKENS + 1);
    let(&room, 0, 2); // although the other lane is held
    add(&room, "a", 3, 0, 1, 4 * BATCH_TOKENS);
    close_room(&room, "first1,long1,a1,");
}

static void test_limit(void **state) {
    (void)state;
    struct room room;
    struct berth_error error;
    open_room(&room);
    add(&room, "a", 1, 1, 4, 1);
    add(&room, "b", 1, 1, 4, 1);
    add(&room, "c", 1, 2, 3, 1);
    assert_int_equal(queue_length(room.queue, 0), 0);
    assert_int_equal(queue_length(room.queue, 1), 8);
    assert_int_equal(queue_length(room.queue, 2), 3);
    assert_int_equal(put(&room, "d", 1, 1, 2, 1, &error), BERTH_UNAVAILABLE);
    assert_string_equal(error.message,
                        "11 texts are waiting and this request has 2, but --max_queue is 12; try "
                        "again later");
    add(&room, "e", 2, 1, 1, 1);
    close_room(&room, "first1,a4e1b4,c3,");
}

static void test_reading_comes_first(void **state) {
    (void)state;
    struct room room;
    open_room(&room);
    add(&room, "read", 1, 0, 0, 1);
    close_room(&room, "first1,read2,");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_take_turns),
        cmocka_unit_test(test_a_later_client),
        cmocka_unit_test(test_small_calls_share_a_batch),
        cmocka_unit_test(test_large_calls_give_up_their_turns),
        cmocka_unit_test(test_models_take_turns),
        cmocka_unit_test(test_instances_share_no_batch),
        cmocka_unit_test(test_long_texts_have_a_lane),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_reading_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
