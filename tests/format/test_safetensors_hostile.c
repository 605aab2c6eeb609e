// SPDX-License-Identifier: Apache-2.0
// Malformed safetensors, one by one: the cases of the reference implementation's tests (tensor.rs)
// and of its attack scripts (attacks/), then our own. Each is refused with a message about the
// fault and its position, in bounded memory.
#include "core/scratch.h"
#include "format/safetensors/safetensors.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

// --- writing files -------------------------------------------------------------------------------

// The file "a": a length, a header and `data` zero bytes.
static void make_raw(uint64_t announced, const char *header, size_t header_length, size_t data) {
    char *bytes = memory_array_zeroed(8 + header_length + data, 1);
    memcpy(bytes, &announced, 8);
    memcpy(bytes + 8, header, header_length);
    scratch_write_bytes("a", bytes, 8 + header_length + data);
    memory_free(bytes);
}

static void make(const char *header, size_t data) {
    make_raw(strlen(header), header, strlen(header), data);
}

static void assert_refused(const char *part) {
    struct safetensors container;
    struct berth_error error;
    assert_int_equal(safetensors_open(&container, scratch("a"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, scratch("a"));
    assert_message_has(&error, part);
    assert_null(container.entries);
    assert_int_equal(container.file.descriptor, -1);
}

static void assert_accepted(size_t count) {
    struct safetensors container;
    struct berth_error error;
    if (safetensors_open(&container, scratch("a"), &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(container.count, count);
    safetensors_close(&container);
}

#define ENTRY(dtype, shape, begin, end)                                                            \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define GOOD_I32 "{\"test\":" ENTRY("I32", "[2,2]", "0", "16") "}"

// --- the reference's tests ----------------------------------------------------------------------

static void test_empty_shape(void **state) {
    (void)state;
    make("{\"test\":" ENTRY("I32", "[]", "0", "4") "}", 4);
    assert_accepted(1);
}

static void test_zero_sized_tensor(void **state) {
    (void)state;
    make("{\"test\":" ENTRY("I32", "[2,0]", "0", "0") "}", 0);
    assert_accepted(1);
}

static void test_json_attack(void **state) {
    (void)state;
    char header[2048] = "{";
    for (int i = 0; i < 10; i++) {
        snprintf(header + strlen(header), sizeof header - strlen(header), "%s\"weight_%d\":%s",
                 i == 0 ? "" : ",", i, ENTRY("F32", "[2,2]", "0", "16"));
    }
    strcat(header, "}");
    make(header, 16);
    assert_refused("\"weight_1\": its data begins at byte 0, but the tensor before it ends at 16");
}

static void test_trailing_bytes(void **state) { // a polyglot file
    (void)state;
    make(GOOD_I32, 16 + 10);
    assert_refused("followed by other data");
}

static void test_missing_bytes(void **state) {
    (void)state;
    make(GOOD_I32, 16 - 2);
    assert_refused("truncated");
}

static void test_length_with_high_bytes(void **state) {
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63,
                                       0xff00000000000000u + sizeof GOOD_I32 - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        make_raw(lengths[i], GOOD_I32, strlen(GOOD_I32), 16);
        assert_refused("expected a header of");
    }
}

static void test_too_small(void **state) {
    (void)state;
    scratch_write("a", "");
    assert_refused("0 bytes are too few");
    scratch_write("a", "1234567");
    assert_refused("7 bytes are too few");
}

static void test_length_without_header(void **state) {
    (void)state;
    make_raw(60, "", 0, 0);
    assert_refused("expected a header of 60 bytes, the file has 0");
}

static void test_header_not_utf8(void **state) {
    (void)state;
    make_raw(1, "\xff", 1, 0);
    assert_refused("header byte 0: expected '{', found byte 0xff");
}

static void test_header_not_json(void **state) {
    (void)state;
    make("{", 0);
    assert_refused("header byte 1: expected '\"', found the end");
}

static void test_white_space_around_the_header(void **state) {
    (void)state;
    make("\t\n\r  " GOOD_I32, 16);
    assert_accepted(1);
    make(GOOD_I32 " \n\r\t", 16);
    assert_accepted(1);
}

static void test_offsets_do_not_match_the_shape(void **state) {
    (void)state;
    make("{\"test\":" ENTRY("I32", "[2,2]", "0", "4") "}", 4);
    assert_refused("tensor \"test\": data_offsets [0, 4], but 4 elements of I32 need 128 bits");
}

static void test_overflowing_shapes(void **state) {
    (void)state;
    make("{\"test\":" ENTRY("I32", "[2,18446744073709551614]", "0", "16") "}", 16);
    assert_refused("\"test\"");
    make("{\"test\":" ENTRY("I32", "[2,9223372036854775807]", "0", "16") "}", 16);
    assert_refused("more elements than can be counted");
    make("{\"test\":" ENTRY("I32", "[18446744073709551616]", "0", "16") "}", 16);
    assert_refused("below 2^64");
    make("{\"test\":" ENTRY("F64", "[2305843009213693952]", "0", "16") "}", 16);
    assert_refused("more elements than can be counted");
}

// --- the attack scripts -------------------------------------------------------------------------

// An object of the members that `print` writes for 0, 1, 2, ..., of about `bytes` bytes.
static char *long_header(size_t bytes, void (*print)(char *member, size_t size, unsigned number)) {
    char *text = memory_new(bytes + 256);
    size_t length = 1;
    text[0] = '{';
    for (unsigned i = 0; length < bytes; i++) {
        char member[160];
        print(member, sizeof member, i);
        length += (size_t)snprintf(text + length, 200, "%s%s", i == 0 ? "" : ",", member);
    }
    strcpy(text + length, "}");
    return text;
}

static void print_at_zero(char *member, size_t size, unsigned number) {
    snprintf(member, size, "\"%x\":%s", number, ENTRY("F4", "[]", "0", "0"));
}

static void print_overlapping(char *member, size_t size, unsigned number) {
    snprintf(member, size, "\"weight_%u\":%s", number, ENTRY("F32", "[200,200]", "0", "160000"));
}

static void print_empty(char *member, size_t size, unsigned number) {
    snprintf(member, size, "\"%x\":%s", number, ENTRY("U8", "[0]", "0", "0"));
}

static void print_metadata(char *member, size_t size, unsigned number) {
    snprintf(member, size, "%s\"%x\":\"\"", number == 0 ? "\"__metadata__\":{" : "", number);
}

// The increase of the peak memory in KiB from opening "a", in a child process.
static long peak_of_opening(enum berth_status *status) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rusage before, after;
        struct safetensors container;
        getrusage(RUSAGE_SELF, &before);
        *status = safetensors_open(&container, scratch("a"), NULL);
        getrusage(RUSAGE_SELF, &after);
        long result[2] = {after.ru_maxrss - before.ru_maxrss, *status};
        _exit(write(pipe_ends[1], result, sizeof result) != (ssize_t)sizeof result);
    }
    long result[2] = {0, 0};
    int child_status;
    assert_int_equal(read(pipe_ends[0], result, sizeof result), sizeof result);
    assert_int_equal(waitpid(child, &child_status, 0), child);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    *status = (enum berth_status)result[1];
    return result[0];
}

static void test_memory_is_bounded(void **state) {
    (void)state;
    static const struct {
        void (*print)(char *member, size_t size, unsigned number);
        const char *end;
        enum berth_status status;
    } cases[] = {
        {print_overlapping, "", BERTH_BAD_DATA}, // overlapping 200 x 200 matrices
        {print_at_zero, "", BERTH_BAD_DATA},
        {print_empty, "", BERTH_OK}, // hundreds of thousands of empty tensors are allowed
        {print_metadata, "}", BERTH_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum berth_status status;
        char *header = long_header(((size_t)16 << 20) - 300, cases[i].print);
        strcat(header, cases[i].end);
        make(header, cases[i].print == print_overlapping ? 160000 : 0);
        memory_free(header);
        long peak = peak_of_opening(&status);
        assert_int_equal(status, cases[i].status);
#ifndef __SANITIZE_ADDRESS__
        assert_in_range(peak, 0, (16 + 64) << 10);
#else
        (void)peak;
#endif
    }
}

static void test_header_above_the_limit(void **state) {
    (void)state;
    size_t length = ((size_t)16 << 20) + 1;
    char *header = memory_new(length);
    memset(header, ' ', length);
    make_raw(length, header, length, 0);
    assert_refused("the limit is 16777216");
    memory_free(header);
}

// --- our own ------------------------------------------------------------------------------------

static void test_malformed_headers(void **state) {
    (void)state;
    static const struct {
        const char *header, *part;
    } cases[] = {
        {"[]", "header byte 0: expected '{', found '['"},
        {"{}x", "expected the end, found 'x'"},
        {"{\"a\"}", "expected ':'"},
        {"{\"a\":1}", "expected '{'"},
        {"{\"a\":" ENTRY("I32", "[]", "0", "4") "\"b\"}", "expected ','"},
        {"{\"a\":" ENTRY("I32", "[]", "0", "4") ",}", "expected '\"', found '}'"},
        {"{\"a\":" ENTRY("F99", "[]", "0", "4") "}", "unknown data type \"F99\""},
        {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", "missing key \"dtype\""},
        {"{\"a\":{\"dtype\":\"I32\",\"data_offsets\":[0,4]}}", "missing key \"shape\""},
        {"{\"a\":{\"dtype\":\"I32\",\"shape\":[]}}", "missing key \"data_offsets\""},
        {"{\"a\":{\"dtype\":\"I32\",\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}",
         "duplicate key \"dtype\""},
        {"{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}", "expected '\"', found '1'"},
        {"{\"a\":{\"dtype\":\"I32\",\"shape\":{},\"data_offsets\":[0,4]}}", "expected '['"},
        {"{\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0]}}",
         "a.data_offsets: expected two offsets"},
        {"{\"a\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4,8]}}",
         "expected two offsets"},
        {"{\"a\":" ENTRY("I32", "[-1]", "0", "4") "}", "an integer of 0 or more, found '-'"},
        {"{\"a\":" ENTRY("I32", "[1.0]", "0", "4") "}", "not a fraction"},
        {"{\"a\":" ENTRY("I32", "[1e0]", "0", "4") "}", "not a fraction"},
        {"{\"a\":" ENTRY("I32", "[01]", "0", "4") "}", "an integer of 0 or more"},
        {"{\"a\":" ENTRY("I32", "[\"1\"]", "0", "4") "}", "an integer of 0 or more"},
        {"{\"a\":" ENTRY("I32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", "more than 8 dimensions"},
        {"{\"a\":" ENTRY("I32", "[]", "4", "0") "}", "data_offsets [4, 0]"},
        {"{\"a\":" ENTRY("I32", "[]", "4", "8") "}", "begins at byte 4"},
        {"{\"a\":" ENTRY("F4", "[1]", "0", "1") "}", "need 4 bits"},
        {"{\"a\":" ENTRY("I8", "[4]", "0", "4") ",\"a\":" ENTRY("I8", "[0]", "4", "4") "}",
         "duplicate tensor \"a\""},
        {"{\"a\":" ENTRY("I8", "[4]", "0", "4") ",\"\\u0061\":" ENTRY("I8", "[0]", "4", "4") "}",
         "duplicate tensor \"a\""},
        {"{\"a\":" ENTRY("I8", "[1]", "0", "1") ",\"b\":" ENTRY("I8", "[2]", "2", "4") "}",
         "\"b\": its data begins at byte 2, but the tensor before it ends at 1"},
        {"{\"__metadata__\":{\"a\":1}}", "expected '\"', found '1'"},
        {"{\"__metadata__\":[]}", "expected '{'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "duplicate key \"__metadata__\""},
        {"{\"\\u0000\":1}", "a string with \\u0000"},
        {"{\"\\ud800\":1}", "a valid code point"},
        {"{\"\\ud800\\u0041\":1}", "a valid code point"},
        {"{\"\\u00g0\":1}", "a valid code point"},
        {"{\"\\x\":1}", "an escape character"},
        {"{\"\\", "an escape character"},
        {"{\"\xc0\xaf\":1}", "well-formed UTF-8"},
        {"{\"\xed\xa0\x80\":1}", "well-formed UTF-8"},
        {"{\"\xf5\x80\x80\x80\":1}", "well-formed UTF-8"},
        {"{\"\xe4\xb8", "well-formed UTF-8"},
        {"{\"a\nb\":1}", "well-formed UTF-8"},
        {"{\"a\":{\"k\":tru}}", "a JSON value"},
        {"{\"a\":{\"k\":-}}", "in a.k: expected a valid number"},
        {"{\"a\":{\"k\":1.}}", "in a.k: expected a valid number"},
        {"{\"a\":{\"k\":1e}}", "in a.k: expected a valid number"},
        {"{\"a\":{\"k\":[1 2]}}", "expected ','"},
        {"{\"a\":{\"k\":{\"x\" 1}}}", "expected ':'"},
        {"{\"a\":{\"k\":[1}}}", "expected ','"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(cases[i].header, 4);
        assert_refused(cases[i].part);
    }
}

static void test_nesting_is_bounded(void **state) {
    (void)state;
    char header[512] = "{\"a\":{\"k\":";
    memset(header + strlen(header), '[', 400);
    make(header, 0);
    assert_refused("nested deeper than 64 levels");
}

// Unknown keys of an entry are ignored and counted; names may have any character.
static void test_unknown_keys_and_escapes(void **state) {
    (void)state;
    struct safetensors container;
    make("{\"\\ud83d\\ude00\\u00e9\\/\\t\":{\"dtype\":\"I8\",\"x\":[{},[],{\"y\":[-1.5e+3,true,"
         "false,null,\"z\"]}],\"shape\":[4],\"z\":0,\"data_offsets\":[0,4]}}",
         4);
    assert_int_equal(safetensors_open(&container, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(container.ignored_keys, 2);
    assert_string_equal(container.entries[0].name, "\U0001F600\u00e9/\t");
    safetensors_close(&container);
}

static void test_types_without_a_c_type(void **state) {
    (void)state;
    struct safetensors container;
    struct berth_error error;
    float value;
    make("{\"a\":" ENTRY("F4", "[2]", "0", "1") ",\"b\":" ENTRY("F6_E2M3", "[4]", "1", "4") "}", 4);
    assert_int_equal(safetensors_open(&container, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(safetensors_read_f32(&container, container.entries, 0, 1, &value, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "found F4");
    safetensors_close(&container);
}

#define SMALL                                                                                      \
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" ENTRY("F32", "[2]", "0", "8") ",\"b\":" ENTRY(  \
        "BF16", "[2]", "8", "12") "}"

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    make(SMALL, 12);
    assert_accepted(2);
    assert_int_equal(file_read(scratch("a"), 1 << 20, &bytes, &length, NULL), BERTH_OK);
    for (size_t cut = 0; cut < length; cut++) {
        scratch_write_bytes("a", bytes, cut);
        assert_refused(cut < 8                      ? "too few"
                       : cut < 8 + sizeof SMALL - 1 ? "expected a header of"
                                                    : "truncated");
    }
    memory_free(bytes);
}

// Every byte of the header replaced by every class of character: either refused or read. The file
// is in memory and changed in place.
static void test_changed_bytes(void **state) {
    (void)state;
    static const char changes[] = "\"\\{}[],:09-a \x80\xff";
    size_t length = strlen(SMALL), refused = 0;
    char header[sizeof SMALL], path[64];
    uint64_t announced = length;
    int file = memfd_create("changed", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    assert_int_equal(pwrite(file, &announced, 8, 0), 8);
    assert_int_equal(pwrite(file, "0123456789ab", 12, (off_t)(8 + length)), 12);
    for (size_t index = 0; index < length; index++) {
        for (size_t i = 0; i < sizeof changes; i++) {
            struct safetensors container;
            memcpy(header, SMALL, sizeof header);
            header[index] = changes[i];
            assert_int_equal(pwrite(file, header, length, 8), length);
            refused += safetensors_open(&container, path, NULL) != BERTH_OK;
            safetensors_close(&container);
        }
    }
    assert_in_range(refused, length * sizeof changes / 2, length * sizeof changes - 1);
    close(file);
}

static void test_memory_out_at_every_allocation(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    struct safetensors container;
    make(SMALL, 12);
    for (uint64_t call = 1; call < 100 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status = safetensors_open(&container, scratch("a"), NULL);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    float values[2] = {1, 2};
    struct tensor_out tensor = {
        .name = "x", .dtype = TENSOR_F32, .rank = 1, .shape = {2}, .data = values};
    status = BERTH_NO_MEMORY;
    for (uint64_t call = 1; call < 100 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status = safetensors_write(scratch("b"), &tensor, 1, NULL, NULL);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_int_equal(file_exists(scratch("b")), status == BERTH_OK);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    safetensors_close(&container);
}

static void test_missing_file_and_folder(void **state) {
    (void)state;
    struct safetensors container;
    assert_int_equal(safetensors_open(&container, scratch("none"), NULL), BERTH_NO_INPUT);
    assert_int_equal(safetensors_open(&container, scratch_folder, NULL), BERTH_NO_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_empty_shape),
        SCRATCH_TEST(test_zero_sized_tensor),
        SCRATCH_TEST(test_json_attack),
        SCRATCH_TEST(test_trailing_bytes),
        SCRATCH_TEST(test_missing_bytes),
        SCRATCH_TEST(test_length_with_high_bytes),
        SCRATCH_TEST(test_too_small),
        SCRATCH_TEST(test_length_without_header),
        SCRATCH_TEST(test_header_not_utf8),
        SCRATCH_TEST(test_header_not_json),
        SCRATCH_TEST(test_white_space_around_the_header),
        SCRATCH_TEST(test_offsets_do_not_match_the_shape),
        SCRATCH_TEST(test_overflowing_shapes),
        SCRATCH_TEST(test_memory_is_bounded),
        SCRATCH_TEST(test_header_above_the_limit),
        SCRATCH_TEST(test_malformed_headers),
        SCRATCH_TEST(test_nesting_is_bounded),
        SCRATCH_TEST(test_unknown_keys_and_escapes),
        SCRATCH_TEST(test_types_without_a_c_type),
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_changed_bytes),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
        SCRATCH_TEST(test_missing_file_and_folder),
    };
    return cmocka_run_group_tests_name("hostile safetensors", tests, NULL, NULL);
}
