// SPDX-License-Identifier: Apache-2.0
// tag MODEL < texts, one a line
#include <berth.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    enum { MAX = 256 };
    if (argc != 2) return 2;
    static char lines[MAX][2048];
    static struct berth_text texts[MAX];
    size_t count = 0, found;
    for (; count < MAX && fgets(lines[count], sizeof *lines, stdin); count++) {
        lines[count][strcspn(lines[count], "\n")] = '\0';
        texts[count].text = lines[count];
    }
    struct berth_error error;
    struct berth_model *model = berth_open(argv[1], NULL, NULL, &error);
    struct berth_result *result = berth_run(model, "tag", texts, count, NULL, NULL, &error);
    if (error.status != BERTH_OK) fprintf(stderr, "line %lld: %s\n", (long long)error.input + 1, error.message);
    for (size_t i = 0; i < count; i++) {
        const struct berth_item *items = berth_result_items(result, i, &found);
        for (size_t j = 0; j < found; j++)
            printf("%zu  %-5s %.3f  %.*s\n", i + 1, items[j].text, items[j].score, (int)(items[j].end - items[j].start), lines[i] + items[j].start);
    }
    berth_result_free(result);
    berth_close(model);
    return error.status;
}
