// SPDX-License-Identifier: Apache-2.0
// train MODEL OUT: fine-tunes on examples in memory, shows each update, stops early when the loss is low
#include <berth.h>
#include <stdio.h>

static enum berth_wish each(void *context, const struct berth_record *record) {
    (void)context;
    if (record->kind == BERTH_WARNING) fprintf(stderr, "warning: %s\n", record->text);
    if (record->kind != BERTH_STEP) return BERTH_CONTINUE;
    const double loss = berth_record_number(record, "loss");
    printf("%.0f %.4f\n", berth_record_number(record, "step"), loss);
    return loss < 0.3 ? BERTH_FINISH : BERTH_CONTINUE;
}

int main(int argc, char **argv) {
    static const char *const films[8][2] = {
        {"The film was great", "good"}, {"I found it lovely", "good"}, {"This is awful", "bad"},  {"It was boring", "bad"},
        {"It was great", "good"}, {"The film was lovely", "good"}, {"I found it awful", "bad"}, {"This is boring", "bad"}};
    static struct berth_text examples[8], asked;
    for (int i = 0; i < 8; i++) {
        examples[i].text = films[i][0];
        examples[i].label = films[i][1];
    }
    asked.text = "What a lovely film";
    const char *settings[] = {"train_batch_size", "8",    "num_train_epochs", "50", "learning_rate",
                              "1e-3",             "logging_steps", "1",  NULL};
    if (argc != 3) return 2;
    struct berth_error error;
    struct berth_watch watch = {each, NULL};
    struct berth_model *base = berth_open(argv[1], NULL, NULL, &error);
    struct berth_model *model = berth_train(base, "classify", examples, 8, NULL, 0, settings, &watch, &error);
    struct berth_result *result = berth_run(model, "classify", &asked, 1, NULL, NULL, &error);
    size_t count;
    const struct berth_item *items = berth_result_items(result, 0, &count);
    printf("%.0f updates\n", berth_model_number(model, "steps"));
    for (size_t i = 0; i < count; i++) printf("%s %.4f\n", items[i].text, items[i].score);
    berth_save(model, argv[2], "hf", NULL, NULL, &error);
    if (error.status != BERTH_OK) fprintf(stderr, "%s: %s\n", berth_status_name(error.status), error.message);
    berth_result_free(result);
    berth_close(model);
    berth_close(base);
    return error.status;
}
