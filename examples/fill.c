// SPDX-License-Identifier: Apache-2.0
// fill MODEL TEXT: the 3 best words for each [MASK]
#include <berth.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    struct berth_error error;
    static struct berth_text text;
    text.text = argv[2];
    const char *settings[] = {"top", "3", NULL};
    struct berth_model *model = berth_open(argv[1], NULL, NULL, &error);
    struct berth_result *result = berth_run(model, "fill", &text, 1, settings, NULL, &error);
    size_t count;
    const struct berth_item *items = berth_result_items(result, 0, &count);
    if (error.status != BERTH_OK) fprintf(stderr, "%s\n", error.message);
    for (size_t i = 0; i < count; i++) printf("%s%s %.4f", i % 3 ? ", " : i ? "\n" : "", items[i].text, items[i].score);
    printf("\n");
    berth_result_free(result);
    berth_close(model);
    return error.status;
}
