// SPDX-License-Identifier: Apache-2.0
// The texts of `berth help TOPIC`, which are also manual pages of section 7. They say what all
// verbs have in common, such as the forms of options, the environment and exit codes; what a single
// option means is said in its row (settings/rows.c).
#include "topics.h"

#include "core/options.h"

#include <string.h>

static const struct cli_entry options[] = {
    {NULL, "`berth VERB --help` shows the common options of a verb, --help all every option, "
           "--help GROUP those of a group, --help NAME one, and `berth help NAME` one in every "
           "verb that has it."},
    {"--name VALUE, --name=VALUE",
     "sets an option. In names - and _ are the same, so --learning-rate is --learning_rate. "
     "Options may precede or follow arguments. If an option is given twice, the last one counts."},
    {"name=VALUE", "the same, in verbs without arguments"},
    {"--flag, --flag true, --flag false, --no_flag", "sets a flag or clears it"},
    {"-m, -o, -q, -n, -h", "short for --model, --output, --quiet, --dry-run and --help"},
    {"--", "ends the options; what follows are arguments"},
    {"FILE.json",
     "as the first word after the verb: a JSON object with an option for each key, as Hugging "
     "Face's scripts take it; options after it take precedence"},
    {"--deepspeed_config FILE", "reads a DeepSpeed configuration. Options on the command line take "
                                "precedence over it, and it over "
                                "the defaults."},
    {"--recipe NAME",
     "sets the defaults of a published run; any option still overrides it (`berth help recipe`)"},
    {"--dry-run", "prints what a run would do, with its settings and its memory, and ends"},
    {NULL,
     "Options have the names of Hugging Face's TrainingArguments where these have one. Command "
     "lines of other programs belong to `berth as PROGRAM`. An unknown option is an error that "
     "names the nearest known one, or the program that has it."}};

static const struct cli_entry environment[] = {
    {"OMP_NUM_THREADS", "number of threads without --threads"},
    {"OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME",
     "how long threads that wait for each other spin; if none of these is set, up to 16 threads "
     "soon sleep"},
    {"OMP_PROC_BIND, OMP_PLACES", "processors of the threads that compute (`doc/cluster.md`)"},
    {"COLUMNS", "width of help and progress, instead of the terminal's"},
    {"NO_COLOR, FORCE_COLOR, TERM",
     "no colours if NO_COLOR is not empty or TERM is dumb; FORCE_COLOR: colours also in files"},
    {"BERTH_MODULE_PATH",
     "folders, separated by colons, that are searched first for the modules of MPIs and devices "
     "(berth-comm-NAME.so, berth-device-NAME.so)"},
    {"HF_HOME, HF_HUB_CACHE, HF_ASSETS_CACHE", "folders of models and files that were downloaded"},
    {"HF_ENDPOINT", "address of the hub"},
    {"HF_TOKEN, HF_TOKEN_PATH", "token for the hub, or the file that holds it"},
    {"HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, HF_DATASETS_OFFLINE",
     "download nothing, use what is in the cache"},
    {"HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT", "seconds to wait for an answer and for data"},
    {"HF_HUB_DISABLE_PROGRESS_BARS", "show no progress of downloads"},
    {"http_proxy, https_proxy, all_proxy, no_proxy", "proxies for downloads"},
    {"CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_FILE", "certificates to trust in downloads"},
    {"BERTH_AS", "the system whose program `berth as PROGRAM` means"},
    {"RANK and WORLD_SIZE, OMPI_COMM_WORLD_..., PMI_..., PMIX_RANK, SLURM_...",
     "set by launchers: the number of processes and the rank of this one"}};

static const struct cli_entry exit_codes[] = {
    {"0", "success"},
    {"1", "the run failed"},
    {"2", "wrong arguments"},
    {"65", "bad data"},
    {"66", "missing input"},
    {"69", "not available"},
    {"70", "internal error or out of memory"},
    {"73", "cannot create output"},
    {"74", "I/O error"},
    {"75", "stopped by SIGUSR1, or any signal to one of several processes"},
    {"78", "bad configuration"},
    {"129", "SIGHUP"},
    {"130", "Ctrl-C"},
    {"143", "SIGTERM"},
    {"152", "SIGXCPU"}};

static const struct cli_entry formats[] = {
    {NULL, "A model is a folder or a file of weights in it. Berth recognises a file by its first "
           "bytes. `berth "
           "convert IN OUT --to FORMAT` writes a model in another format, `berth inspect` lists "
           "its tensors, "
           "`berth compare` compares two."},
    {"hf",
     "Hugging Face: config.json, model.safetensors, vocab.txt or tokenizer.json; read and written"},
    {"torch",
     "PyTorch: pytorch_model.bin, read as data without executing its pickle; read and written"},
    {"tensorflow", "a TensorFlow 2 checkpoint with Google's BERT names; read and written"},
    {"nvidia", "NVIDIA's and Habana's checkpoints, ckpt_N.pt; read and written"},
    {"deepspeed",
     "DeepSpeed's checkpoints, whole or in shards of ZeRO-1 and ZeRO-2; read and written"},
    {"int8", "weights of the linear layers in 8 bits, for predictions; read and written"},
    {"onnx", "ONNX; written"},
    {"gguf", "llama.cpp's GGUF, for embeddings; written"},
    {"training data",
     "SQuAD 1.1 and 2.0 (JSON); GLUE and XNLI; TSV, CSV and JSON lines; CoNLL's columns; plain "
     "text; "
     "Wikipedia dumps; HDF5 and TFRecord shards of NVIDIA, Habana, Google and Intel"}};

#define TOPIC(own, title, list)                                                                    \
    {                                                                                              \
        .name = (own), .summary = (title), .entries = (list),                                      \
        .entry_count = sizeof(list) / sizeof *(list)                                               \
    }

static const struct cli_topic topics[] = {
    TOPIC("options", "how options are written", options),
    TOPIC("environment", "environment variables", environment),
    TOPIC("exit-codes", "exit codes", exit_codes),
    TOPIC("formats", "formats of models and data", formats),
};

const struct cli_topic *cli_topic_at(size_t index) {
    return index < sizeof topics / sizeof *topics ? &topics[index] : NULL;
}

const struct cli_topic *cli_find_topic(const char *name) {
    const struct cli_topic *topic;
    for (size_t i = 0; (topic = cli_topic_at(i)) != NULL; i++) {
        if (option_same_name(name, topic->name)) {
            return topic;
        }
    }
    return NULL;
}
