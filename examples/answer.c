// SPDX-License-Identifier: Apache-2.0
// answer MODEL QUESTION TEXT
#include <berth.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct berth_error error;
    struct berth_model *model = berth_open(argv[1], NULL, NULL, &error);
    static struct berth_text asked;
    asked.text = argv[2];
    asked.pair = argv[3];
    const char *settings[] = {"top", "3", NULL};
    struct berth_result *result = berth_run(model, "answer", &asked, 1, settings, NULL, &error);
    size_t count;
    const struct berth_item *items = berth_result_items(result, 0, &count);
    if (error.status != BERTH_OK) fprintf(stderr, "%s: %s\n", berth_status_name(error.status), error.message);
    for (size_t i = 0; i < count; i++)
        printf("%5.1f %%  %s [%lld, %lld)\n", 100 * items[i].score, items[i].text, (long long)items[i].start, (long long)items[i].end);
    berth_result_free(result);
    berth_close(model);
    return error.status;
}
