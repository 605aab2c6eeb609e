// SPDX-License-Identifier: Apache-2.0
// A model on a device with everything that a test needs, and sequences as input.
#ifndef BERTH_TESTS_MODEL_HARNESS_H
#define BERTH_TESTS_MODEL_HARNESS_H

#include "device/device_batch.h"
#include "model/bert.h"
#include "reference.h"

struct harness {
    struct bert_config config;
    struct param_table table;
    struct device *device;
    struct bert model;
    struct bert_activations *activations;
    void *block; // device memory of the activations
    size_t block_bytes;
    float *master, *gradients; // device memory
    void *compute;
    enum bert_keep keep;
    struct device_batch batch;                // of harness_batch
    const struct gradient_listener *listener; // of harness_step's backward pass
};

struct harness_options {
    enum dtype compute;
    int threads;
    const char *instructions; // NULL: the best
    int64_t max_rows, max_sequences, max_length;
    int inference;
    int checkpointing;    // with BERT_RECOMPUTE_LAYERS
    enum param_head head; // PARAM_HEAD_NONE: the span head
    int64_t max_masked;   // of a head that decodes or of the token head
};

// 1: BERTH_TEST_DEVICE names a GPU, whose library chooses a product's kernel by its shape. So a row
// has other bits among another number of rows.
int harness_on_gpu(void);

// Returns 0 if the machine lacks the requested instruction set; any other error fails the test.
// Weights are zero until harness_load.
int harness_open(struct harness *harness, const struct bert_config *config,
                 const struct harness_options *options);
void harness_close(struct harness *harness);
// parameters[table.total]
void harness_load(struct harness *harness, const float *parameters);
void harness_zero_gradients(struct harness *harness);
// Host copies of results; the caller frees them.
float *harness_gradients(struct harness *harness);
// [row_count, 2], or [batch_round(sequence_count), num_labels] of a classifier.
float *harness_logits(struct harness *harness, const struct batch *batch);
// Of the masked tokens [masked_count, V], after a forward pass of its own.
float *harness_masked_logits(struct harness *harness, const struct batch *batch);

// Sequences laid out as a batch in the host's memory. Free with packed_free.
struct packed;
struct packed *packed_new(const struct reference_sequence *sequences, int64_t count);
const struct batch *packed_batch(const struct packed *packed);
// The batch in the memory of the harness's device, as all other functions take it; valid until the
// next call for the same harness.
const struct batch *harness_batch(struct harness *harness, const struct packed *packed);
// masked_weight of the batch, 0 before.
void packed_weigh_masked(struct packed *packed, float weight);
void packed_free(struct packed *packed);

// Runs forward and backward on a batch; returns the sum of the losses, with those of masked tokens
// weighted. Gradients are added.
double harness_step(struct harness *harness, const struct batch *batch,
                    const struct bert_dropout *dropout, float loss_scale);

// A step whose listener copies each range when it becomes final: the ranges must cover the gradient
// without overlap, and none of their elements may change afterwards.
void assert_sink(struct harness *harness, const struct batch *batch,
                 const struct bert_dropout *dropout);

// --- random material, the same on every machine -------------------------------------------------

struct bert_config tiny_config(int64_t hidden, int64_t heads, int64_t inner, int64_t layers);
// Parameters for which every gradient matters: weights of about 1 / sqrt(H), gammas around 1.
float *random_parameters(const struct param_table *table, uint64_t seed);
// Makes `count` sequences of the given lengths with labels and indices from first_index on. Their
// ids (never [PAD], id 0) and types are in one block: free with sequences_free.
struct reference_sequence *sequences_new(const struct bert_config *config, const int64_t *lengths,
                                         int64_t count, int64_t first_index, uint64_t seed);
void sequences_free(struct reference_sequence *sequences);

// --- comparisons ---------------------------------------------------------------------------------

double norm2(const double *x, int64_t count);
double *to_double(const float *x, int64_t count);
// |x - y| / |y|
double relative_error(const float *x, const float *y, int64_t count);
double largest_difference(const float *x, const double *y, int64_t count);
// Asserts that x and y have the same bits; on a GPU that |x - y| <= on_gpu |y|.
void assert_same(const float *x, const float *y, int64_t count, double on_gpu);
// Asserts |g - g0| <= relative |g0| + floor |G0| for every tensor; the message names the tensor.
// Returns the largest |g - g0| / (relative |g0| + floor |G0|).
double assert_gradients(const struct param_table *table, const float *g, const double *g0,
                        double relative, double floor, const char *what);

#endif
