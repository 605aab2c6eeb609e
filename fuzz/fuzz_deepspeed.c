// SPDX-License-Identifier: Apache-2.0
// Fuzzes DeepSpeed's checkpoints of two ranks: the input is one of the three files, or the text
// `latest`; the others are valid. A pickle is wrapped in PyTorch's older layout, whose data has no
// CRC for the fuzzer to guess, followed by one storage of sixteen floats. If the checkpoint opens,
// every tensor is within its file and reads the same as a whole and in parts.
#include "core/buffer.h"
#include "core/file.h"
#include "format/containers/containers.h"
#include "format/deepspeed/deepspeed.h"
#include "format/torch/torch.h"
#include "input.h"

enum { TARGET = 3, LATEST = 3, WRAPPED = 4 }; // settings
#define LARGEST ((uint64_t)1 << 16)
#define STORAGE 16 // floats

static char folder[64];
static const char *const names[LATEST + 1] = {
    DEEPSPEED_MODEL_FILE, "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "zero_pp_rank_1_mp_rank_00_optim_states.pt", "latest"};
static struct buffer originals[LATEST + 1];

static char *path_of(const char *name) {
    char *path = path_join(folder, name);
    require(path != NULL);
    return path;
}

static void put_file(const char *name, const void *bytes, size_t size) {
    char *path = path_of(name);
    FILE *file = fopen(path, "wb");
    require(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    memory_free(path);
}

// --- the other files ----------------------------------------------------------------------------

static void write_model(void) {
    static const uint16_t zeros[STORAGE];
    static const int64_t a_shape[] = {3, 2}, b_shape[] = {5};
    const struct tensor_out tensors[] = {
        {.name = "a", .dtype = TENSOR_F16, .rank = 2, .shape = {3, 2}, .data = zeros},
        {.name = "b", .dtype = TENSOR_F16, .rank = 1, .shape = {5}, .data = zeros},
        {.name = "c", .dtype = TENSOR_F16, .rank = 1, .shape = {5}, .data = zeros}};
    const struct torch_node shapes[] = {
        {.key = "a", .kind = TORCH_SIZE, .count = 2, .shape = a_shape},
        {.key = "b", .kind = TORCH_SIZE, .count = 1, .shape = b_shape}};
    const struct torch_node group = {.kind = TORCH_DICT, .count = 2, .children = shapes};
    const struct torch_node shared = {.key = "c", .kind = TORCH_TEXT, .text = "b"};
    const struct torch_node members[] = {
        {.key = "module", .kind = TORCH_TENSORS, .count = 3, .tensors = tensors},
        {.key = "shared_params", .kind = TORCH_DICT, .count = 1, .children = &shared},
        {.key = "param_shapes", .kind = TORCH_LIST, .count = 1, .children = &group}};
    const struct torch_node root = {.kind = TORCH_DICT, .count = 3, .children = members};
    char *path = path_of(names[0]);
    require(torch_write(path, &root, NULL) == BERTH_OK);
    memory_free(path);
}

static void write_shard(const char *name) {
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const struct tensor_out partition = {
        .dtype = TENSOR_F32, .rank = 1, .shape = {6}, .data = numbers};
    const struct torch_node group = {.kind = TORCH_TENSOR, .tensors = &partition};
    const struct torch_node members[] = {
        {.key = "zero_stage", .kind = TORCH_INTEGER, .integer = 2},
        {.key = "partition_count", .kind = TORCH_INTEGER, .integer = 2},
        {.key = "single_partition_of_fp32_groups",
         .kind = TORCH_LIST,
         .count = 1,
         .children = &group}};
    const struct torch_node state = {
        .key = "optimizer_state_dict", .kind = TORCH_DICT, .count = 3, .children = members};
    const struct torch_node root = {.kind = TORCH_DICT, .count = 1, .children = &state};
    char *path = path_of(name);
    require(torch_write(path, &root, NULL) == BERTH_OK);
    memory_free(path);
}

static void remove_folder(void) {
    dir_remove(folder, NULL);
}

static void make_folder(void) {
    fuzz_make_folder(folder, remove_folder);
    write_model();
    write_shard(names[1]);
    write_shard(names[2]);
    for (size_t i = 0; i < LATEST; i++) {
        char *path = path_of(names[i]), *bytes;
        size_t size;
        require(file_read(path, 1 << 16, &bytes, &size, NULL) == BERTH_OK);
        buffer_put(&originals[i], bytes, size);
        memory_free(bytes);
        memory_free(path);
    }
}

// --- the input ----------------------------------------------------------------------------------

// The pickle with the parts before and after it.
static struct buffer wrap(const struct fuzz_input *input) {
    static const char preface[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                  "\x80\x02M\xe9\x03."
                                  "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    static const char keys[] = "\x80\x02]U\x01"
                               "0a.\x10\0\0\0\0\0\0\0";
    static const float numbers[STORAGE] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct buffer bytes = {0};
    buffer_put(&bytes, preface, sizeof preface - 1);
    buffer_put(&bytes, input->bytes, input->size);
    buffer_put(&bytes, keys, sizeof keys - 1);
    buffer_put(&bytes, numbers, sizeof numbers);
    require(!bytes.failed);
    return bytes;
}

static void read_tensor(const struct tensor_file *file, const struct tensor_entry *entry) {
    uint64_t bytes = entry->end - entry->begin, size = tensor_dtype_bits(entry->dtype_name) / 8;
    struct berth_error error;
    require(entry->end >= entry->begin && size > 0 && bytes % size == 0);
    if (bytes > LARGEST) {
        return;
    }
    char *whole = memory_new((size_t)bytes), *part = memory_new((size_t)bytes);
    uint64_t half = bytes / size / 2 * size;
    if (tensor_file_read(file, entry, whole, &error) == BERTH_OK) {
        require(file->format->read(file, entry, half, (size_t)(bytes - half), part, &error) ==
                BERTH_OK);
        require(memcmp(whole + half, part, (size_t)(bytes - half)) == 0);
    } else {
        require(error.status == BERTH_BAD_DATA); // its CRC
    }
    require(file->format->read(file, entry, size, (size_t)bytes, part, &error) == BERTH_INTERNAL);
    memory_free(whole);
    memory_free(part);
}

static void read_folder(const struct fuzz_input *input) {
    char *path = path_of(names[0]);
    struct tensor_file file;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = tensor_file_open(&file, path, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    memory_free(path);
    if (status != BERTH_OK) {
        return;
    }
    for (size_t i = 0; i < file.count && i < 16; i++) {
        read_tensor(&file, &file.entries[i]);
    }
    tensor_file_close(&file);
}

static void fuzz_latest(const struct fuzz_input *input) {
    char *path = NULL;
    struct berth_error error = {0};
    char *states = path_of(names[0]), *hidden = path_of("hidden");
    require(rename(states, hidden) == 0); // else the folder itself is a tag
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = deepspeed_find(folder, &path, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_INPUT ||
            status == BERTH_NO_MEMORY);
    require((path != NULL) <= (status == BERTH_OK));
    require(rename(hidden, states) == 0);
    memory_free(path);
    memory_free(states);
    memory_free(hidden);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    unsigned target = input.settings & TARGET;
    struct buffer wrapped = {0};
    if (folder[0] == '\0') {
        make_folder();
    }
    if ((input.settings & WRAPPED) != 0 && target != LATEST) {
        wrapped = wrap(&input);
        put_file(names[target], wrapped.bytes, wrapped.length);
    } else {
        put_file(names[target], input.bytes, input.size);
    }
    if (target == LATEST) {
        fuzz_latest(&input);
    } else {
        read_folder(&input);
        put_file(names[target], originals[target].bytes, originals[target].length);
    }
    buffer_done(&wrapped);
    return 0;
}
