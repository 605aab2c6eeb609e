// SPDX-License-Identifier: Apache-2.0
// Fuzzes pre-training instances in HDF5 files, plain or packed: instances that are read have the
// properties that the trainer relies on, and their number is the one counted without reading them.
// The corpus stores numbers uncompressed, so that a changed byte is a changed number.
//
// Bit 1 of the settings: rows of 16 tokens at most.
#include "instances.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct instances read = {0};
    struct berth_error error = {0};
    int longest = input.settings & 2 ? 16 : 0;
    const char *path = fuzz_file(input.bytes, input.size);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = pretraining_read_hdf5(path, FUZZ_VOCABULARY, longest, &read, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status != BERTH_NO_MEMORY) {
        require_good_instances(&read, longest > 0 ? (size_t)longest : INSTANCE_LENGTH_MAX);
        require_same_count(pretraining_measure_hdf5, path, longest, &read, status == BERTH_OK);
    }
    instances_done(&read);
    return 0;
}
