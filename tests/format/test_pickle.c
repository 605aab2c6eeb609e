// SPDX-License-Identifier: Apache-2.0
// The pickle machine: every known opcode, every refusal, and its limits. test_torch.c tests whole
// files, test_torch_hostile.c hostile ones.
#include "format/pickles.h"
#include "format/torch/pickle.h"

#include <inttypes.h>

static enum berth_status read_raw(struct pickle *pickle, struct raw raw, enum pickle_trust trust,
                                  struct berth_error *error) {
    struct file_reader file;
    scratch_write_bytes("p", raw.bytes, raw.length);
    assert_int_equal(file_reader_open(&file, scratch("p"), NULL), BERTH_OK);
    struct pickle_source source = {.file = &file, .part = "", .end = file.size};
    enum berth_status status = pickle_read(pickle, &source, trust, NULL, error);
    file_reader_close(&file);
    return status;
}

static struct pickle read_good(struct raw raw, enum pickle_trust trust) {
    struct pickle pickle;
    struct berth_error error;
    if (read_raw(&pickle, raw, trust, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return pickle;
}

static void assert_refused(struct raw raw, enum pickle_trust trust, const char *part) {
    struct pickle pickle;
    struct berth_error error;
    if (read_raw(&pickle, raw, trust, &error) != BERTH_BAD_DATA) {
        fail_msg("not refused: %s", part);
    }
    assert_message_has(&error, scratch("p"));
    assert_message_has(&error, part);
    assert_null(pickle.values);
}

static int64_t integer_of(const struct pickle_value *value) {
    int64_t number = INT64_MIN;
    assert_true(pickle_integer(value, &number));
    return number;
}

// --- reading ------------------------------------------------------------------------------------

static void test_numbers(void **state) {
    (void)state;
    static const struct raw raw =
        RAW(PROTO
            "](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\0\x8a\1\x80\x8a\2\x80\0"
            "\x8a\x08\0\0\0\0\0\0\0\x80G\x3f\xf8\0\0\0\0\0\0\x88\x89N\x8a\x09\0\0\0\0\0\0\0\0\1e.");
    static const int64_t integers[] = {255, 65535, -1, 0, -128, 128, INT64_MIN};
    struct pickle pickle = read_good(raw, PICKLE_KNOWN_NAMES);
    const struct pickle_value *list = pickle.root;
    int64_t integer = 7;
    assert_int_equal(pickle_length(list), 12);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_int_equal(integer_of(pickle_item(&pickle, list, i)), integers[i]);
    }
    assert_true(pickle_is(pickle_item(&pickle, list, 7), PICKLE_REAL));
    assert_true(pickle_item(&pickle, list, 7)->real == 1.5);
    assert_false(pickle_integer(pickle_item(&pickle, list, 7), &integer));
    assert_int_equal(integer, 7);
    assert_true(pickle_is(pickle_item(&pickle, list, 8), PICKLE_TRUTH));
    assert_int_equal(pickle_item(&pickle, list, 8)->integer, 1);
    assert_int_equal(pickle_item(&pickle, list, 9)->integer, 0);
    assert_true(pickle_is(pickle_item(&pickle, list, 10), PICKLE_NONE));
    assert_true(pickle_is(pickle_item(&pickle, list, 11), PICKLE_OPAQUE)); // 2^64
    assert_null(pickle_item(&pickle, list, 12));
    pickle_done(&pickle);
}

static void test_containers(void **state) {
    (void)state;
    static const struct raw good = RAW(
        PROTO
        "}q\0(" TEXT("\1", "t") ")" TEXT("\2", "t1") "K\1\x85" TEXT("\2", "t2") "K\1K\2\x86" TEXT("\2", "t3") "K\1K\2K\3\x87" TEXT(
            "\2",
            "tm") "(K\1K\2K\3K\4t" TEXT("\1",
                                        "l") "]K\1a(K\2K\3e" TEXT("\1",
                                                                  "s") "\x8f" TEXT("\4",
                                                                                   "self") "h\0uK\7"
                                                                                           "U\1xs"
                                                                                           ".");
    static const struct {
        const char *key;
        size_t length;
    } tuples[] = {{"t", 0}, {"t1", 1}, {"t2", 2}, {"t3", 3}, {"tm", 4}, {"l", 3}, {"s", 0}};
    struct pickle pickle = read_good(good, PICKLE_KNOWN_NAMES);
    assert_int_equal(pickle_length(pickle.root), 9);
    for (size_t i = 0; i < sizeof tuples / sizeof *tuples; i++) {
        const struct pickle_value *value = pickle_member(&pickle, pickle.root, tuples[i].key);
        assert_int_equal(pickle_length(value), tuples[i].length);
        for (size_t k = 0; k < tuples[i].length; k++) {
            assert_int_equal(integer_of(pickle_item(&pickle, value, k)), k + 1);
        }
    }
    assert_ptr_equal(pickle_member(&pickle, pickle.root, "self"), pickle.root); // a cycle
    assert_int_equal(integer_of(pickle_key(&pickle, pickle.root, 8)), 7);
    assert_string_equal(pickle_text(&pickle, pickle_item(&pickle, pickle.root, 8)), "x");
    assert_null(pickle_member(&pickle, pickle.root, "nothing"));
    assert_null(pickle_member(&pickle, NULL, "t"));
    assert_null(pickle_item(&pickle, NULL, 0));
    assert_null(pickle_key(&pickle, pickle.root, 9));
    assert_null(pickle_text(&pickle, pickle.root));
    pickle_done(&pickle);
}

// The opcodes of protocols 3 to 5: byte strings, strings of each length, sets, names from the
// stack, and a memo without numbers.
static void test_later_protocols(void **state) {
    (void)state;
    struct pickle pickle =
        read_good((struct raw)RAW(
                      "\x80\4\x95\2\0\0\0\0\0\0\0}\x94(\x8c\1"
                      "b\x94"
                      "C\1x\x94\x8c\1"
                      "cB\1\0\0\0\xff\x8d\1\0\0\0\0\0\0\0u\x8e\1\0\0\0\0\0\0\0y\x8c\1s\x8f(K\1\x90"
                      "\x8c\1"
                      "f(K\1\x91\x8c\1m\x8c\x0b"
                      "collections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94\x8c\1n"
                      "h\5\x8c\1ph\2\x8c\1z\x96\1\0\0\0\0\0\0\0zu."),
                  PICKLE_KNOWN_NAMES);
    const struct pickle_value *root = pickle.root;
    assert_string_equal(pickle_text(&pickle, pickle_member(&pickle, root, "b")), "x");
    assert_true(pickle_is(pickle_member(&pickle, root, "c"), PICKLE_OPAQUE));
    assert_string_equal(pickle_text(&pickle, pickle_member(&pickle, root, "u")), "y");
    assert_int_equal(pickle_length(pickle_member(&pickle, root, "s")), 1);
    assert_int_equal(pickle_length(pickle_member(&pickle, root, "f")), 1);
    assert_true(pickle_is(pickle_member(&pickle, root, "m"), PICKLE_DICT));
    assert_true(pickle_is(pickle_member(&pickle, root, "n"), PICKLE_NAME));
    assert_string_equal(pickle_text(&pickle, pickle_member(&pickle, root, "p")), "x");
    pickle_done(&pickle);
}

// Keys match as a whole, not by prefix.
static void test_keys_are_whole(void **state) {
    (void)state;
    struct pickle pickle =
        read_good((struct raw)RAW(PROTO "}(" TEXT("\2", "ab") "K\1" TEXT("\1", "a") "K\2u."),
                  PICKLE_KNOWN_NAMES);
    assert_int_equal(integer_of(pickle_member(&pickle, pickle.root, "a")), 2);
    assert_int_equal(integer_of(pickle_member(&pickle, pickle.root, "ab")), 1);
    assert_null(pickle_member(&pickle, pickle.root, "abc"));
    pickle_done(&pickle);
}

// Containers that grow alternately keep their items.
static void test_containers_that_grow(void **state) {
    (void)state;
    struct buffer bytes = {0};
    buffer_put(&bytes, PROTO "(]q\0]q\1", 9);
    for (int i = 0; i < 300; i++) {
        unsigned char number[] = {
            'h', (unsigned char)(i % 2), 'M', (unsigned char)i, (unsigned char)(i >> 8), 'a'};
        buffer_put(&bytes, number, sizeof number);
    }
    buffer_put(&bytes, "t.", 2);
    struct pickle pickle = read_good((struct raw){bytes.bytes, bytes.length}, PICKLE_KNOWN_NAMES);
    for (size_t list = 0; list < 2; list++) {
        const struct pickle_value *value = pickle_item(&pickle, pickle.root, list);
        assert_int_equal(pickle_length(value), 150);
        for (size_t i = 0; i < 150; i++) {
            assert_int_equal(integer_of(pickle_item(&pickle, value, i)), 2 * i + list);
        }
    }
    pickle_done(&pickle);
    buffer_done(&bytes);
}

static void test_texts(void **state) {
    (void)state;
    static const struct raw raw =
        RAW(PROTO "](" TEXT("\5", "\xc3\xa9\0\xc3\xa9") TEXT("\0", "") "U\1\xe9U\2ok"
                                                                       "e.");
    struct pickle pickle = read_good(raw, PICKLE_KNOWN_NAMES);
    const struct pickle_value *text = pickle_item(&pickle, pickle.root, 0);
    assert_int_equal(text->count, 5);
    assert_memory_equal(pickle_text(&pickle, text), "\xc3\xa9\0\xc3\xa9", 6);
    assert_string_equal(pickle_text(&pickle, pickle_item(&pickle, pickle.root, 1)), "");
    assert_true(pickle_is(pickle_item(&pickle, pickle.root, 2), PICKLE_OPAQUE)); // Latin-1 bytes
    assert_string_equal(pickle_text(&pickle, pickle_item(&pickle, pickle.root, 3)), "ok");
    pickle_done(&pickle);
}

static void test_memo(void **state) {
    (void)state;
    struct buffer bytes = {0};
    buffer_put(&bytes, PROTO "(", 3);
    for (int i = 0; i < 300; i++) { // long indices from 256 on
        buffer_put(&bytes, "M", 1);
        buffer_put_number(&bytes, (uint64_t)i, 2);
        buffer_put(&bytes, i < 256 ? "q" : "r", 1);
        buffer_put_number(&bytes, (uint64_t)i, i < 256 ? 1 : 4);
    }
    buffer_put(&bytes,
               "h\xff"
               "j\x2b\1\0\0t.",
               9);
    struct pickle pickle = read_good((struct raw){bytes.bytes, bytes.length}, PICKLE_KNOWN_NAMES);
    assert_int_equal(integer_of(pickle_item(&pickle, pickle.root, 300)), 255);
    assert_int_equal(integer_of(pickle_item(&pickle, pickle.root, 301)), 299);
    pickle_done(&pickle);
    buffer_done(&bytes);
}

static void test_names_and_calls(void **state) {
    (void)state;
    static const struct raw good = RAW(PROTO "(ctorch\nSize\n(K\2K\3t\x85R"
                                             "ccollections\nOrderedDict\n)R}b"
                                             "ccollections\nOrderedDict\n](](U\1aK\1eU\1bK\2\x86"
                                             "e\x85R"
                                             "ccollections\ndefaultdict\n)R"
                                             "ctorch\ndevice\nU\3cpu\x85R"
                                             "t.");
    struct pickle pickle = read_good(good, PICKLE_KNOWN_NAMES);
    const struct pickle_value *size = pickle_item(&pickle, pickle.root, 0);
    assert_true(pickle_is(size, PICKLE_TUPLE));
    assert_int_equal(integer_of(pickle_item(&pickle, size, 1)), 3);
    assert_true(pickle_is(pickle_item(&pickle, pickle.root, 1), PICKLE_DICT));
    const struct pickle_value *pairs = pickle_item(&pickle, pickle.root, 2);
    assert_int_equal(integer_of(pickle_member(&pickle, pairs, "b")), 2);
    assert_int_equal(integer_of(pickle_member(&pickle, pairs, "a")), 1);
    assert_true(pickle_is(pickle_item(&pickle, pickle.root, 3), PICKLE_DICT));
    const struct pickle_value *device = pickle_item(&pickle, pickle.root, 4);
    assert_true(pickle_is(device, PICKLE_OPAQUE));
    const struct pickle_value *arguments = pickle_arguments(&pickle, device);
    assert_string_equal(pickle_text(&pickle, pickle_item(&pickle, arguments, 0)), "cpu");
    assert_null(pickle_arguments(&pickle, size));
    pickle_done(&pickle);
}

// Values of Python's library that scripts save with their weights: torch's restricted loader knows
// some of them, too.
static void test_values_of_scripts(void **state) {
    (void)state;
    static const struct raw pickles[] = {
        RAW(PROTO "ccollections\nCounter\n}(K\3K\1K\5K\1u\x85R."), // of MultiStepLR
        RAW(PROTO "ccollections\ndeque\n)K\3\x86R(K\1K\2e."),
        RAW(PROTO "cpathlib\nPosixPath\nX\1\0\0\0/X\1\0\0\0x\x86R."),
        RAW(PROTO "cpathlib._local\nPosixPath\nX\1\0\0\0x\x85R."),
        RAW(PROTO "cdatetime\ndatetime\nc_codecs\nencode\nX\1\0\0\0xX\6\0\0\0latin1\x86R\x85R."),
        RAW(PROTO "cdatetime\ntimedelta\nK\1K\0K\0\x87R."),
        RAW(PROTO "c__builtin__\nfrozenset\n]K\1a\x85R."),
        RAW(PROTO "c__builtin__\nbytearray\nX\1\0\0\0xX\7\0\0\0latin-1\x86R."),
        RAW(PROTO "c__builtin__\nbytes\n)R."),
        RAW(PROTO "c__builtin__\ncomplex\nK\1K\2\x86R."),
    };
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        struct pickle pickle = read_good(pickles[i], PICKLE_KNOWN_NAMES);
        assert_true(pickle_is(pickle.root, PICKLE_OPAQUE));
        pickle_done(&pickle);
    }
}

static void test_tensors(void **state) {
    (void)state;
    static const struct raw raw =
        RAW(PROTO "(" TENSOR(FLOATS("\x06"), "K\1", "K\1K\2\x86",
                             "K\3K\4\x86") "q\1"
                                           "ctorch._utils\n_rebuild_parameter\n(h\1\x88"
                                           "}tR"
                                           "ctorch.nn.parameter\nParameter\nh\1\x88\x86\x81}b"
                                           "ctorch._utils\n_rebuild_parameter_with_state\n(h\1\x88"
                                           "}}tR"
                                           "t.");
    struct pickle pickle = read_good(raw, PICKLE_KNOWN_NAMES);
    const struct pickle_value *value = pickle_item(&pickle, pickle.root, 0);
    struct pickle_tensor tensor;
    struct pickle_storage storage;
    assert_true(pickle_tensor(&pickle, value, &tensor));
    assert_string_equal(tensor.storage.dtype_name, "F32");
    assert_string_equal(tensor.storage.key, "0");
    assert_int_equal(tensor.storage.numel, 6);
    assert_int_equal(tensor.offset, 1);
    assert_int_equal(tensor.rank, 2);
    assert_int_equal(tensor.shape[1], 2);
    assert_int_equal(tensor.stride[0], 3);
    assert_ptr_equal(pickle_item(&pickle, pickle.root, 1), value); // a parameter is its tensor
    assert_ptr_equal(pickle_item(&pickle, pickle.root, 2), value);
    assert_ptr_equal(pickle_item(&pickle, pickle.root, 3), value);
    assert_false(pickle_tensor(&pickle, pickle.root, &tensor));
    assert_false(pickle_storage(&pickle, value, &storage));
    pickle_done(&pickle);
}

#define OBJECT "cargparse\nNamespace\n)\x81}U\1aK\1sb"
#define CALL "cos\nsystem\nU\1x\x85R"

static void test_unknown_names(void **state) {
    (void)state;
    static const struct raw name = RAW(PROTO "cos\nsystem\n."), object = RAW(PROTO OBJECT "."),
                            call = RAW(PROTO CALL "."),
                            filled = RAW(PROTO "cos\nsystem\n)R(K\1K\2uK\1K\2sK\1a(K\1e)R}b.");
    assert_refused(name, PICKLE_KNOWN_NAMES,
                   ": byte 2: GLOBAL: refused: checkpoints do not need the name os.system");
    assert_refused(object, PICKLE_KNOWN_NAMES, "argparse.Namespace");
    assert_refused(call, PICKLE_OBJECTS,
                   ": byte 17: REDUCE: refused: checkpoints do not need to call os.system; nothing "
                   "was run. If the file is a pickled module, save its state_dict instead");
    assert_refused(filled, PICKLE_OBJECTS,
                   "REDUCE: refused: checkpoints do not need to call os.system");
    assert_refused((struct raw)RAW(PROTO "ctorch._utils\n_rebuild_sparse_tensor\nU\1x\x85R."),
                   PICKLE_OBJECTS,
                   "_rebuild_sparse_tensor; nothing was run. Save sparse tensors "
                   "by their to_dense()");
    assert_refused((struct raw)RAW(PROTO "(U\7storagectorch\nQInt8Storage\nU\1"
                                         "0U\3cpuK\1tQ."),
                   PICKLE_OBJECTS, "of quantized numbers: save the tensors by their dequantize()");
    struct pickle pickle = read_good(name, PICKLE_OBJECTS);
    assert_string_equal(pickle_text(&pickle, pickle.root), "os.system");
    assert_true(pickle_is(pickle.root, PICKLE_NAME));
    pickle_done(&pickle);
    pickle = read_good(object, PICKLE_OBJECTS);
    assert_true(pickle_is(pickle.root, PICKLE_OPAQUE));
    pickle_done(&pickle);
    static const struct raw opaque[] = {RAW(PROTO CALL "."), RAW(PROTO OBJECT "."),
                                        RAW(PROTO "cos\nsystem\n)R(K\1K\2uK\1K\2sK\1a(K\1e)R}b.")};
    for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++) {
        pickle = read_good(opaque[i], PICKLE_CALLS);
        assert_true(pickle_is(pickle.root, PICKLE_OPAQUE));
        assert_int_equal(pickle_length(pickle.root), 0);
        pickle_done(&pickle);
    }
}

// --- refusals -----------------------------------------------------------------------------------

static void test_malformed(void **state) {
    (void)state;
    static const struct {
        struct raw raw;
        const char *part;
    } cases[] = {
        {RAW(""), "byte 0: STOP: truncated: 1 bytes are needed, 0 are left"},
        {RAW("\x80"), "byte 0: PROTO: truncated: 1 bytes are needed"},
        {RAW("\x80\6N."), "byte 0: PROTO: expected protocol 2 to 5, found 6"},
        {RAW("\x80\1N."), "byte 0: PROTO: expected protocol 2 to 5, found 1"},
        {RAW("\x80\4\x95\3\0\0\0\0\0\0\0N."), "FRAME: truncated: a frame of 3 bytes, 2 are left"},
        {RAW("\x80\4\x94N."), "MEMOIZE: the stack is empty"},
        {RAW("\x80\4K\1\x8c\1a\x93."), "STACK_GLOBAL: expected names of at most 255 bytes"},
        {RAW("\x80\4\x8c\1a\x8c\3a b\x93."), "STACK_GLOBAL: a name with byte 0x20"},
        {RAW("\x80\4\x8d\0\0\0\0\1\0\0\0."), "BINUNICODE8: a string of 4294967296 bytes"},
        {RAW(PROTO "N"), "byte 3: STOP"},
        {RAW(PROTO "."), "byte 2: STOP: 0 values and 0 marks are left"},
        {RAW(PROTO "NN."), "2 values and 0 marks"},
        {RAW(PROTO "N(."), "1 values and 1 marks"},
        {RAW(PROTO "N.N"), "byte 3: STOP: 1 bytes follow the end"},
        {RAW(PROTO "t."), "TUPLE: no mark on the stack"},
        {RAW(PROTO "u."), "SETITEMS: no mark on the stack"},
        {RAW(PROTO "e."), "APPENDS: no mark on the stack"},
        {RAW(PROTO "K\1\x86."), "TUPLE2: the stack holds fewer than 2 values"},
        {RAW(PROTO "K\1(\x85."), "TUPLE1: the stack holds fewer than 1 values"},
        {RAW(PROTO "a."), "APPEND: the stack is empty"},
        {RAW(PROTO "](K\1a."), "APPEND: the stack is empty"},
        {RAW(PROTO "s."), "SETITEM: the stack is empty"},
        {RAW(PROTO "K\1s."), "SETITEM: the stack is empty"},
        {RAW(PROTO "}K\1a."), "APPEND: expected a list to add to"},
        {RAW(PROTO ")(K\1e."), "APPENDS: expected a list to add to"},
        {RAW(PROTO "]K\1K\1s."), "SETITEM: expected a dictionary to add to"},
        {RAW(PROTO "K\1K\1K\1s."), "expected a dictionary"},
        {RAW(PROTO "}(K\1u."), "SETITEMS: a key without a value"},
        {RAW(PROTO "q\0."), "BINPUT: the stack is empty"},
        {RAW(PROTO "h\0."), "BINGET: memo 0 was never stored"},
        {RAW(PROTO "Nq\1h\0\x86."), "BINGET: memo 0 was never stored"},
        {RAW(PROTO "j\xff\xff\xff\xff."), "LONG_BINGET: memo 4294967295 was never stored"},
        {RAW(PROTO "Nr\xff\xff\xff\xff."), "LONG_BINPUT: memo index 4294967295 is out"},
        {RAW(PROTO "Nr\0\1\0\0."), "LONG_BINPUT: memo index 256 is out"},
        {RAW(PROTO "X\xff\xff\xff\xff."), "BINUNICODE: a string of 4294967295 bytes; the limit is"},
        {RAW(PROTO "X\2\0\0\0."), "BINUNICODE: truncated: a string of 2 bytes, 1 are left"},
        {RAW(PROTO TEXT("\1", "\xff") "."), "BINUNICODE: a string that is not UTF-8"},
        {RAW(PROTO TEXT("\3", "\xed\xa0\x80") "."), "not UTF-8"},
        {RAW(PROTO TEXT("\2", "\xc0\xaf") "."), "not UTF-8"},
        {RAW(PROTO "X\1\0"), "BINUNICODE: truncated: 4 bytes are needed, 2 are left"},
        {RAW(PROTO "cos\n"), "GLOBAL: truncated: 1 bytes are needed"},
        {RAW(PROTO "co s\nx\n."), "GLOBAL: a name with byte 0x20"},
        {RAW(PROTO "co\xff\nx\n."), "GLOBAL: a name with byte 0xff"},
        {RAW(PROTO "co\0\nx\n."), "GLOBAL: a name with byte 0x00"},
        {RAW(PROTO "R."), "REDUCE: the stack is empty"},
        {RAW(PROTO ")R."), "REDUCE: the stack is empty"},
        {RAW(PROTO "N)R."), "REDUCE: expected the name of a callable"},
        {RAW(PROTO ")ctorch\nSize\n\x81."), "NEWOBJ: expected the name of a callable"},
        {RAW(PROTO "ctorch\nSize\nNR."), "REDUCE: expected a tuple of arguments"},
        {RAW(PROTO "ctorch\nSize\n)R."), "the first argument is neither a tensor nor a tuple"},
        {RAW(PROTO "ctorch\nSize\nN\x85R."), "the first argument is neither a tensor nor a tuple"},
        {RAW(PROTO "ctorch.nn.parameter\nParameter\n)\x81."), "the first argument is neither"},
        {RAW(PROTO "ctorch\nFloatStorage\n)R."),
         "REDUCE: refused: checkpoints do not need to call torch.FloatStorage"},
        {RAW(PROTO "ctorch\nSize\n)\x81."), "NEWOBJ: the first argument"},
        {RAW(PROTO "ccollections\nOrderedDict\n]Na\x85R."),
         "entry 0 of a dictionary is not a pair"},
        {RAW(PROTO "ccollections\nOrderedDict\n]N\x85"
                   "a\x85R."),
         "entry 0 of a dictionary is"},
        {RAW(PROTO "b."), "BUILD: the stack is empty"},
        {RAW(PROTO "NNb."), "BUILD: a state for a value that is not an object"},
        {RAW(PROTO "ctorch\nSize\n}b."), "BUILD: a state for a value that is not an object"},
        {RAW(PROTO "Q."), "BINPERSID: the stack is empty"},
        {RAW(PROTO "K\1Q."), "BINPERSID: a persistent id that is not a tuple"},
        {RAW(PROTO "]Q."), "that is not a tuple"},
        {RAW(PROTO "(NNNNtQ."), "of five or six fields"},
        {RAW(PROTO "(NNNNNNNtQ."), "of five or six fields"},
        {RAW(PROTO "(NNNNNtQ."), "of something other than a storage"},
        {RAW(PROTO "(U\6moduleNNNtQ."), "of a pickled module: save its state_dict"},
        {RAW(PROTO "(U\7modularNNNNtQ."), "of something other than a storage"},
        {RAW(PROTO "(U\7storageNU\1"
                   "0U\3cpuK\1tQ."),
         "of a storage of unknown type"},
        {RAW(PROTO "(U\7storagectorch\nSize\nU\1"
                   "0U\3cpuK\1tQ."),
         "of a storage of unknown type"},
        {RAW(PROTO STORAGE_ID("Float", "\0", "\1") "tQ."), "without a key"},
        {RAW(PROTO "(U\7storagectorch\nFloatStorage\nK\1U\3cpuK\1tQ."), "without a key"},
        {RAW(PROTO "(U\7storagectorch\nFloatStorage\nU\1"
                   "0U\3cpuJ\xff\xff\xff\xfftQ."),
         "or a number of elements"},
        {RAW(PROTO STORAGE_ID("Float", "0", "\1") ")tQ."), "of a view of another storage"},
        {RAW(PROTO TENSOR("N", "K\0", ")", ")") "."), "REDUCE: a tensor without a storage"},
        {RAW(PROTO "ctorch._utils\n_rebuild_tensor_v2\n" FLOATS("\1") "\x85R."),
         "a tensor without a storage, offset"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "N", ")", ")") "."), "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "J\xff\xff\xff\xff", ")", ")") "."),
         "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "]", ")") "."), "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "N\x85", "K\1\x85") "."),
         "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "K\1\x85", ")") "."),
         "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "."),
         "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "K\1\x85", "J\xff\xff\xff\xff\x85") "."),
         "are negative or not integers"},
        {RAW(PROTO TENSOR(FLOATS("\1"), "K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                          "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t") "."),
         "a tensor of more than 8 dimensions"},
        {RAW(PROTO "}(U\1aNU\1aNu."), "duplicate key \"a\" in a dictionary"},
        {RAW(PROTO "}U\1aNs" TEXT("\1", "a") "Ns."), "duplicate key \"a\""},
        {RAW(PROTO "}(K\1NU\1aNM\1\0Nu."), "duplicate key 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(cases[i].raw, PICKLE_OBJECTS, cases[i].part);
    }
}

// Each of the 256 bytes as an opcode, with a stack that suits most: an opcode that is not on the
// list is refused by name, at every level of trust.
static void test_opcodes(void **state) {
    (void)state;
    static const char known[] = "\x80.(N\x88\x89KMJ\x8aGXU)\x85\x86\x87t]\x8f"
                                "ae}suqrhjcR\x81"
                                "bQBC\x8c\x8d\x8e\x90\x91\x93\x94\x95\x96";
    static const struct {
        unsigned char code;
        const char *name;
    } named[] = {{'i', "INST"},   {'o', "OBJ"},         {0x82, "EXT1"},      {0x83, "EXT2"},
                 {0x84, "EXT4"},  {'P', "PERSID"},      {0x92, "NEWOBJ_EX"}, {'0', "POP"},
                 {'S', "STRING"}, {0x8b, "LONG4"},      {'I', "INT"},        {0x97, "NEXT_BUFFER"},
                 {'d', "DICT"},   {0xff, "opcode 0xff"}};
    size_t refused = 0;
    for (int code = 0; code < 256; code++) {
        char bytes[] = {'\x80', 2, 'N', (char)code, 'N', '.'};
        if (memchr(known, code, sizeof known - 1) == NULL) {
            assert_refused((struct raw){bytes, sizeof bytes}, PICKLE_CALLS,
                           ": refused: checkpoints do not need this opcode");
            refused++;
        }
    }
    assert_int_equal(refused, 256 - (sizeof known - 1));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char bytes[] = {'\x80', 2, (char)named[i].code, '.'}, part[64];
        snprintf(part, sizeof part, "byte 2: %s: refused", named[i].name);
        assert_refused((struct raw){bytes, sizeof bytes}, PICKLE_CALLS, part);
    }
}

// A pickle of `count` repetitions of `repeated` between a start and an end.
static void assert_repeated_refused(const char *begin, const char *repeated, size_t repeated_length,
                                    size_t count, const char *part) {
    struct buffer bytes = {0};
    buffer_put(&bytes, PROTO, 2);
    buffer_put_text(&bytes, begin);
    for (size_t i = 0; i < count; i++) {
        buffer_put(&bytes, repeated, repeated_length);
    }
    buffer_put_text(&bytes, ".");
    assert_false(bytes.failed);
    assert_refused((struct raw){bytes.bytes, bytes.length}, PICKLE_CALLS, part);
    buffer_done(&bytes);
}

static void test_limits(void **state) {
    (void)state;
    assert_repeated_refused("", "(", 1, 1001, "byte 1002: MARK: more than 1000 marks");
    assert_repeated_refused("", "N", 1, 100001, "byte 100002: NONE: more than 100000 values");
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    assert_repeated_refused("c", long_name, 256, 1, "GLOBAL: a name longer than 255 bytes");
    // Ten million values, kept small on the stack.
    char batch[1003] = "(";
    memset(batch + 1, 'N', 1000);
    batch[1001] = 'e';
    assert_repeated_refused("]", batch, 1002, 10000, "more than 10000000 values");
    // Within the limits of the machine, beyond those of a string.
    char text[8] = "X\1\0\x10";
    assert_repeated_refused("", text, 5, 1, "a string of 1048577 bytes; the limit is 1048576");
}

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    static const struct raw raw = RAW(PROTO "}q\0(" TEXT("\1", "a") "q\1" TENSOR(
        FLOATS("\x06"), "K\1", "K\1\x85",
        "K\3\x85") "U\1b]K\1aG\0\0\0\0\0\0\0\0\x88\x89N\x8a\1\1J\0\0\0\0M\0\0\x87\x86(t\x86\x86\x86"
                   "u.");
    struct pickle pickle = read_good(raw, PICKLE_KNOWN_NAMES);
    pickle_done(&pickle);
    for (size_t cut = 0; cut < raw.length; cut++) {
        assert_refused((struct raw){raw.bytes, cut}, PICKLE_CALLS, "truncated");
    }
}

static void test_memory_out_at_every_allocation(void **state) {
    (void)state;
    static const struct raw raw = RAW(PROTO "}q\0(" TEXT("\1", "a") TENSOR(
        FLOATS("\x06"), "K\1", "K\1\x85",
        "K\3\x85") "U\1bccollections\nOrderedDict\n](](U\1aK\1ee\x85Ru.");
    enum berth_status status = BERTH_NO_MEMORY;
    struct file_reader file;
    scratch_write_bytes("p", raw.bytes, raw.length);
    assert_int_equal(file_reader_open(&file, scratch("p"), NULL), BERTH_OK);
    struct pickle_source source = {.file = &file, .part = "", .end = file.size};
    uint64_t call;
    for (call = 1; call < 100 && status != BERTH_OK; call++) {
        struct pickle pickle;
        memory_fail_at(call, 0);
        status = pickle_read(&pickle, &source, PICKLE_OBJECTS, NULL, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        pickle_done(&pickle);
    }
    assert_int_equal(status, BERTH_OK);
    assert_in_range(call, 8, 99);
    file_reader_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_numbers),
        SCRATCH_TEST(test_containers),
        SCRATCH_TEST(test_keys_are_whole),
        SCRATCH_TEST(test_later_protocols),
        SCRATCH_TEST(test_containers_that_grow),
        SCRATCH_TEST(test_texts),
        SCRATCH_TEST(test_memo),
        SCRATCH_TEST(test_names_and_calls),
        SCRATCH_TEST(test_values_of_scripts),
        SCRATCH_TEST(test_tensors),
        SCRATCH_TEST(test_unknown_names),
        SCRATCH_TEST(test_malformed),
        SCRATCH_TEST(test_opcodes),
        SCRATCH_TEST(test_limits),
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_memory_out_at_every_allocation),
    };
    return cmocka_run_group_tests_name("pickle", tests, NULL, NULL);
}
