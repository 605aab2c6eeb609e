// SPDX-License-Identifier: Apache-2.0
// rerank MODEL QUERY < passages, one a line: best first
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hit { float score; size_t index; };
static int by_score(const void *a, const void *b) {
    float x = ((const struct hit *)a)->score, y = ((const struct hit *)b)->score;
    return (x < y) - (x > y);
}

int main(int argc, char **argv) {
    enum { MAX = 1000 };
    if (argc != 3) return 2;
    static char lines[MAX][2048];
    static struct berth_text texts[MAX];
    static struct hit hits[MAX];
    size_t count = 0;
    for (; count < MAX && fgets(lines[count], sizeof *lines, stdin); count++) {
        lines[count][strcspn(lines[count], "\n")] = '\0';
        texts[count].text = argv[2];
        texts[count].pair = lines[count];
    }
    struct berth_error error;
    struct berth_model *model = berth_open(argv[1], NULL, NULL, &error);
    struct berth_result *result = berth_run(model, "rerank", texts, count, NULL, NULL, &error);
    const float *scores = berth_result_rows(result, 0, NULL, NULL);
    if (error.status != BERTH_OK) fprintf(stderr, "line %lld: %s\n", (long long)error.input + 1, error.message);
    if (scores) {
        for (size_t i = 0; i < count; i++) hits[i].score = scores[i], hits[i].index = i;
        qsort(hits, count, sizeof *hits, by_score);
        for (size_t i = 0; i < count; i++) printf("%.4f  %s\n", (double)hits[i].score, lines[hits[i].index]);
    }
    berth_result_free(result);
    berth_close(model);
    return error.status;
}
