// SPDX-License-Identifier: Apache-2.0
// The labels of a model, from its training data or from earlier training, and the check that a
// set's labels are among them. Called by classify.c when a set is open; config.json gets the names
// from data/pairs/pair_labels.c.
#include "core/memory.h"
#include "data/pairs/pair_labels.h"
#include "task/classify.h"

#include <inttypes.h>
#include <string.h>

static int is_regression(const struct model_files *files) {
    return files->shape.problem == BERT_REGRESSION;
}

// There is no head with several regression outputs.
enum berth_status classify_check_outputs(const struct model_files *files,
                                         struct berth_error *error) {
    return !is_regression(files) || files->shape.num_labels == 1
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "the model's config.json: key \"problem_type\" is regression, but it has "
                     "%" PRId64 " labels; a regression to several numbers is not supported",
                     files->shape.num_labels);
}

enum berth_status classify_read_names(struct class_names *names, const struct model_files *files,
                                      struct berth_error *error) {
    return is_regression(files) ? BERTH_OK : class_names_read(names, files, error);
}

// A name that has one of these could not be told from its neighbour in predict_results.txt.
static const char *separators(const struct classify *own) {
    return own->is_multi_label ? ",\t\r\n" : "\t\r\n";
}

enum berth_status classify_settle_labels(struct classify *own, struct task_set *set,
                                         const struct task_open *args, struct berth_error *error) {
    struct classify_part *part = &own->parts[0];
    struct pair_dataset *dataset = &part->dataset;
    own->is_multi_label = dataset->target == PAIR_MULTI_LABEL || own->is_ranking;
    if (own->task == NULL) {
        args->config->task.problem_type = pair_target_name(dataset->target);
    }
    if (dataset->target == PAIR_CLASS && dataset->label_count < 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: every example has the same label; there is nothing to learn",
                         part->path);
    }
    TRY(classify_read_names(&own->names, args->files, error));
    const struct class_names *names = &own->names;
    const size_t labels = dataset->label_count; // before they become the model's
    const int are_same = class_names_are_comparable(names, args->files, dataset) &&
                         pairs_relabel(dataset, names->list, names->count, NULL) == BERTH_OK;
    class_names_settle_head(set, names, args, dataset, are_same);
    if (are_same) {
        class_names_note_missing(names, labels, part->path, args->log);
    }
    if (are_same && !class_names_are_placeholders(names)) {
        return BERTH_OK;
    }
    class_names_done(&own->names);
    TRY(class_names_set(args->files, dataset, separators(own), error));
    return classify_read_names(&own->names, args->files, error);
}

// Checks that a named task and the model have the same kind of target.
static enum berth_status check_target(const struct classify *own, const struct model_files *files,
                                      struct berth_error *error) {
    const struct pair_dataset *dataset = &own->parts[0].dataset;
    int real = dataset->target == PAIR_REAL;
    TRY(classify_check_outputs(files, error));
    if (!dataset->has_labels || own->is_ranking || real == is_regression(files)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: its labels are %s, but the model is made for %s; use a model that was "
                     "fine-tuned for this task",
                     own->parts[0].path, real ? "numbers" : "classes",
                     real ? "classes" : "a regression");
}

enum berth_status classify_match_labels(struct classify *own, const struct task_open *args,
                                        struct berth_error *error) {
    const struct class_names *names = &own->names;
    own->is_multi_label = args->files->shape.problem == BERT_MULTI_LABEL;
    TRY(check_target(own, args->files, error));
    TRY(args->use == TASK_PREDICT ? class_names_check_written(names, separators(own), error)
                                  : BERTH_OK);
    for (size_t i = 0; i < own->part_count && names->count > 0; i++) {
        struct pair_dataset *dataset = &own->parts[i].dataset;
        TRY(pairs_relabel(dataset, names->list, names->count, error));
        if (dataset->labels_in_order) {
            class_names_note_order(own->parts[i].path, dataset->labels, dataset->label_count,
                                   args->log);
        }
    }
    return BERTH_OK;
}
