// SPDX-License-Identifier: Apache-2.0
// Tests that the memory of a prediction's results is in the plan: what each task allocates from the
// start of its prediction to the end of the job, and what it allocated before without filling it.
#include "core/heap_meter.h"
#include "fixture.h"

#include <sys/wait.h>

#define UNCOUNTED (1 << 20) // buffers of files, small blocks
#define HIDDEN 32           // of the fixture's model

// Shared with the child that runs the job.
struct measured {
    int64_t planned; // data_bytes of the plan
    int64_t begin, end;
    int status;
    struct berth_error error;
};

static void watch(void *context, const struct berth_record *record) {
    struct measured *measured = context;
    const char *text = record->text != NULL ? record->text : "";
    if (record->kind == BERTH_PLAN && strcmp(text, "memory") == 0) {
        for (size_t i = 0; i < record->field_count; i++) {
            if (strcmp(record->fields[i].key, "data_bytes") == 0) {
                measured->planned = record->fields[i].integer;
            }
        }
    }
    if (record->kind == BERTH_EVENT && strcmp(text, "infer_start") == 0) {
        measured->begin = atomic_load(&heap_live);
        atomic_store(&heap_peak, measured->begin);
    }
}

static struct measured run_in_child(const struct fixture_run *run) {
    struct measured *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct berth_log log = {.write = watch, .context = shared};
        shared->status = (int)run->job(run->task, &run->config, log, NULL, NULL, &shared->error);
        shared->end = atomic_load(&heap_peak);
        _exit(0);
    }
    assert_int_equal(fixture_wait(child), 0);
    const struct measured result = *shared;
    munmap(shared, sizeof *shared);
    return result;
}

// `unfilled`: bytes that were allocated when the set was opened. The plan must cover both, and is
// not much larger.
static void check(const struct fixture_run *run, int64_t unfilled) {
    if (!HEAP_METER_COUNTS) {
        print_message("skipped: the allocator of a sanitizer, or not of glibc\n");
        skip();
    }
    const struct measured found = run_in_child(run);
    if (found.status != BERTH_OK) {
        fail_msg("%s", found.error.message);
    }
    const int64_t taken = found.end - found.begin + unfilled;
    print_message("%s: %.2f MB of %.2f MB\n", run->task, (double)taken * 1e-6,
                  (double)found.planned * 1e-6);
    assert_true(taken > 2 * UNCOUNTED);
    assert_true(taken <= found.planned + UNCOUNTED);
    assert_true(found.planned <= 4 * taken);
}

// --- data ---------------------------------------------------------------------------------------

static FILE *create(const char *name) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    return file;
}

static void write_questions(const char *name, int count) {
    FILE *file = create(name);
    fprintf(file, "[");
    for (int i = 0; i < count; i++) {
        const struct fixture_words a = fixture_words(i), b = fixture_words(i + 21);
        fprintf(file,
                "%s{\"id\":\"q%d\",\"question\":\"what colour ?\",\"context\":\"the %s of %s is %s "
                ". the %s of %s is %s\",\"answers\":{\"text\":[\"%s\"],\"answer_start\":[%d]}}",
                i > 0 ? "," : "", i, a.thing, a.name, a.colour, b.thing, b.name, b.colour, a.thing,
                4);
    }
    fprintf(file, "]");
    assert_int_equal(fclose(file), 0);
}

static void write_classes(const char *name, int count, int classes) {
    FILE *file = create(name);
    fprintf(file, "text,label\n");
    for (int i = 0; i < count; i++) {
        fprintf(file, "the %s %d,c%d\n", fixture_words(i).thing, i, i % classes);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_numbers(const char *name, int count) {
    FILE *file = create(name);
    fprintf(file, "text,label\n");
    for (int i = 0; i < count; i++) {
        fprintf(file, "the %s %d,%d.5\n", fixture_words(i).thing, i, i % 7);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_tags(const char *name, int count) {
    FILE *file = create(name);
    for (int i = 0; i < count; i++) {
        const struct fixture_words words = fixture_words(i);
        fprintf(file, "%s B-PER\n%s B-COL\n%s B-PER\n%s B-COL\n\n", words.name, words.colour,
                words.thing, words.colour);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_pairs(const char *name, int count, int has_scores) {
    FILE *file = create(name);
    fprintf(file, has_scores ? "sentence1,sentence2,score\n" : "sentence1,sentence2\n");
    for (int i = 0; i < count; i++) {
        fprintf(file, has_scores ? "a %d,b %d,0.%d\n" : "a %d,b %d\n", i, i, i % 10);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_set(int count) {
    FILE *queries = create("queries.jsonl"), *corpus = create("corpus.jsonl");
    FILE *relevant = create("qrels.tsv");
    fprintf(relevant, "query-id\tcorpus-id\tscore\n");
    for (int i = 0; i < count; i++) {
        fprintf(queries, "{\"_id\": %d, \"text\": \"a %d\"}\n", i, i);
        fprintf(corpus, "{\"_id\": %d, \"text\": \"b %d\"}\n", i, i);
        fprintf(relevant, "%d\t%d\t1\n", i, i);
    }
    assert_int_equal(fclose(queries) + fclose(corpus) + fclose(relevant), 0);
}

// --- tests --------------------------------------------------------------------------------------

static struct fixture_run run_of(const char *task, const char *train, const char *dev) {
    struct fixture_run run = fixture_default("out");
    run.task = task;
    run.config.task.train_file = fixture_keep(train);
    run.config.task.validation_file = fixture_keep(dev);
    run.config.engine.max_steps = 1;
    run.config.run.save_steps = 100;
    return run;
}

// The same evaluation by a job of its own, with the model that was trained.
static struct fixture_run after(struct fixture_run run, fixture_job *job) {
    run.job = job;
    run.config.model.model_name_or_path = fixture_keep("out");
    run.config.task.predict_file = run.config.task.validation_file;
    run.config.run.output_dir = fixture_keep("results");
    return run;
}

static void answers(void **state) {
    write_questions("many.json", 1200);
    for (int version_2 = 0; version_2 < 2; version_2++) {
        struct fixture_run run = run_of("squad", "train.json", "many.json");
        run.config.task.n_best_size = 60;
        run.config.features.version_2_with_negative = version_2;
        run.config.run.overwrite_output_dir = 1;
        check(&run, 0);
        run = after(run, job_predict);
        check(&run, 0);
    }
}

static void classes(void **state) {
    enum { CLASSES = 600, EXAMPLES = 1200 };
    write_classes("train.csv", CLASSES, CLASSES);
    write_classes("dev.csv", EXAMPLES, CLASSES);
    struct fixture_run run = run_of("classify", "train.csv", "dev.csv");
    const int64_t logits = (int64_t)EXAMPLES * CLASSES * (int64_t)sizeof(float);
    check(&run, logits);
    run = after(run, job_evaluate);
    check(&run, logits);
}

static void regression(void **state) {
    enum { EXAMPLES = 80000 };
    write_numbers("train.csv", 40);
    write_numbers("dev.csv", EXAMPLES);
    struct fixture_run run = run_of("classify", "train.csv", "dev.csv");
    run.config.task.problem_type = "regression";
    check(&run, EXAMPLES * (int64_t)sizeof(float));
}

static void tags(void **state) {
    write_tags("train.txt", 20);
    write_tags("dev.txt", 8000);
    struct fixture_run run = run_of("tokens", "train.txt", "dev.txt");
    check(&run, 0);
    run = after(run, job_predict);
    check(&run, 0);
}

static void embeddings(void **state) {
    for (int has_scores = 0; has_scores < 2; has_scores++) {
        const int count = has_scores ? 20000 : 8000;
        write_pairs("train.csv", 20, has_scores);
        write_pairs("dev.csv", count, has_scores);
        struct fixture_run run = run_of("embed", "train.csv", "dev.csv");
        run.config.run.overwrite_output_dir = 1;
        const int64_t vectors = (int64_t)count * 2 * HIDDEN * (int64_t)sizeof(float);
        check(&run, vectors);
        run = after(run, job_evaluate);
        check(&run, vectors);
    }
}

static void retrieval(void **state) {
    enum { QUERIES = 6000 };
    write_pairs("train.csv", 20, 0);
    write_set(QUERIES);
    struct fixture_run run = run_of("embed", "train.csv", "train.csv");
    run.config.task.validation_file = NULL;
    run.config.task.queries_file = fixture_keep("queries.jsonl");
    run.config.task.corpus_file = fixture_keep("corpus.jsonl");
    run.config.task.relevant_file = fixture_keep("qrels.tsv");
    const int64_t vectors = (int64_t)QUERIES * 2 * HIDDEN * (int64_t)sizeof(float);
    check(&run, vectors);
    run = after(run, job_evaluate);
    check(&run, vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(answers), FIXTURE_TEST(classes),    FIXTURE_TEST(regression),
        FIXTURE_TEST(tags),    FIXTURE_TEST(embeddings), FIXTURE_TEST(retrieval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
