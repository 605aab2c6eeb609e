// SPDX-License-Identifier: Apache-2.0
// BERT in one file: reads a model, turns text into numbers, computes the loss and its gradient, and
// trains. It needs the C library and nothing of Berth. It computes what `berth pretrain` computes
// in fp32, and tests/cli/small_bert.py compares the losses of both. What Berth adds is speed, other
// formats and numbers, and care for what goes wrong.
//
// The file is in the order of the computation, to be read from the first line to the last:
//
//   1. files         bytes, JSON, and a model's sizes
//   2. parameters    the names of the weights, and where they are
//   3. text          words, pieces of words, and the examples that a model is trained on
//   4. layers        each one forward, then backward
//   5. the encoder   the layers in their order, and back in the reverse order
//   6. losses        masked words and next sentences
//   7. the optimizer AdamW
//   8. the program
//
//   cc -O3 -march=native -fopenmp small_bert.c -lm -o small_bert
//   small_bert MODEL [--updates N] [--batch N] [--rate X] [--seed N] [--save FILE] TEXT...
//   small_bert MODEL [--rate X] [--save FILE] --ids FILE
//   small_bert MODEL --vector "a text"
//
// MODEL is a folder with config.json, model.safetensors and vocab.txt, such as `berth pretrain`
// writes. TEXT is a file with one sentence a line, in which an empty line ends a document. --save
// writes the trained weights; in place of the folder's model.safetensors they are a model that
// Berth runs. --ids trains on numbers (read_ids below has their form), --vector prints the vector
// of a text: the last layer's row of [CLS].
//
// There is no dropout: where the model's authors set a part of the numbers to 0 by chance, this
// program keeps all of them. There is no padding either, because it takes one sequence after the
// other: the gradient of a batch is the sum of the gradients of its sequences.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// With OpenMP the loops over outputs, rows and heads are divided among the cores. An output belongs
// to one core, so the result does not depend on their number.
#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for")
#define SUM_IN_ANY_ORDER _Pragma("omp simd reduction(+ : sum)")
#else
#define PARALLEL
#define SUM_IN_ANY_ORDER
#endif

// ------------------------------------------------------------------------------------------------
// 1. Files
// ------------------------------------------------------------------------------------------------

_Noreturn static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("small_bert: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) {
        fail("no memory for %zu numbers of %zu bytes", count, size);
    }
    return memory;
}

struct file {
    char name[1024];
    char *bytes; // `size` bytes and a NUL
    size_t size;
};

// Reads FOLDER/NAME. Returns 0 if there is no such file.
static int try_read(struct file *file, const char *folder, const char *name) {
    snprintf(file->name, sizeof file->name, "%s%s%s", folder, *folder != '\0' ? "/" : "", name);
    FILE *stream = fopen(file->name, "rb");
    if (stream == NULL) {
        return 0;
    }
    size_t room = 0;
    file->size = 0;
    file->bytes = NULL;
    do {
        room = 2 * room + 65536;
        file->bytes = realloc(file->bytes, room);
        if (file->bytes == NULL) {
            fail("%s: no memory for %zu bytes", file->name, room);
        }
        file->size += fread(file->bytes + file->size, 1, room - file->size - 1, stream);
    } while (file->size == room - 1);
    if (ferror(stream)) {
        fail("%s: %s", file->name, strerror(errno));
    }
    fclose(stream);
    file->bytes[file->size] = '\0';
    return 1;
}

static struct file read_file(const char *folder, const char *name) {
    struct file file;
    if (!try_read(&file, folder, name)) {
        fail("%s: %s", file.name, strerror(errno));
    }
    return file;
}

// What follows "key": in a JSON text; NULL: the key is not there. The files of a model have few
// keys, each once, so this need not know what is within what.
static const char *find_key(const char *json, const char *key) {
    const size_t length = strlen(key);
    for (const char *s = json; (s = strstr(s, key)) != NULL; s += length) {
        if (s > json && s[-1] == '"' && s[length] == '"') {
            const char *value = s + length + 1 + strspn(s + length + 1, " \t\r\n");
            if (*value == ':') {
                return value + 1 + strspn(value + 1, " \t\r\n");
            }
        }
    }
    return NULL;
}

static int begins(const char *text, const char *with) {
    return text != NULL && strncmp(text, with, strlen(with)) == 0;
}

static double config_number(const struct file *config, const char *key, double least, double most) {
    const char *value = find_key(config->bytes, key);
    if (value == NULL) {
        fail("%s: \"%s\" is missing; every BERT has it", config->name, key);
    }
    char *end;
    const double number = strtod(value, &end);
    if (end == value || !(number >= least && number <= most)) {
        fail("%s: \"%s\" is %.12s, expected a number from %g to %g", config->name, key, value,
             least, most);
    }
    return number;
}

static int config_size(const struct file *config, const char *key) {
    return (int)config_number(config, key, 1, 1 << 24);
}

static void config_only(const struct file *config, const char *key, const char *known) {
    const char *value = find_key(config->bytes, key);
    if (value != NULL && !begins(value, known)) {
        fail("%s: \"%s\" is %.12s..., but this program computes only %s; Berth computes more",
             config->name, key, value, known);
    }
}

enum { MOST_TOKENS = 512 }; // of a sequence

// The sizes of a model. The comments below use the letters.
struct config {
    int words;     // V
    int positions; // P
    int types;     // 2: first and second text
    int hidden;    // H: numbers of a token between layers
    int inner;     // I: numbers of a token within a layer
    int layers;    // L
    int heads;     // A, of D = H / A numbers
    float epsilon; // of layer norms
    int longest;   // sequence: P or MOST_TOKENS
};

static struct config read_config(const char *folder) {
    const struct file file = read_file(folder, "config.json");
    struct config config = {
        .words = config_size(&file, "vocab_size"),
        .positions = config_size(&file, "max_position_embeddings"),
        .types = config_size(&file, "type_vocab_size"),
        .hidden = config_size(&file, "hidden_size"),
        .inner = config_size(&file, "intermediate_size"),
        .layers = (int)config_number(&file, "num_hidden_layers", 1, 1000),
        .heads = config_size(&file, "num_attention_heads"),
        .epsilon = (float)config_number(&file, "layer_norm_eps", 0, 1),
    };
    config.longest = config.positions < MOST_TOKENS ? config.positions : MOST_TOKENS;
    config_only(&file, "model_type", "\"bert\"");
    config_only(&file, "hidden_act", "\"gelu\"");
    config_only(&file, "position_embedding_type", "\"absolute\"");
    config_only(&file, "pre_layer_norm", "false");
    if (config.hidden % config.heads != 0) {
        fail("%s: \"hidden_size\" is %d, expected a multiple of \"num_attention_heads\", %d",
             file.name, config.hidden, config.heads);
    }
    free(file.bytes);
    return config;
}

// ------------------------------------------------------------------------------------------------
// 2. Parameters
// ------------------------------------------------------------------------------------------------
// All weights are in one buffer, and so are their gradients and the two moments of the optimizer,
// in the same order. So the optimizer is one loop, and a layer is pointers into the buffers.

struct linear {                             // y = x W^T + b
    float *weight, *bias, *dweight, *dbias; // [out, in], [out], and their gradients
    int in, out;
};

struct norm {
    float *gamma, *beta, *dgamma, *dbeta; // [size]
    int size;
};

struct table { // a row of numbers for each word, position or type
    float *rows, *drows;
};

struct layer {
    struct linear query, key, value, attention_output, inner, output;
    struct norm attention_norm, output_norm;
};

struct tensor { // a named slice of the buffers
    char name[96];
    size_t rows, columns, offset; // a vector has one row
    int rank;                     // 1: a vector, 2: a matrix
    int decays;                   // 1: the optimizer pulls its numbers to 0
    float **weight, **gradient;   // the pointers that are set to it
    char *file_bytes;             // where it is in the file
};

struct model {
    struct config config;
    struct table word, position, type;
    struct norm embedding_norm;
    struct layer *layers;             // [L]
    int has_words, has_next;          // whether the folder has these heads:
    struct linear transform, decoder; // masked words
    struct norm transform_norm;
    struct linear pooler, next; // next sentences

    struct tensor *tensors;
    size_t tensor_count;
    size_t count;                                // of all numbers
    float *weights, *gradients, *first, *second; // [count]
    struct file file;                            // model.safetensors
};

// `layer` is the layer's number; -1: the tensor is of no layer.
static void add_tensor(struct model *model, int layer, const char *name, const char *end, int rows,
                       int columns, float **weight, float **gradient) {
    struct tensor *tensor = &model->tensors[model->tensor_count++];
    char in_layer[48] = "";
    if (layer >= 0) {
        snprintf(in_layer, sizeof in_layer, "bert.encoder.layer.%d.", layer);
    }
    snprintf(tensor->name, sizeof tensor->name, "%s%s%s", in_layer, name, end);
    tensor->rank = rows > 0 ? 2 : 1;
    tensor->rows = rows > 0 ? (size_t)rows : 1;
    tensor->columns = (size_t)columns;
    tensor->offset = model->count;
    // Biases, and the factors of norms, may have any size.
    tensor->decays = rows > 0;
    tensor->weight = weight;
    tensor->gradient = gradient;
    model->count += tensor->rows * tensor->columns;
}

static void add_table(struct model *model, struct table *table, const char *name, int rows) {
    add_tensor(model, -1, name, ".weight", rows, model->config.hidden, &table->rows, &table->drows);
}

static void add_linear(struct model *model, struct linear *linear, int layer, const char *name,
                       int in, int out) {
    linear->in = in;
    linear->out = out;
    add_tensor(model, layer, name, ".weight", out, in, &linear->weight, &linear->dweight);
    add_tensor(model, layer, name, ".bias", 0, out, &linear->bias, &linear->dbias);
}

static void add_norm(struct model *model, struct norm *norm, int layer, const char *name) {
    norm->size = model->config.hidden;
    add_tensor(model, layer, name, ".weight", 0, norm->size, &norm->gamma, &norm->dgamma);
    add_tensor(model, layer, name, ".bias", 0, norm->size, &norm->beta, &norm->dbeta);
}

static void add_parameters(struct model *model) {
    const struct config *config = &model->config;
    const int hidden = config->hidden, inner = config->inner;
    model->tensors = allocate(32 + 16 * (size_t)config->layers, sizeof *model->tensors);
    model->layers = allocate((size_t)config->layers, sizeof *model->layers);
    add_table(model, &model->word, "bert.embeddings.word_embeddings", config->words);
    add_table(model, &model->position, "bert.embeddings.position_embeddings", config->positions);
    add_table(model, &model->type, "bert.embeddings.token_type_embeddings", config->types);
    add_norm(model, &model->embedding_norm, -1, "bert.embeddings.LayerNorm");
    for (int i = 0; i < config->layers; i++) {
        struct layer *layer = &model->layers[i];
        add_linear(model, &layer->query, i, "attention.self.query", hidden, hidden);
        add_linear(model, &layer->key, i, "attention.self.key", hidden, hidden);
        add_linear(model, &layer->value, i, "attention.self.value", hidden, hidden);
        add_linear(model, &layer->attention_output, i, "attention.output.dense", hidden, hidden);
        add_norm(model, &layer->attention_norm, i, "attention.output.LayerNorm");
        add_linear(model, &layer->inner, i, "intermediate.dense", hidden, inner);
        add_linear(model, &layer->output, i, "output.dense", inner, hidden);
        add_norm(model, &layer->output_norm, i, "output.LayerNorm");
    }
    if (model->has_words) {
        add_linear(model, &model->transform, -1, "cls.predictions.transform.dense", hidden, hidden);
        add_norm(model, &model->transform_norm, -1, "cls.predictions.transform.LayerNorm");
        add_tensor(model, -1, "cls.predictions", ".bias", 0, config->words, &model->decoder.bias,
                   &model->decoder.dbias);
    }
    if (model->has_next) {
        add_linear(model, &model->pooler, -1, "bert.pooler.dense", hidden, hidden);
        add_linear(model, &model->next, -1, "cls.seq_relationship", hidden, 2);
    }
}

// A safetensors file is
//
//   8 bytes    the length N of the header, the lowest byte first
//   N bytes    {"name": {"dtype": "F32", "shape": [30522, 768], "data_offsets": [0, 93763584]}, ...
//   the rest   the tensors, each between its two offsets from here

static const char *find_entry(const char *header, const char *name) {
    char old[96];
    const char *entry = find_key(header, name);
    if (entry == NULL && begins(name, "bert.")) { // a model without heads may leave out bert.
        entry = find_key(header, name + 5);
    }
    const char *norm = strstr(name, "LayerNorm.");
    if (entry == NULL && norm != NULL) { // the names of the first BERTs
        snprintf(old, sizeof old, "%.*s%s", (int)(norm + 10 - name), name,
                 begins(norm + 10, "weight") ? "gamma" : "beta");
        entry = find_key(header, old);
    }
    return entry;
}

// Finds the tensor in the file and compares its type, shape and place with what the model needs.
static void find_tensor(const struct file *file, struct tensor *tensor, const char *header,
                        size_t data) {
    const char *entry = find_entry(header, tensor->name);
    if (entry == NULL) {
        fail("%s: the tensor %s is missing; by config.json the model has it", file->name,
             tensor->name);
    }
    const char *type = find_key(entry, "dtype"), *shape = find_key(entry, "shape");
    const char *place = find_key(entry, "data_offsets");
    size_t rows = 1, columns = 0, begin, end;
    if (type == NULL || shape == NULL || place == NULL || !begins(type, "\"F32\"")) {
        fail("%s: the tensor %s has the type %.6s, expected \"F32\"; Berth reads other types",
             file->name, tensor->name, type != NULL ? type : "?");
    }
    const int rank = tensor->rank == 2 ? sscanf(shape, "[ %zu , %zu ]", &rows, &columns)
                                       : sscanf(shape, "[ %zu ]", &columns);
    if (rank != tensor->rank || rows != tensor->rows || columns != tensor->columns) {
        fail("%s: the tensor %s has the shape %.*s], expected [%zu, %zu] by config.json",
             file->name, tensor->name, (int)strcspn(shape, "]"), shape, tensor->rows,
             tensor->columns);
    }
    if (sscanf(place, "[ %zu , %zu", &begin, &end) != 2 || end > file->size - data || begin > end ||
        end - begin != rows * columns * sizeof(float)) {
        fail("%s: the tensor %s is not within the file; was the file copied to its end?",
             file->name, tensor->name);
    }
    tensor->file_bytes = file->bytes + data + begin;
}

static void read_weights(struct model *model, const char *header, size_t data) {
    for (size_t i = 0; i < model->tensor_count; i++) {
        find_tensor(&model->file, &model->tensors[i], header, data);
    }
    model->weights = allocate(model->count, sizeof(float));
    model->gradients = allocate(model->count, sizeof(float));
    for (size_t i = 0; i < model->tensor_count; i++) {
        const struct tensor *tensor = &model->tensors[i];
        *tensor->weight = model->weights + tensor->offset;
        *tensor->gradient = model->gradients + tensor->offset;
        memcpy(*tensor->weight, tensor->file_bytes, tensor->rows * tensor->columns * sizeof(float));
    }
    // The decoder finds the word of a vector with the table that has the vector of each word. So
    // its matrix is no tensor of its own, and the table's gradient is the sum of both uses.
    model->decoder.weight = model->word.rows;
    model->decoder.dweight = model->word.drows;
    model->decoder.in = model->config.hidden;
    model->decoder.out = model->config.words;
}

static void read_model(struct model *model, const char *folder) {
    const uint32_t one = 1;
    if (*(const unsigned char *)&one != 1) {
        fail("numbers of this machine begin with their highest byte, those of a model do not");
    }
    model->config = read_config(folder);
    model->file = read_file(folder, "model.safetensors");
    const struct file *file = &model->file;
    uint64_t length = 0;
    for (int i = 0; i < 8 && file->size >= 8; i++) {
        length |= (uint64_t)(unsigned char)file->bytes[i] << 8 * i;
    }
    if (length == 0 || length > file->size - 8) {
        fail("%s: is no safetensors file, or was not copied to its end", file->name);
    }
    char *header = allocate(length + 1, 1);
    memcpy(header, file->bytes + 8, length);
    model->has_words = find_key(header, "cls.predictions.bias") != NULL;
    model->has_next = find_key(header, "cls.seq_relationship.weight") != NULL;
    if (find_key(header, "cls.predictions.decoder.weight") != NULL) {
        fail("%s: the decoder has a matrix of its own; in this program it has the table of words",
             file->name);
    }
    add_parameters(model);
    read_weights(model, header, 8 + length);
    free(header);
}

// Writes the file that was read, with the trained numbers in their places.
static void save_model(const struct model *model, const char *path) {
    for (size_t i = 0; i < model->tensor_count; i++) {
        const struct tensor *tensor = &model->tensors[i];
        memcpy(tensor->file_bytes, *tensor->weight, tensor->rows * tensor->columns * sizeof(float));
    }
    const struct file *file = &model->file;
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(file->bytes, 1, file->size, stream) != file->size ||
        fclose(stream) != 0) {
        fail("%s: %s", path, strerror(errno));
    }
}

// ------------------------------------------------------------------------------------------------
// 3. Text
// ------------------------------------------------------------------------------------------------
// A model reads numbers. vocab.txt has a piece of a word a line, and the number of the line, from
// 0, is the piece's id. "Berth floats." becomes
//
//   [CLS] bert ##h floats . [SEP]      where ## continues a word

struct word {
    const char *text;
    int id;
};

struct vocabulary {
    struct file file;
    struct word *words; // sorted by their text
    int count, lower_case, unknown, cls, sep, mask;
};

static int compare_words(const void *a, const void *b) {
    return strcmp(((const struct word *)a)->text, ((const struct word *)b)->text);
}

// The id of a piece; -1: it is not in the vocabulary.
static int find_word(const struct vocabulary *vocabulary, const char *text) {
    const struct word key = {text, 0};
    const struct word *found = bsearch(&key, vocabulary->words, (size_t)vocabulary->count,
                                       sizeof *vocabulary->words, compare_words);
    return found != NULL ? found->id : -1;
}

static int need_word(const struct vocabulary *vocabulary, const char *text) {
    const int id = find_word(vocabulary, text);
    if (id < 0) {
        fail("%s: %s is missing; the vocabulary of a BERT has it", vocabulary->file.name, text);
    }
    return id;
}

static char *next_line(char *line) {
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

static int line_count(char *text) {
    int count = 0;
    for (; *text != '\0'; text = next_line(text)) {
        count++;
    }
    return count;
}

static void read_vocabulary(struct vocabulary *vocabulary, const char *folder, int words) {
    struct file *file = &vocabulary->file, settings;
    *file = read_file(folder, "vocab.txt");
    vocabulary->count = line_count(file->bytes);
    if (vocabulary->count > words) {
        fail("%s: has %d lines, expected at most \"vocab_size\" of config.json, %d", file->name,
             vocabulary->count, words);
    }
    vocabulary->words = allocate((size_t)vocabulary->count, sizeof *vocabulary->words);
    char *line = file->bytes;
    for (int id = 0; id < vocabulary->count; id++) {
        char *next = next_line(line);
        line[strcspn(line, " \t\r\n")] = '\0';
        vocabulary->words[id] = (struct word){line, id};
        line = next;
    }
    qsort(vocabulary->words, (size_t)vocabulary->count, sizeof *vocabulary->words, compare_words);
    vocabulary->unknown = need_word(vocabulary, "[UNK]");
    vocabulary->cls = need_word(vocabulary, "[CLS]");
    vocabulary->sep = need_word(vocabulary, "[SEP]");
    vocabulary->mask = need_word(vocabulary, "[MASK]");
    vocabulary->lower_case = 1;
    if (try_read(&settings, folder, "tokenizer_config.json")) {
        vocabulary->lower_case = !begins(find_key(settings.bytes, "do_lower_case"), "false");
        free(settings.bytes);
    }
}

struct ids {
    int *items;
    size_t count, room;
};

static void add_id(struct ids *ids, int id) {
    if (ids->count == ids->room) {
        ids->room = 2 * ids->room + 64;
        ids->items = realloc(ids->items, ids->room * sizeof *ids->items);
        if (ids->items == NULL) {
            fail("no memory for %zu tokens", ids->room);
        }
    }
    ids->items[ids->count++] = id;
}

enum { LONGEST_WORD = 100 }; // letters

// A word is the longest piece that begins it, then the longest piece that begins the rest, and so
// on. A word that cannot be cut so, or is too long, is [UNK] as a whole.
static void add_word(const struct vocabulary *vocabulary, const char *word, int length,
                     struct ids *ids) {
    const size_t before = ids->count;
    int begin = 0;
    while (begin < length && length <= LONGEST_WORD) {
        int id = -1, end = length;
        for (; end > begin; end--) {
            char piece[LONGEST_WORD + 3];
            snprintf(piece, sizeof piece, "%s%.*s", begin > 0 ? "##" : "", end - begin,
                     word + begin);
            if ((id = find_word(vocabulary, piece)) >= 0) {
                break;
            }
        }
        if (id < 0) {
            break;
        }
        add_id(ids, id);
        begin = end;
    }
    if (begin < length) {
        ids->count = before;
        add_id(ids, vocabulary->unknown);
    }
}

// White space ends a word, a punctuation mark is a word of its own, and control characters do not
// count.
static void tokenize(const struct vocabulary *vocabulary, const char *text, const char *name,
                     struct ids *ids) {
    char word[LONGEST_WORD];
    int length = 0; // of the word so far, also beyond LONGEST_WORD
    for (const char *s = text;; s++) {
        const int c = (unsigned char)*s, is_mark = ispunct(c);
        if (c >= 0x80) {
            fail("%s: the byte 0x%02X before \"%.12s\" is not ASCII; this program reads plain "
                 "English, Berth every language",
                 name, (unsigned)c, s + 1);
        }
        if (length > 0 && (is_mark || strchr(" \t\r\n", c) != NULL)) { // also at the NUL
            add_word(vocabulary, word, length, ids);
            length = 0;
        }
        if (c == '\0') {
            return;
        }
        if (is_mark) {
            add_word(vocabulary, s, 1, ids);
        } else if (isalnum(c) && length++ < LONGEST_WORD) {
            word[length - 1] = (char)(vocabulary->lower_case ? tolower(c) : c);
        }
    }
}

// What a model is trained on: a text, or two, some of whose words are hidden.
struct example {
    int length;              // T
    int ids[MOST_TOKENS];    // what the model sees
    int types[MOST_TOKENS];  // 0: first text, 1: second text
    int labels[MOST_TOKENS]; // the word that is to be predicted here; -1: none is
    int next;                // 0: the second text follows the first, 1: it does not, -1: unknown
    int update;              // which is made with it, from 0
};

static void add_token(struct example *example, int id, int type, int label) {
    example->ids[example->length] = id;
    example->types[example->length] = type;
    example->labels[example->length] = label;
    example->length++;
}

// Random numbers from 0 to below - 1: Marsaglia's xorshift, multiplied.
static uint64_t random_state;
static size_t random_below(size_t below) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (size_t)((random_state * 0x2545F4914F6CDD1Du >> 32) % below);
}

// Of 100 words 15 are to be predicted: 12 of them are hidden behind [MASK], and of the other 3 half
// are replaced by any word and half are left, so that the model cannot trust a word that it sees.
static void add_text(struct example *example, const struct vocabulary *vocabulary, const int *ids,
                     size_t count, int type) {
    for (size_t i = 0; i < count; i++) {
        const size_t chance = random_below(1000);
        const int any = (int)random_below((size_t)vocabulary->count);
        const int seen = chance < 120 ? vocabulary->mask : chance < 135 ? any : ids[i];
        add_token(example, seen, type, chance < 150 ? ids[i] : -1);
    }
    add_token(example, vocabulary->sep, type, -1);
}

enum { DRAWN_TOKENS = 128 };

// [CLS] first [SEP] second [SEP]: the first text is a run of tokens from anywhere; the second is
// the run behind it or, in half of the examples, one from anywhere. A model that does not predict
// next sentences gets the first text alone.
static void draw_example(struct example *example, const struct model *model,
                         const struct vocabulary *vocabulary, const struct ids *text) {
    const int longest = model->config.longest < DRAWN_TOKENS ? model->config.longest : DRAWN_TOKENS;
    const size_t count = (size_t)(model->has_next ? (longest - 3) / 2 : longest - 2);
    if (longest < 5 || text->count < 2 * count) {
        fail("the text has %zu tokens, expected at least %zu", text->count, 2 * count);
    }
    const size_t first = random_below(text->count - 2 * count + 1);
    const size_t other = random_below(text->count - count + 1);
    example->length = 0;
    example->next = model->has_next ? (int)random_below(2) : -1;
    add_token(example, vocabulary->cls, 0, -1);
    add_text(example, vocabulary, text->items + first, count, 0);
    if (model->has_next) {
        const size_t second = example->next == 1 ? other : first + count;
        add_text(example, vocabulary, text->items + second, count, 1);
    }
}

// Examples as numbers, one a line; an empty line ends the examples of an update:
//
//   0 2 17 4=9 33 3 | 25 4=18 3
//
// First comes `next`, or - where it is unknown. Each number after it is the id of a token; where it
// is ID=WORD, the model sees ID and has to predict WORD. The tokens after | are of the second text.
struct given {
    struct file file;
    struct example *examples;
    int count, line;
};

static int read_number(const struct given *given, char **s, int below) {
    char *begin = *s;
    const long number = strtol(begin, s, 10);
    if (*s == begin || number < 0 || number >= below) {
        fail("%s, line %d: expected a number from 0 to %d, found \"%.*s\"", given->file.name,
             given->line, below - 1, (int)strcspn(begin, "\n"), begin);
    }
    return (int)number;
}

static void read_example(const struct given *given, struct example *example, char *s,
                         const struct config *config) {
    int type = 0;
    example->next = *s == '-' ? -1 : read_number(given, &s, 2);
    s += example->next < 0;
    while (*(s += strspn(s, " \r")) != '\n' && *s != '\0') {
        if (*s == '|') {
            s++;
            type = config->types > 1;
            continue;
        }
        const int id = read_number(given, &s, config->words);
        const int has_label = *s == '=';
        s += has_label;
        if (example->length == config->longest) {
            fail("%s, line %d: expected at most %d tokens", given->file.name, given->line,
                 config->longest);
        }
        add_token(example, id, type, has_label ? read_number(given, &s, config->words) : -1);
    }
    if (example->length == 0) {
        fail("%s, line %d: expected tokens after the first number", given->file.name, given->line);
    }
}

static void read_examples(struct given *given, const char *path, const struct config *config) {
    given->file = read_file("", path);
    given->examples = allocate((size_t)line_count(given->file.bytes), sizeof *given->examples);
    int update = 0, is_new = 1;
    for (char *s = given->file.bytes; *s != '\0'; s = next_line(s)) {
        given->line++;
        if (s[strspn(s, " \r")] == '\n') {
            update += !is_new;
            is_new = 1;
            continue;
        }
        is_new = 0;
        given->examples[given->count].update = update;
        read_example(given, &given->examples[given->count++], s, config);
    }
    if (given->count == 0) {
        fail("%s: has no examples", given->file.name);
    }
}

// ------------------------------------------------------------------------------------------------
// 4. Layers
// ------------------------------------------------------------------------------------------------
// A matrix is an array of rows; a row is a token. dx is the gradient of the loss with respect to x:
// how much the loss grows when a number of x does. A function backward takes dy and *adds* to dx
// and to the gradients of its weights, because what is read in several places gets a gradient from
// each.

//
// New matrices are full of zeros, and all of them live until the gradient of the sequence is known.

static float *lent[65536];
static size_t lent_count;

static float *zeros(size_t rows, int columns) {
    if (lent_count == sizeof lent / sizeof *lent) {
        fail("more matrices than expected");
    }
    return lent[lent_count++] = allocate(rows * (size_t)columns, sizeof(float));
}

static void free_matrices(void) {
    while (lent_count > 0) {
        free(lent[--lent_count]);
    }
}

static void add(float *to, const float *x, int count) {
    for (int i = 0; i < count; i++) {
        to[i] += x[i];
    }
}

static float dot(const float *a, const float *b, int count) {
    float sum = 0;
    SUM_IN_ANY_ORDER
    for (int i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add_scaled(float *to, const float *x, float factor, int count) {
    for (int i = 0; i < count; i++) {
        to[i] += factor * x[i];
    }
}

// y = x W^T + b: each output is a weighted sum of all inputs. Nearly all of the time goes here.
static void linear_forward(float *y, const float *x, const struct linear *l, int rows) {
    PARALLEL
    for (int o = 0; o < l->out; o++) {
        const float *weight = l->weight + (size_t)o * l->in;
        for (int r = 0; r < rows; r++) {
            y[(size_t)r * l->out + o] = l->bias[o] + dot(x + (size_t)r * l->in, weight, l->in);
        }
    }
}

// dW = dy^T x    db = sum of the rows of dy    dx = dy W
static void linear_backward(float *dx, const float *dy, const float *x, const struct linear *l,
                            int rows) {
    PARALLEL
    for (int o = 0; o < l->out; o++) {
        for (int r = 0; r < rows; r++) {
            const float d = dy[(size_t)r * l->out + o];
            l->dbias[o] += d;
            add_scaled(l->dweight + (size_t)o * l->in, x + (size_t)r * l->in, d, l->in);
        }
    }
    PARALLEL
    for (int r = 0; r < rows; r++) {
        for (int o = 0; o < l->out; o++) {
            add_scaled(dx + (size_t)r * l->in, l->weight + (size_t)o * l->in,
                       dy[(size_t)r * l->out + o], l->in);
        }
    }
}

// Layer norm brings each row to mean 0 and variance 1, then lets the model scale and shift columns:
//
//   xhat = (x - mean) rstd,  rstd = 1 / sqrt(variance + epsilon)      y = gamma xhat + beta
//
// The way back needs only xhat and rstd.
struct norm_memory {
    float *xhat, *rstd; // [T, H], [T]
};

static void norm_forward(float *y, struct norm_memory memory, const float *x,
                         const struct norm *norm, float epsilon, int rows) {
    const int size = norm->size;
    for (int r = 0; r < rows; r++, x += size, y += size, memory.xhat += size) {
        float mean = 0, variance = 0;
        for (int i = 0; i < size; i++) {
            mean += x[i] / (float)size;
        }
        for (int i = 0; i < size; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (float)size;
        }
        memory.rstd[r] = 1 / sqrtf(variance + epsilon);
        for (int i = 0; i < size; i++) {
            memory.xhat[i] = (x[i] - mean) * memory.rstd[r];
            y[i] = norm->gamma[i] * memory.xhat[i] + norm->beta[i];
        }
    }
}

// With h = dy gamma:    dx = rstd (h - mean(h) - xhat mean(h xhat))
//
// The two means are there because each x[i] also moves the row's mean and variance.
static void norm_backward(float *dx, const float *dy, struct norm_memory memory,
                          const struct norm *norm, int rows) {
    const int size = norm->size;
    for (int r = 0; r < rows; r++, dx += size, dy += size, memory.xhat += size) {
        float mean = 0, mean_xhat = 0;
        for (int i = 0; i < size; i++) {
            const float h = dy[i] * norm->gamma[i];
            mean += h / (float)size;
            mean_xhat += h * memory.xhat[i] / (float)size;
            norm->dgamma[i] += dy[i] * memory.xhat[i];
            norm->dbeta[i] += dy[i];
        }
        for (int i = 0; i < size; i++) {
            const float h = dy[i] * norm->gamma[i];
            dx[i] += memory.rstd[r] * (h - mean - memory.xhat[i] * mean_xhat);
        }
    }
}

// gelu(u) = u Phi(u), where Phi(u) is the part of a normal distribution below u: nearly 0 for
// negative u, nearly u for positive u, and smooth between.
static float normal_below(float u) {
    return (1 + erff(u * 0.70710678f)) / 2;
}

static void gelu_forward(float *y, const float *u, int count) {
    for (int i = 0; i < count; i++) {
        y[i] = u[i] * normal_below(u[i]);
    }
}

// gelu'(u) = Phi(u) + u exp(-u^2 / 2) / sqrt(2 pi)
static void gelu_backward(float *du, const float *dy, const float *u, int count) {
    for (int i = 0; i < count; i++) {
        du[i] += dy[i] * (normal_below(u[i]) + u[i] * expf(-u[i] * u[i] / 2) * 0.39894228f);
    }
}

// Makes numbers into probabilities: exp(x[i]) / sum exp(x). Subtracting the largest changes nothing
// but keeps exp from overflowing. Returns log(sum exp(x)).
static float softmax(float *x, int count) {
    float largest = x[0], sum = 0;
    for (int i = 1; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int i = 0; i < count; i++) {
        x[i] = expf(x[i] - largest);
        sum += x[i];
    }
    for (int i = 0; i < count; i++) {
        x[i] /= sum;
    }
    return largest + logf(sum);
}

// Attention is how tokens read each other. Each token asks with its query q, is found by its key k,
// and gives its value v. For each of the A heads, which has D columns of q, k and v:
//
//   p[i, j] = softmax over j of q[i] . k[j] / sqrt(D)       how much token i reads of token j
//   c[i]    = sum over j of p[i, j] v[j]
//
// `p` is [A, T, T], the others are [T, H].
static void attention_forward(float *c, float *p, const float *q, const float *k, const float *v,
                              const struct config *config, int rows) {
    const int hidden = config->hidden, size = hidden / config->heads;
    const float scale = 1 / sqrtf((float)size);
    PARALLEL
    for (int head = 0; head < config->heads; head++) {
        const size_t column = (size_t)head * size;
        for (int i = 0; i < rows; i++) {
            float *row = p + ((size_t)head * rows + i) * rows;
            for (int j = 0; j < rows; j++) {
                row[j] = scale * dot(q + (size_t)i * hidden + column,
                                     k + (size_t)j * hidden + column, size);
            }
            softmax(row, rows);
            for (int j = 0; j < rows; j++) {
                add_scaled(c + (size_t)i * hidden + column, v + (size_t)j * hidden + column, row[j],
                           size);
            }
        }
    }
}

//   dv[j] = sum over i of p[i, j] dc[i]      dp[i, j] = dc[i] . v[j]
//   ds    = p (dp - sum over j of p dp)      the way back through softmax
//   dq[i] = sum over j of ds[i, j] k[j] / sqrt(D)      dk[j] = sum over i of ds[i, j] q[i] /
//   sqrt(D)
static void attention_backward(float *dq, float *dk, float *dv, const float *dc, const float *p,
                               const float *q, const float *k, const float *v,
                               const struct config *config, int rows) {
    const int hidden = config->hidden, size = hidden / config->heads;
    const float scale = 1 / sqrtf((float)size);
    PARALLEL
    for (int head = 0; head < config->heads; head++) {
        const size_t column = (size_t)head * size;
        for (int i = 0; i < rows; i++) {
            const float *row = p + ((size_t)head * rows + i) * rows;
            const size_t at_i = (size_t)i * hidden + column;
            float dp[MOST_TOKENS], sum = 0;
            for (int j = 0; j < rows; j++) {
                const size_t at_j = (size_t)j * hidden + column;
                dp[j] = dot(dc + at_i, v + at_j, size);
                sum += row[j] * dp[j];
                add_scaled(dv + at_j, dc + at_i, row[j], size);
            }
            for (int j = 0; j < rows; j++) {
                const size_t at_j = (size_t)j * hidden + column;
                const float ds = row[j] * (dp[j] - sum) * scale;
                add_scaled(dq + at_i, k + at_j, ds, size);
                add_scaled(dk + at_j, q + at_i, ds, size);
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------
// 5. The encoder
// ------------------------------------------------------------------------------------------------
// What forward computes and backward reads again, for one sequence of T tokens.
struct layer_memory {
    float *x;                       // [T, H] the input of the layer
    float *query, *key, *value, *p; // [T, H] three times, [A, T, T]
    float *context;                 // [T, H] what the tokens read
    struct norm_memory attention_norm;
    float *middle; // [T, H] the output of this norm
    float *u, *g;  // [T, I] before and after gelu
    struct norm_memory output_norm;
};

struct memory {
    struct norm_memory embedding_norm;
    struct layer_memory *layers; // [L]
    float *y, *dy;               // [T, H] the last layer's output
};

static struct norm_memory new_norm_memory(int rows, int columns) {
    return (struct norm_memory){zeros((size_t)rows, columns), zeros((size_t)rows, 1)};
}

// x = LN(word + position + type): which word it is, where it is, and in which text.
static float *embed_forward(const struct model *model, struct memory *memory,
                            const struct example *example) {
    const int hidden = model->config.hidden, rows = example->length;
    float *sum = zeros((size_t)rows, hidden), *x = zeros((size_t)rows, hidden);
    for (int t = 0; t < rows; t++) {
        float *row = sum + (size_t)t * hidden;
        add(row, model->word.rows + (size_t)example->ids[t] * hidden, hidden);
        add(row, model->position.rows + (size_t)t * hidden, hidden);
        add(row, model->type.rows + (size_t)example->types[t] * hidden, hidden);
    }
    memory->embedding_norm = new_norm_memory(rows, hidden);
    norm_forward(x, memory->embedding_norm, sum, &model->embedding_norm, model->config.epsilon,
                 rows);
    return x;
}

// The gradient of a row of a table is the sum over the tokens that read it.
static void embed_backward(const struct model *model, const struct memory *memory,
                           const struct example *example, const float *dx) {
    const int hidden = model->config.hidden, rows = example->length;
    float *dsum = zeros((size_t)rows, hidden);
    norm_backward(dsum, dx, memory->embedding_norm, &model->embedding_norm, rows);
    for (int t = 0; t < rows; t++) {
        const float *row = dsum + (size_t)t * hidden;
        add(model->word.drows + (size_t)example->ids[t] * hidden, row, hidden);
        add(model->position.drows + (size_t)t * hidden, row, hidden);
        add(model->type.drows + (size_t)example->types[t] * hidden, row, hidden);
    }
}

// A layer reads other tokens, then thinks about each token by itself. Both parts are added to what
// came in, so that they have to learn only what changes:
//
//   m = LN(x + c Wa^T + ba),  c = attention(x)
//   y = LN(m + g Wo^T + bo),  g = gelu(m Wi^T + bi)
static float *layer_forward(const struct config *config, const struct layer *layer,
                            struct layer_memory *own, float *x, int rows) {
    const int hidden = config->hidden, inner = config->inner;
    const size_t n = (size_t)rows;
    own->x = x;
    own->query = zeros(n, hidden);
    own->key = zeros(n, hidden);
    own->value = zeros(n, hidden);
    linear_forward(own->query, x, &layer->query, rows);
    linear_forward(own->key, x, &layer->key, rows);
    linear_forward(own->value, x, &layer->value, rows);
    own->p = zeros(n * n, config->heads);
    own->context = zeros(n, hidden);
    attention_forward(own->context, own->p, own->query, own->key, own->value, config, rows);

    float *sum = zeros(n, hidden);
    linear_forward(sum, own->context, &layer->attention_output, rows);
    add(sum, x, rows * hidden);
    own->middle = zeros(n, hidden);
    own->attention_norm = new_norm_memory(rows, hidden);
    norm_forward(own->middle, own->attention_norm, sum, &layer->attention_norm, config->epsilon,
                 rows);

    own->u = zeros(n, inner);
    own->g = zeros(n, inner);
    linear_forward(own->u, own->middle, &layer->inner, rows);
    gelu_forward(own->g, own->u, rows * inner);
    linear_forward(sum, own->g, &layer->output, rows);
    add(sum, own->middle, rows * hidden);
    float *y = zeros(n, hidden);
    own->output_norm = new_norm_memory(rows, hidden);
    norm_forward(y, own->output_norm, sum, &layer->output_norm, config->epsilon, rows);
    return y;
}

// The same lines from the last to the first. What goes into a sum goes on in two ways, so its
// gradient dsum goes back in both: into the sub-layer, and around it.
static float *layer_backward(const struct config *config, const struct layer *layer,
                             const struct layer_memory *own, const float *dy, int rows) {
    const int hidden = config->hidden, inner = config->inner;
    const size_t n = (size_t)rows;
    float *dmiddle = zeros(n, hidden), *dg = zeros(n, inner), *du = zeros(n, inner);
    norm_backward(dmiddle, dy, own->output_norm, &layer->output_norm, rows);
    linear_backward(dg, dmiddle, own->g, &layer->output, rows);
    gelu_backward(du, dg, own->u, rows * inner);
    linear_backward(dmiddle, du, own->middle, &layer->inner, rows);

    float *dx = zeros(n, hidden), *dcontext = zeros(n, hidden);
    norm_backward(dx, dmiddle, own->attention_norm, &layer->attention_norm, rows);
    linear_backward(dcontext, dx, own->context, &layer->attention_output, rows);
    float *dquery = zeros(n, hidden), *dkey = zeros(n, hidden), *dvalue = zeros(n, hidden);
    attention_backward(dquery, dkey, dvalue, dcontext, own->p, own->query, own->key, own->value,
                       config, rows);
    linear_backward(dx, dquery, own->x, &layer->query, rows);
    linear_backward(dx, dkey, own->x, &layer->key, rows);
    linear_backward(dx, dvalue, own->x, &layer->value, rows);
    return dx;
}

static void encode_forward(const struct model *model, struct memory *memory,
                           const struct example *example) {
    const struct config *config = &model->config;
    float *x = embed_forward(model, memory, example);
    for (int i = 0; i < config->layers; i++) {
        x = layer_forward(config, &model->layers[i], &memory->layers[i], x, example->length);
    }
    memory->y = x;
    memory->dy = zeros((size_t)example->length, config->hidden);
}

static void encode_backward(const struct model *model, const struct memory *memory,
                            const struct example *example) {
    const struct config *config = &model->config;
    float *dx = memory->dy;
    for (int i = config->layers - 1; i >= 0; i--) {
        dx = layer_backward(config, &model->layers[i], &memory->layers[i], dx, example->length);
    }
    embed_backward(model, memory, example, dx);
}

// ------------------------------------------------------------------------------------------------
// 6. Losses
// ------------------------------------------------------------------------------------------------
// The loss of a guess is -log(probability of what is right): 0 if the model is sure of it, large if
// it is sure of something else. This replaces the scores x by the gradient of the loss times
// `weight`, which is weight (probability - 1) for what is right and weight probability for the
// rest.
static float cross_entropy(float *x, int right, int count, float weight) {
    const float score = x[right], loss = softmax(x, count) - score;
    x[right] -= 1;
    for (int i = 0; i < count; i++) {
        x[i] *= weight;
    }
    return loss;
}

// Masked words: with y the rows of the M masked tokens and E the table of words,
//
//   h = LN(g),  g = gelu(u),  u = y Wt^T + bt      scores = h E^T + b  [M, V]
//
// Adds to memory->dy and returns the sum of the losses.
static float masked_words(const struct model *model, const struct memory *memory,
                          const struct example *example, float weight) {
    const int hidden = model->config.hidden, words = model->config.words;
    int places[MOST_TOKENS], rows = 0;
    for (int t = 0; t < example->length; t++) {
        if (example->labels[t] >= 0) {
            places[rows++] = t;
        }
    }
    const size_t n = (size_t)rows;
    float *y = zeros(n, hidden), *u = zeros(n, hidden), *g = zeros(n, hidden);
    float *h = zeros(n, hidden), *scores = zeros(n, words);
    const struct norm_memory norm = new_norm_memory(rows, hidden);
    for (int r = 0; r < rows; r++) {
        add(y + (size_t)r * hidden, memory->y + (size_t)places[r] * hidden, hidden);
    }
    linear_forward(u, y, &model->transform, rows);
    gelu_forward(g, u, rows * hidden);
    norm_forward(h, norm, g, &model->transform_norm, model->config.epsilon, rows);
    linear_forward(scores, h, &model->decoder, rows);

    float loss = 0;
    for (int r = 0; r < rows; r++) {
        loss +=
            cross_entropy(scores + (size_t)r * words, example->labels[places[r]], words, weight);
    }
    float *dy = zeros(n, hidden), *du = zeros(n, hidden), *dg = zeros(n, hidden);
    float *dh = zeros(n, hidden);
    linear_backward(dh, scores, h, &model->decoder, rows);
    norm_backward(dg, dh, norm, &model->transform_norm, rows);
    gelu_backward(du, dg, u, rows * hidden);
    linear_backward(dy, du, y, &model->transform, rows);
    for (int r = 0; r < rows; r++) {
        add(memory->dy + (size_t)places[r] * hidden, dy + (size_t)r * hidden, hidden);
    }
    return loss;
}

// Whether the second text follows the first, from y of [CLS], the first token:
//
//   t = tanh(y Wp^T + bp)      scores = t Wn^T + bn  [2]
static float next_sentence(const struct model *model, const struct memory *memory,
                           const struct example *example, float weight) {
    const int hidden = model->config.hidden;
    float scores[2], *t = zeros(1, hidden), *dt = zeros(1, hidden);
    linear_forward(t, memory->y, &model->pooler, 1);
    for (int i = 0; i < hidden; i++) {
        t[i] = tanhf(t[i]);
    }
    linear_forward(scores, t, &model->next, 1);
    const float loss = cross_entropy(scores, example->next, 2, weight);
    linear_backward(dt, scores, t, &model->next, 1);
    for (int i = 0; i < hidden; i++) {
        dt[i] *= 1 - t[i] * t[i]; // tanh' = 1 - tanh^2
    }
    linear_backward(memory->dy, dt, memory->y, &model->pooler, 1);
    return loss;
}

// Computes the gradient of a batch and returns its loss: the mean over its masked words plus the
// mean over its pairs of texts.
static float batch_gradient(const struct model *model, struct memory *memory,
                            const struct example *examples, int count) {
    int words = 0, pairs = 0;
    for (int i = 0; i < count; i++) {
        pairs += model->has_next && examples[i].next >= 0;
        for (int t = 0; t < examples[i].length; t++) {
            words += examples[i].labels[t] >= 0;
        }
    }
    const float word_weight = words > 0 ? 1 / (float)words : 0;
    const float pair_weight = pairs > 0 ? 1 / (float)pairs : 0;
    float loss = 0;
    memset(model->gradients, 0, model->count * sizeof(float));
    for (int i = 0; i < count; i++) {
        encode_forward(model, memory, &examples[i]);
        loss += word_weight * masked_words(model, memory, &examples[i], word_weight);
        if (model->has_next && examples[i].next >= 0) {
            loss += pair_weight * next_sentence(model, memory, &examples[i], pair_weight);
        }
        encode_backward(model, memory, &examples[i]);
        free_matrices();
    }
    return loss;
}

// ------------------------------------------------------------------------------------------------
// 7. The optimizer
// ------------------------------------------------------------------------------------------------
// AdamW. Each number p has its own two memories of its gradient g: m, a mean of the last ten or so,
// and v, a mean of the squares of the last thousand or so. Both begin at 0 and would be too small
// at first, which the division by 1 - beta^t corrects at update t = 1, 2, ...:
//
//   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
//   p = p - rate ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay p)
//
// So p moves by about `rate`, whatever the size of its gradient, and less where the gradient's sign
// changes. Before, a gradient longer than 1 is cut to the length 1, so that one strange batch
// cannot throw the model far away. Returns that length.
static double update_weights(struct model *model, float rate, int t) {
    const double beta1 = 0.9, beta2 = 0.999;
    const float keep1 = (float)beta1, take1 = (float)(1 - beta1);
    const float keep2 = (float)beta2, take2 = (float)(1 - beta2);
    const float correct1 = (float)(1 / (1 - pow(beta1, t)));
    const float correct2 = (float)(1 / (1 - pow(beta2, t)));
    const float epsilon = 1e-8f, decay = 0.01f;
    double squares = 0; // of up to hundreds of millions of numbers, too many for a sum in float
    for (size_t i = 0; i < model->count; i++) {
        squares += (double)model->gradients[i] * model->gradients[i];
    }
    const double length = sqrt(squares);
    const float factor = (float)fmin(1, 1 / (length + 1e-6));
    for (size_t i = 0; i < model->tensor_count; i++) {
        const struct tensor *tensor = &model->tensors[i];
        const float own_decay = tensor->decays ? decay : 0;
        const size_t end = tensor->offset + tensor->rows * tensor->columns;
        for (size_t j = tensor->offset; j < end; j++) {
            const float g = factor * model->gradients[j];
            float *p = &model->weights[j], *m = &model->first[j], *v = &model->second[j];
            *m = keep1 * *m + take1 * g;
            *v = keep2 * *v + take2 * g * g;
            *p -= rate * (*m * correct1 / (sqrtf(*v * correct2) + epsilon) + own_decay * *p);
        }
    }
    return length;
}

// The rate grows from 0 in the first tenth of the updates, because m and v know nothing yet, and
// then falls to 0, because small steps are needed at the end.
static float rate_of(float peak, int update, int updates) {
    const float done = (float)update / (float)updates;
    return peak * (done < 0.1f ? done / 0.1f : (1 - done) / 0.9f);
}

// ------------------------------------------------------------------------------------------------
// 8. The program
// ------------------------------------------------------------------------------------------------

// Takes an option and its value out of the arguments. NULL: it is not among them.
static const char *take_option(char **argv, const char *name) {
    const char *value = NULL;
    for (int i = 1; argv[i] != NULL;) {
        if (strcmp(argv[i], name) != 0) {
            i++;
            continue;
        }
        value = argv[i + 1];
        if (value == NULL) {
            fail("%s needs a value", name);
        }
        for (int j = i; (argv[j] = argv[j + 2]) != NULL; j++) {
        }
    }
    return value;
}

static double take_number(char **argv, const char *name, double standard, double most) {
    const char *text = take_option(argv, name);
    char *end;
    const double number = text != NULL ? strtod(text, &end) : standard;
    if (text != NULL && (end == text || *end != '\0' || !(number > 0 && number <= most))) {
        fail("%s is \"%s\", expected a number above 0, at most %g", name, text, most);
    }
    return number;
}

struct run {
    int updates, batch;
    float rate;
};

// Trains on the given examples, or if there are none on examples drawn from the text.
static void train(struct model *model, struct memory *memory, const struct given *given,
                  const struct vocabulary *vocabulary, const struct ids *text,
                  const struct run *run) {
    struct example *drawn = allocate((size_t)run->batch, sizeof *drawn);
    model->first = allocate(model->count, sizeof(float));
    model->second = allocate(model->count, sizeof(float));
    int next = 0; // given example
    for (int update = 0; update < run->updates; update++) {
        const struct example *examples = given->count > 0 ? &given->examples[next] : drawn;
        int count = 0;
        for (; next < given->count && given->examples[next].update == update; next++) {
            count++;
        }
        for (; given->count == 0 && count < run->batch; count++) {
            draw_example(&drawn[count], model, vocabulary, text);
        }
        const float rate = rate_of(run->rate, update, run->updates);
        const float loss = batch_gradient(model, memory, examples, count);
        const double length = update_weights(model, rate, update + 1);
        printf("update %d/%d  loss %.7f  gradient %.5f  rate %.3g\n", update + 1, run->updates,
               (double)loss, length, (double)rate);
        fflush(stdout);
    }
    free(drawn);
}

static void print_vector(const struct model *model, struct memory *memory,
                         const struct vocabulary *vocabulary, const char *text) {
    static struct example example;
    struct ids ids = {0};
    tokenize(vocabulary, text, "the text", &ids);
    add_token(&example, vocabulary->cls, 0, -1);
    for (size_t i = 0; i < ids.count && example.length < model->config.longest - 1; i++) {
        add_token(&example, ids.items[i], 0, -1);
    }
    add_token(&example, vocabulary->sep, 0, -1);
    encode_forward(model, memory, &example);
    for (int i = 0; i < model->config.hidden; i++) {
        printf("%.9g\n", (double)memory->y[i]);
    }
    free_matrices();
    free(ids.items);
}

int main(int argc, char **argv) {
    static struct model model;
    static struct memory memory;
    static struct vocabulary vocabulary;
    static struct given given;
    static struct ids text;
    const char *ids = take_option(argv, "--ids"), *vector = take_option(argv, "--vector");
    const char *save = take_option(argv, "--save");
    struct run run = {.updates = (int)take_number(argv, "--updates", 100, 1e9),
                      .batch = (int)take_number(argv, "--batch", 16, 1e5),
                      .rate = (float)take_number(argv, "--rate", 1e-4, 1)};
    random_state = (uint64_t)take_number(argv, "--seed", 42, 1e15);
    if (argc < 3 || argv[1] == NULL || (ids != NULL) + (vector != NULL) + (argv[2] != NULL) != 1) {
        fail("expected a model folder, and either files of text, --ids FILE or --vector TEXT");
    }
    read_model(&model, argv[1]);
    memory.layers = allocate((size_t)model.config.layers, sizeof *memory.layers);
    if (ids == NULL) {
        read_vocabulary(&vocabulary, argv[1], model.config.words);
    }
    if (vector != NULL) {
        print_vector(&model, &memory, &vocabulary, vector);
        return 0;
    }
    if (!model.has_words) {
        fail("%s: has no head for masked words (cls.predictions); `berth pretrain` makes one",
             model.file.name);
    }
    if (ids != NULL) {
        read_examples(&given, ids, &model.config);
        run.updates = given.examples[given.count - 1].update + 1;
    }
    for (int i = 2; argv[i] != NULL; i++) {
        struct file file = read_file("", argv[i]);
        tokenize(&vocabulary, file.bytes, file.name, &text);
        free(file.bytes);
    }
    train(&model, &memory, &given, &vocabulary, &text, &run);
    if (save != NULL) {
        save_model(&model, save);
    }
    return 0;
}
