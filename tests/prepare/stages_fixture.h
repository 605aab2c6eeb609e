// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the stages from articles to packs: small runs of all of them on the same
// articles, and the comparison of the folders that they leave.
#ifndef BERTH_TESTS_PREPARE_STAGES_FIXTURE_H
#define BERTH_TESTS_PREPARE_STAGES_FIXTURE_H

#include "comm/comm.h"
#include "core/buffer.h"
#include "core/scratch.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

enum { ARTICLES = 30, SHARDS = 3 };
enum { USUAL = 11 }; // a stride; prime, so that it selects different system calls in each file

// scratch.h's folder is each source's own: this makes that of the test the fixture's, too.
void stages_in(const char *folder);

static inline int stages_setup(void **state) {
    const int status = scratch_setup(state);
    stages_in(scratch_folder);
    return status;
}

#define STAGES_TEST(test) cmocka_unit_test_setup_teardown(test, stages_setup, scratch_teardown)

// --- runs ---------------------------------------------------------------------------------------

extern const char pipeline_vocabulary[];

// The settings of a run.
struct pipeline {
    const char *input; // a file of articles
    const char *folder;
    int threads, shards, articles, dupe_factor, predictions, python, whole_word, tfrecord;
    uint64_t seed;
    const atomic_int *stop;
    struct comm *comm; // NULL: comm_self
};

struct pipeline pipeline_default(const char *folder);
// The path of `name` in the run's folder.
void pipeline_path(char path[512], const struct pipeline *pipeline, const char *name);

// articles.txt, which runs read unless `input` names another file.
void write_articles(int count);

// Each stage, with checks of what it counts; pipeline_run: all of them, but no packs of TFRecord.
enum berth_status make_shards(const struct pipeline *pipeline, struct berth_error *error);
enum berth_status make_instances(const struct pipeline *pipeline, const struct tokenizer *tokenizer,
                                 struct berth_error *error);
enum berth_status make_packs(const struct pipeline *pipeline, struct berth_error *error);
enum berth_status pipeline_run(const struct pipeline *pipeline, struct berth_error *error);
void pipeline_run_ok(const struct pipeline *pipeline);

// --- whole folders ------------------------------------------------------------------------------

#define A_SHARD "other/text/few_training_0.txt"
#define AN_HDF5 "other/instances/few_training_1.hdf5"
#define A_PACK "other/packs/few/mixed_strategies_part_0.hdf5"

// Names and bytes of all files, locks aside.
void read_tree(const char *folder, struct buffer *all);
void assert_tree(const char *folder, const struct buffer *wanted);
// The result of a single run, in folder "whole".
struct buffer make_whole(void);
void remove_other(void);

#endif
