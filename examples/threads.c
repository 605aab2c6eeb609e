// SPDX-License-Identifier: Apache-2.0
// threads MODEL FILE: 4 threads embed the lines of FILE with one model
#include <berth.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, MAX = 1000 };
static char lines[MAX][2048];
static struct berth_text texts[MAX];
static struct berth_model *model;
struct job { size_t first, count; struct berth_result *result; struct berth_error error; };

static void *work(void *argument) {
    struct job *job = (struct job *)argument;
    job->result = berth_run(model, "embed", texts + job->first, job->count, NULL, NULL, &job->error);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t count = 0;
    FILE *file = fopen(argv[2], "r");
    while (file && count < MAX && fgets(lines[count], sizeof *lines, file)) {
        lines[count][strcspn(lines[count], "\n")] = '\0';
        texts[count].text = lines[count];
        count += strspn(lines[count], " ") < strlen(lines[count]);
    }
    struct berth_error error;
    model = berth_open(argv[1], NULL, NULL, &error);
    if (model == NULL) return fprintf(stderr, "%s\n", error.message), error.status;
    pthread_t ids[THREADS];
    struct job jobs[THREADS];
    double sum = 0;
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i].first = count * i / THREADS;
        jobs[i].count = count * (i + 1) / THREADS - jobs[i].first;
        pthread_create(&ids[i], NULL, work, &jobs[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        size_t width;
        pthread_join(ids[i], NULL);
        const float *rows = berth_result_rows(jobs[i].result, 0, NULL, &width);
        if (jobs[i].error.status != BERTH_OK) fprintf(stderr, "%s\n", jobs[i].error.message);
        for (size_t j = 0; j < jobs[i].count * width; j++) sum += (double)rows[j];
        berth_result_free(jobs[i].result);
    }
    printf("%zu texts, sum %.6f\n", count, sum);
    berth_close(model);
    return 0;
}
