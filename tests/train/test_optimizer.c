// SPDX-License-Identifier: Apache-2.0
// Tests each optimizer on a whole table of parameters against a model of its formula in float64:
// twenty updates of random gradients, some clipped, in fp32 and with a bf16 copy. Also tests the
// lists of parameters without decay, the settings implied by a name, what is refused, and
// bit-identical results for any number of threads.
#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "device/device.h"
#include "settings/settings.h"
#include "train/optimizer/optimizer_plan.h"

#include <math.h>
#include <string.h>

enum { UPDATES = 20, SIZES = 5 };

// Small enough that the 1e-6 in the formula of clipping and the epsilons make a difference.
#define MAX_GRAD_NORM 1e-4

static const struct bert_config shape = {.vocab_size = 50,
                                         .hidden_size = 24,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 36,
                                         .max_position_embeddings = 16,
                                         .type_vocab_size = 2,
                                         .initializer_range = 0.02};

// --- a run on the device ------------------------------------------------------------------------

struct run {
    struct settings config;
    struct device *device;
    struct param_table table;
    struct state state;
    struct optimizer optimizer;
    struct optimizer_plan plan;
};

static void open_run(struct run *run, const char *name, enum dtype compute, int threads) {
    *run = (struct run){0};
    settings_init(&run->config);
    run->config.optimizer.optimizer = name;
    run->config.optimizer.max_grad_norm = MAX_GRAD_NORM;
    struct device_options options = {.threads = threads};
    assert_int_equal(device_cpu_open(&options, &run->device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&run->table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(state_init(&run->state, run->device, &run->table, compute, 1, NULL), BERTH_OK);
    param_initialise(&run->table, &shape, 3, run->state.master, 1);
}

static void take_optimizer(struct run *run, struct optimizer optimizer) {
    run->optimizer = optimizer;
    assert_int_equal(
        optimizer_plan_init(&run->plan, &run->optimizer, &run->state, comm_self(), NULL), BERTH_OK);
}

static void close_run(struct run *run) {
    optimizer_plan_done(&run->plan);
    state_done(&run->state);
    param_table_done(&run->table);
    run->device->close(run->device);
}

// Gradients of update `number`: small ones, large ones, and some that vary much between tensors.
static float gradient_at(int number, size_t tensor, int64_t i) {
    const double sizes[SIZES] = {0.001, 0.3, 1e-7, 0.05, 3};
    uint64_t index = (uint64_t)i;
    double u = rng_draw(7 + (uint64_t)number, (uint32_t)tensor, &index) * 0x1p-32 - 0.5;
    return (float)(u * sizes[number % SIZES] * (1 + (double)(tensor % 7)));
}

static void fill_gradients(struct run *run, int number, double scale) {
    for (size_t t = 0; t < run->table.count; t++) {
        const struct param *param = &run->table.params[t];
        for (int64_t i = 0; i < param->rows * param->cols; i++) {
            run->state.gradients[param->offset + i] = (float)scale * gradient_at(number, t, i);
        }
    }
}

static double rate_of(int number) {
    return 0.01 * (number + 1);
}

static void step_run(struct run *run, int number, double scale) {
    fill_gradients(run, number, scale);
    optimizer_norm(&run->plan, 1 / scale);
    struct optimizer_step step = {.number = number,
                                  .rate = rate_of(number),
                                  .gradient_scale = 1 / scale,
                                  .grad_norm = sqrt(run->plan.norm->sum_squares)};
    optimizer_step(&run->plan, &step);
}

// --- the models in float64 ----------------------------------------------------------------------

struct model {
    double *p, *m, *v; // as the state's buffers
    double *g;         // of one update
};

static double *zeros(int64_t count) {
    double *values = memory_array_zeroed((size_t)count, sizeof *values);
    assert_non_null(values);
    return values;
}

static struct model model_new(const struct run *run) {
    int64_t total = run->table.total;
    struct model model = {zeros(total), zeros(total), zeros(total), zeros(total)};
    for (int64_t i = 0; i < total; i++) {
        model.p[i] = (double)run->state.master[i];
    }
    return model;
}

static void model_done(struct model *model) {
    memory_free(model->p);
    memory_free(model->m);
    memory_free(model->v);
    memory_free(model->g);
}

static double norm_of(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

// One tensor of one update. t counts from 1.
struct tensor {
    double *p, *m, *v, *g;
    int64_t count;
    double decay; // of its group
    double t, rate, global_norm;
};

static void scale(double *x, int64_t count, double factor) {
    for (int64_t i = 0; i < count; i++) {
        x[i] *= factor;
    }
}

static double torch_clip(double norm) {
    double factor = MAX_GRAD_NORM / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

static double google_clip(double norm) {
    return norm > MAX_GRAD_NORM ? MAX_GRAD_NORM / norm : 1;
}

static void moments(struct tensor *x) {
    for (int64_t i = 0; i < x->count; i++) {
        x->m[i] = 0.9 * x->m[i] + (1 - 0.9) * x->g[i];
        x->v[i] = 0.999 * x->v[i] + (1 - 0.999) * x->g[i] * x->g[i];
    }
}

static void deepspeed_adamw(struct tensor *x) {
    scale(x->g, x->count, torch_clip(x->global_norm));
    moments(x);
    double c1 = 1 - pow(0.9, x->t), c2 = 1 - pow(0.999, x->t);
    for (int64_t i = 0; i < x->count; i++) {
        double step = x->m[i] / c1 / (sqrt(x->v[i]) / sqrt(c2) + 1e-8);
        x->p[i] -= x->rate * (step + x->decay * x->p[i]);
    }
}

static void deepspeed_adam_l2(struct tensor *x) {
    scale(x->g, x->count, torch_clip(x->global_norm));
    for (int64_t i = 0; i < x->count; i++) {
        x->g[i] += x->decay * x->p[i];
    }
    moments(x);
    double c1 = 1 - pow(0.9, x->t), c2 = 1 - pow(0.999, x->t);
    for (int64_t i = 0; i < x->count; i++) {
        x->p[i] -= x->rate * x->m[i] / c1 / (sqrt(x->v[i]) / sqrt(c2) + 1e-8);
    }
}

static void uncorrected(struct tensor *x, double epsilon) {
    moments(x);
    for (int64_t i = 0; i < x->count; i++) {
        double step = x->m[i] / (sqrt(x->v[i]) + epsilon) + x->decay * x->p[i];
        x->p[i] -= x->rate * step;
    }
}

static void google(struct tensor *x) {
    scale(x->g, x->count, google_clip(x->global_norm));
    uncorrected(x, 1e-6);
}

static void google_both(struct tensor *x) {
    scale(x->g, x->count, google_clip(x->global_norm));
    scale(x->g, x->count, google_clip(norm_of(x->g, x->count)));
    uncorrected(x, 1e-6);
}

static void bertadam(struct tensor *x) {
    scale(x->g, x->count, torch_clip(norm_of(x->g, x->count)));
    uncorrected(x, 1e-6);
}

static void bertadam_both(struct tensor *x) {
    scale(x->g, x->count, torch_clip(x->global_norm));
    bertadam(x);
}

static void nvlamb(struct tensor *x) {
    scale(x->g, x->count, google_clip(x->global_norm));
    moments(x);
    double c1 = 1 - pow(0.9, x->t), c2 = 1 - pow(0.999, x->t);
    double *u = zeros(x->count);
    for (int64_t i = 0; i < x->count; i++) {
        u[i] = x->m[i] / c1 / (sqrt(x->v[i] / c2) + 1e-6) + x->decay * x->p[i];
    }
    double weights = norm_of(x->p, x->count), updates = norm_of(u, x->count);
    double trust = x->decay > 0 && weights > 0 && updates > 0 ? weights / updates : 1;
    for (int64_t i = 0; i < x->count; i++) {
        x->p[i] -= x->rate * trust * u[i];
    }
    memory_free(u);
}

static double lamb_coefficient; // of the last tensor

static void deepspeed_lamb(struct tensor *x) {
    scale(x->g, x->count, torch_clip(x->global_norm));
    moments(x);
    double *u = zeros(x->count);
    for (int64_t i = 0; i < x->count; i++) {
        u[i] = x->m[i] / (sqrt(x->v[i]) + 1e-8) + x->decay * x->p[i];
    }
    double weights = norm_of(x->p, x->count), updates = norm_of(u, x->count), coefficient = 1;
    if (weights != 0 && updates != 0) {
        coefficient = weights / updates;
        coefficient = coefficient > 0.3 ? 0.3 : coefficient;
        coefficient = coefficient < 0.01 ? 0.01 : coefficient;
    }
    double rate = x->rate * sqrt(1 - pow(0.999, x->t)) / (1 - pow(0.9, x->t));
    for (int64_t i = 0; i < x->count; i++) {
        x->p[i] -= rate * coefficient * u[i];
    }
    lamb_coefficient = coefficient;
    memory_free(u);
}

// Whether every list excludes the parameter, under Hugging Face's name, from decay.
static int is_plain(const char *name) {
    size_t length = strlen(name);
    return strstr(name, "LayerNorm") != NULL || strcmp(name + length - 5, ".bias") == 0;
}

struct optimizer_case {
    const char *name;
    void (*update)(struct tensor *x);
    double decay;
    void (*change)(struct settings *config); // of the defaults; may be NULL
};

static void l2(struct settings *config) {
    config->optimizer.adam_w_mode = 0;
}

static void both(struct settings *config) {
    config->optimizer.clip_by = "both";
}

// BingBert's configuration.
static void bing(struct settings *config) {
    config->optimizer.weight_decay = 0.01;
    config->optimizer.max_coeff = 0.3;
}

static void no_decay(struct settings *config) {
    config->optimizer.weight_decay = 0;
}

static const struct optimizer_case cases[] = {
    {"adamw", deepspeed_adamw, 0.01, NULL},
    {"adam", deepspeed_adamw, 0.01, NULL},
    {"adam", deepspeed_adam_l2, 0.01, l2},
    {"adam_weight_decay", google, 0.01, NULL},
    {"adam_weight_decay", google_both, 0.01, both},
    {"bertadam", bertadam, 0.01, NULL},
    {"bertadam", bertadam_both, 0.01, both},
    {"nvlamb", nvlamb, 0.01, NULL},
    {"nvlamb", nvlamb, 0, no_decay},
    {"lamb", deepspeed_lamb, 0.01, bing},
};
enum { CASES = sizeof cases / sizeof *cases };

static void step_model(const struct run *run, struct model *model, int number,
                       const struct optimizer_case *c) {
    for (size_t t = 0; t < run->table.count; t++) {
        const struct param *param = &run->table.params[t];
        for (int64_t i = 0; i < param->rows * param->cols; i++) {
            model->g[param->offset + i] = (double)gradient_at(number, t, i);
        }
    }
    double global_norm = norm_of(model->g, run->table.total);
    for (size_t t = 0; t < run->table.count; t++) {
        const struct param *param = &run->table.params[t];
        const int64_t at = param->offset;
        struct tensor tensor = {model->p + at,
                                model->m + at,
                                model->v + at,
                                model->g + at,
                                param->rows * param->cols,
                                is_plain(param->name) ? 0 : c->decay,
                                number + 1,
                                rate_of(number),
                                global_norm};
        c->update(&tensor);
        if (c->update == deepspeed_lamb) {
            double found = run->plan.lamb[t].coefficient;
            assert_true(fabs(found - lamb_coefficient) <= 1e-5 * lamb_coefficient);
        }
    }
}

static void check(const struct run *run, const char *what, const float *found,
                  const double *expected, double tolerance) {
    for (size_t t = 0; t < run->table.count; t++) {
        const struct param *param = &run->table.params[t];
        int64_t count = param->rows * param->cols;
        double difference = 0, size = norm_of(expected + param->offset, count);
        for (int64_t i = param->offset; i < param->offset + count; i++) {
            difference += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        }
        if (!(sqrt(difference) <= tolerance * size)) {
            fail_msg("%s: %s of %s is %.2e of its size off", run->optimizer.row->name, what,
                     param->name, sqrt(difference) / size);
        }
    }
}

static void check_copy(const struct run *run) {
    const uint16_t *copy = run->state.copy;
    for (int64_t i = 0; i < run->table.matrix_count; i++) {
        uint32_t bits = (uint32_t)copy[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        double own = (double)run->state.master[i];
        assert_true(fabs((double)value - own) <= 0.004 * fabs(own) + 1e-30);
    }
}

static struct optimizer settled_optimizer(struct settings *config) {
    assert_int_equal(optimizer_settle(&config->optimizer, NULL), BERTH_OK);
    return optimizer_of(&config->optimizer);
}

static void open_case(struct run *run, const struct optimizer_case *c, enum dtype compute,
                      int threads) {
    open_run(run, c->name, compute, threads);
    if (c->change != NULL) {
        c->change(&run->config);
    }
    take_optimizer(run, settled_optimizer(&run->config));
}

static void follow(const struct optimizer_case *c, enum dtype compute, double loss_scale) {
    struct run run;
    open_case(&run, c, compute, 2);
    struct model model = model_new(&run);
    for (int number = 0; number < UPDATES; number++) {
        step_run(&run, number, loss_scale);
        step_model(&run, &model, number, c);
        check(&run, "the value", run.state.master, model.p, 4e-6);
        check(&run, "the first moment", run.state.moment1, model.m, 4e-6);
        check(&run, "the second moment", run.state.moment2, model.v, 4e-6);
        for (int64_t i = 0; i < run.table.total; i++) {
            assert_true(run.state.gradients[i] == 0);
        }
    }
    if (compute == DTYPE_BF16) {
        check_copy(&run);
    }
    model_done(&model);
    close_run(&run);
}

static void test_models_in_float64(void **state) {
    for (int i = 0; i < CASES; i++) {
        follow(&cases[i], DTYPE_F32, 1);
        follow(&cases[i], DTYPE_BF16, 1024);
    }
}

// --- groups -------------------------------------------------------------------------------------

static struct optimizer with_list(const char *list) {
    struct settings config;
    settings_init(&config);
    config.optimizer.no_decay = list;
    return settled_optimizer(&config);
}

static void test_lists(void **state) {
    struct param_table table;
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    static const char *const lists[] = {"deepspeed", "google", "nvidia"};
    int plain = 0;
    for (size_t t = 0; t < table.count; t++) {
        const char *name = table.params[t].name;
        plain += is_plain(name);
        assert_null(strstr(name, "pooler")); // no pooler in a model for questions
        for (int i = 0; i < 3; i++) {
            struct optimizer optimizer = with_list(lists[i]);
            assert_int_equal(optimizer_decays(&optimizer, name), !is_plain(name));
        }
        struct optimizer none = with_list("none"), own = with_list("layer.1., qa_outputs");
        assert_true(optimizer_decays(&none, name));
        assert_int_equal(optimizer_decays(&own, name),
                         strstr(name, "layer.1.") == NULL && strstr(name, "qa_outputs") == NULL);
    }
    assert_int_equal(plain, 2 * 10 + 2 + 1);
    // Names of other programs: each list matches its own.
    struct optimizer deepspeed = with_list("deepspeed"), google_list = with_list("google");
    struct optimizer nvidia = with_list("nvidia");
    assert_false(optimizer_decays(&deepspeed, "bert.encoder.layer.0.attn_nw"));
    assert_false(optimizer_decays(&deepspeed, "bert.encoder.layer.0.inter_b"));
    assert_true(optimizer_decays(&deepspeed, "bert.encoder.layer.0.inter_w"));
    assert_false(optimizer_decays(&google_list, "bert/encoder/layer_norm/scale"));
    assert_false(optimizer_decays(&nvidia, "bert/embeddings/LN/gamma"));
    assert_true(optimizer_decays(&google_list, "bert/embeddings/LN/gamma"));
    param_table_done(&table);
}

static void test_own_list_must_name_something(void **state) {
    struct param_table table;
    struct berth_error error = {0};
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    struct optimizer good = with_list("bias,LayerNorm"), bad = with_list("bias,LayreNorm");
    struct optimizer kernels = with_list("deepspeed"); // whose names are of several layouts
    assert_int_equal(optimizer_check(&good, &table, &error), BERTH_OK);
    assert_int_equal(optimizer_check(&kernels, &table, &error), BERTH_OK);
    assert_int_equal(optimizer_check(&bad, &table, &error), BERTH_CONFIG);
    assert_non_null(strstr(error.message, "\"LayreNorm\""));
    param_table_done(&table);
}

// A list that cuts across the order of the buffer: every tensor still gets its own group's decay.
static void test_any_list_is_followed(void **state) {
    struct run run;
    open_run(&run, "adamw", DTYPE_BF16, 2);
    run.config.optimizer.no_decay = "layer.0.,word_embeddings,output.dense.weight";
    run.config.optimizer.weight_decay = 0.5;
    take_optimizer(&run, settled_optimizer(&run.config));
    float *before = memory_new((size_t)run.table.total * sizeof *before);
    memcpy(before, run.state.master, (size_t)run.table.total * sizeof *before);
    struct optimizer_step step = {.rate = 0.25, .gradient_scale = 1};
    optimizer_step(&run.plan, &step); // gradients of zero: decay is all there is
    for (size_t t = 0; t < run.table.count; t++) {
        const struct param *param = &run.table.params[t];
        int kept = strstr(param->name, "layer.0.") != NULL ||
                   strstr(param->name, "word_embeddings") != NULL ||
                   strstr(param->name, "output.dense.weight") != NULL;
        for (int64_t i = param->offset; i < param->offset + param->rows * param->cols; i++) {
            float expected = kept ? before[i] : before[i] - 0.25F * (0.5F * before[i]);
            assert_true(run.state.master[i] == expected);
        }
    }
    check_copy(&run);
    memory_free(before);
    close_run(&run);
}

// --- threads ------------------------------------------------------------------------------------

static void test_same_bits_for_any_number_of_threads(void **state) {
    for (int i = 0; i < CASES; i++) {
        float *first = NULL;
        for (int threads = 1; threads <= 4; threads *= 2) {
            struct run run;
            open_case(&run, &cases[i], DTYPE_F32, threads);
            for (int number = 0; number < UPDATES; number++) {
                step_run(&run, number, 1);
            }
            size_t bytes = (size_t)run.table.total * sizeof(float);
            if (first == NULL) {
                first = memory_new(bytes);
                memcpy(first, run.state.master, bytes);
            }
            assert_memory_equal(first, run.state.master, bytes);
            close_run(&run);
        }
        memory_free(first);
    }
}

// --- settings -----------------------------------------------------------------------------------

static struct settings settled(const char *name) {
    struct settings config;
    settings_init(&config);
    config.optimizer.optimizer = name;
    assert_int_equal(optimizer_settle(&config.optimizer, NULL), BERTH_OK);
    return config;
}

static void test_a_name_stands_for_its_settings(void **state) {
    struct settings adamw = settled("adamw"), bert = settled("bertadam");
    struct settings lamb = settled("lamb"), nv = settled("nvlamb");
    assert_true(adamw.optimizer.adam_epsilon == 1e-8 && adamw.optimizer.weight_decay == 0.01);
    assert_int_equal(adamw.optimizer.bias_correction, 1);
    assert_string_equal(adamw.optimizer.clip_by, "global");
    assert_true(bert.optimizer.adam_epsilon == 1e-6);
    assert_int_equal(bert.optimizer.bias_correction, 0);
    assert_string_equal(bert.optimizer.clip_by, "tensor");
    assert_true(lamb.optimizer.weight_decay == 0 && lamb.optimizer.max_coeff == 10 &&
                lamb.optimizer.min_coeff == 0.01);
    assert_string_equal(nv.optimizer.no_decay, "nvidia");
    struct settings own;
    settings_init(&own);
    own.optimizer.optimizer = "bertadam";
    own.optimizer.adam_epsilon = 1e-3;
    own.optimizer.bias_correction = 1;
    own.optimizer.weight_decay = 0;
    assert_int_equal(optimizer_settle(&own.optimizer, NULL), BERTH_OK);
    assert_true(own.optimizer.adam_epsilon == 1e-3 && own.optimizer.bias_correction == 1 &&
                own.optimizer.weight_decay == 0);
}

static void refuse(const struct settings *config, enum berth_status status, const char *part) {
    struct settings own = *config;
    struct berth_error error = {0};
    assert_int_equal(optimizer_settle(&own.optimizer, &error), status);
    if (strstr(error.message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
    }
}

static void test_the_optimizers_offered_are_those_that_exist(void **state) {
    const char *choices = option_find("optimizer")->choices;
    for (size_t i = 0; i < optimizer_row_count; i++) {
        size_t length = strlen(optimizer_rows[i].name);
        assert_memory_equal(choices, optimizer_rows[i].name, length);
        assert_true(choices[length] == (i + 1 < optimizer_row_count ? '|' : '\0'));
        choices += length + 1;
    }
}

static void test_refusals(void **state) {
    struct settings config;
    settings_init(&config);
    config.optimizer.optimizer = "lamb";
    config.optimizer.adam_w_mode = 0;
    refuse(&config, BERTH_CONFIG, "not to lamb");
    config.optimizer.adam_w_mode = 1;
    config.optimizer.min_coeff = 11;
    refuse(&config, BERTH_CONFIG, "max_coeff 10");
}

static void expect_formula(const char *name, int bias_correction, const char *expected) {
    struct settings config;
    char text[160];
    settings_init(&config);
    config.optimizer.optimizer = name;
    config.optimizer.bias_correction = bias_correction;
    config.optimizer.adam_w_mode = strcmp(expected + strlen(expected) - 8, "g += d p") != 0;
    config.optimizer.eps_inside_sqrt = strstr(expected, ")+eps)") == NULL;
    const struct optimizer optimizer = settled_optimizer(&config);
    optimizer_print_formula(&optimizer, text, sizeof text);
    assert_string_equal(text, expected);
}

// The plan shows what the settings make of an optimizer, not what it does by default.
static void test_formulas(void **state) {
    expect_formula("adamw", -1, "m^/(sqrt(v^)+eps) + d p");
    expect_formula("adamw", 0, "m/(sqrt(v)+eps) + d p");
    expect_formula("adam", 0, "m/(sqrt(v)+eps), g += d p");
    expect_formula("adam", 1, "m^/(sqrt(v^)+eps), g += d p");
    expect_formula("adam", 1, "m^/sqrt(v^+eps) + d p");
    expect_formula("bertadam", -1, "m/(sqrt(v)+eps) + d p");
    expect_formula("adam_weight_decay", 1, "m^/(sqrt(v^)+eps) + d p");
    expect_formula("nvlamb", 0, "|p|/|u| u, u = m/(sqrt(v)+eps) + d p; u alone where d = 0");
    expect_formula("lamb", 0,
                   "c u, u = m/(sqrt(v)+eps) + d p, c = |p|/|u| in [min_coeff, max_coeff]");
    expect_formula(
        "lamb", -1,
        "c u, u = m/(sqrt(v)+eps) + d p, c = |p|/|u| in [min_coeff, max_coeff], lr times "
        "sqrt(1-beta2^t)/(1-beta1^t)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_in_float64),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_own_list_must_name_something),
        cmocka_unit_test(test_any_list_is_followed),
        cmocka_unit_test(test_same_bits_for_any_number_of_threads),
        cmocka_unit_test(test_a_name_stands_for_its_settings),
        cmocka_unit_test(test_the_optimizers_offered_are_those_that_exist),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
