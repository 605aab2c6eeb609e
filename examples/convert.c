// SPDX-License-Identifier: Apache-2.0
// convert MODEL OUT FORMAT: converts and lists the tensors of the result
#include <berth.h>
#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct berth_error error;
    const char *shapes[] = {"weights", "false", NULL};
    struct berth_model *model = berth_open(argv[1], NULL, NULL, &error), *converted = NULL;
    if (berth_save(model, argv[2], argv[3], NULL, NULL, &error) == BERTH_OK) converted = berth_open(argv[2], shapes, NULL, &error);
    const struct berth_tensor *tensor;
    size_t count = 0;
    for (; (tensor = berth_model_tensor(converted, count)) != NULL; count++) {
        printf("%-70s %-5s [", tensor->name, tensor->dtype);
        for (size_t i = 0; i < tensor->rank; i++) printf("%s%" PRId64, i ? ", " : "", tensor->shape[i]);
        printf("] %zu\n", tensor->bytes);
    }
    if (error.status != BERTH_OK) fprintf(stderr, "%s: %s\n", berth_status_name(error.status), error.message);
    printf("%zu tensors\n", count);
    berth_close(converted);
    berth_close(model);
    return error.status;
}
