// SPDX-License-Identifier: Apache-2.0
// BERT in one file: it reads a model, makes numbers of text, computes the loss and its gradient,
// and trains. It needs the C library and nothing of Berth, and computes what `berth pretrain`
// computes in fp32: tests/cli/small_bert.py compares both. What Berth adds is speed,
// formats, and care for what may go wrong.
//
// The file is in the order of the computation, to be read from the first line to the last:
//
//   1. files        bytes, and the sizes of a model
//   2. parameters   the names of the weights, and where they are
//   3. text         pieces of words, and the examples that a model is trained on
//   4. operations   each one forward, then backward
//   5. the encoder  the operations in their order, and back
//   6. losses       masked words and next sentences
//   7. optimizer    AdamW
//   8. the program
//
//   cc -O3 -march=native -fopenmp small_bert.c -lm -o small_bert
//   small_bert MODEL [--updates N] [--batch N] [--rate X] [--seed N] [--save FILE] TEXT...
//   small_bert MODEL [--rate X] [--save FILE] --ids FILE
//   small_bert MODEL --vector "a text"
//
// MODEL is a folder with config.json, model.safetensors and vocab.txt. This makes one with random
// weights, of 2 layers and 128 columns:
//
//   berth pretrain --objective mlm --config tiny --vocab vocab.txt --train text.txt
//         --line_by_line --max_steps 1 --output model
//
// TEXT is a file to train on. --save writes the trained weights; in place of the folder's
// model.safetensors they are a model that Berth runs. --ids trains on numbers (section 3 has their
// form). --vector prints the vector of a text: the last layer's row of [CLS].
//
// There is no dropout: where the published BERT sets a part of the numbers to 0 by chance during
// training, this program keeps all. There is no padding either, because it takes one sequence after
// the other: the gradient of a batch is the sum of the gradients of its sequences.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// With OpenMP the loops over outputs, rows and heads are divided among the cores. A number is
// computed by one core, so that the result does not depend on how many there are.
#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for")
#define SUM_IN_ANY_ORDER _Pragma("omp simd reduction(+ : sum)")
#else
#define PARALLEL
#define SUM_IN_ANY_ORDER
#endif

// --- 1. Files ------------------------------------------------------------------------------------

// Ends the program with the message unless the condition holds.
static void need(int condition, const char *message, ...) {
    if (!condition) {
        va_list values;
        va_start(values, message);
        fputs("small_bert: ", stderr);
        vfprintf(stderr, message, values);
        fputc('\n', stderr);
        va_end(values);
        exit(1);
    }
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count > 0 ? count : 1, size);
    need(memory != NULL, "no memory for %zu numbers of %zu bytes", count, size);
    return memory;
}

struct file {
    char name[1024];
    char *bytes; // `size` bytes and a NUL
    size_t size;
};

// Reads FOLDER/NAME. A file that is not needed and not there is empty.
static struct file read_file(const char *folder, const char *name, int is_needed) {
    struct file file = {.size = 0};
    size_t room = 0;
    snprintf(file.name, sizeof file.name, "%s%s%s", folder, *folder != '\0' ? "/" : "", name);
    FILE *stream = fopen(file.name, "rb");
    need(stream != NULL || !is_needed, "%s: %s", file.name, strerror(errno));
    do {
        room = 2 * room + 65536;
        file.bytes = realloc(file.bytes, room);
        need(file.bytes != NULL, "%s: no memory for %zu bytes", file.name, room);
        if (stream != NULL) {
            file.size += fread(file.bytes + file.size, 1, room - file.size - 1, stream);
        }
    } while (file.size == room - 1);
    need(stream == NULL || !ferror(stream), "%s: %s", file.name, strerror(errno));
    if (stream != NULL) {
        fclose(stream);
    }
    file.bytes[file.size] = '\0';
    return file;
}

// What follows "key": in a JSON text; NULL: the key is not there. In the files of a model each key
// has one meaning, so this need not know what is within what.
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
    need(value != NULL, "%s: \"%s\" is missing; every BERT has it", config->name, key);
    char *end;
    const double number = strtod(value, &end);
    need(end != value && number >= least && number <= most,
         "%s: \"%s\" is %.*s, expected a number from %g to %g", config->name, key,
         (int)strcspn(value, ",}\n"), value, least, most);
    return number;
}

static size_t config_size(const struct file *config, const char *key) {
    return (size_t)config_number(config, key, 1, 1 << 24);
}

static void config_only(const struct file *config, const char *key, const char *known) {
    const char *value = find_key(config->bytes, key);
    need(value == NULL || begins(value, known),
         "%s: \"%s\" is %.*s; this program computes only %s, Berth more", config->name, key,
         value != NULL ? (int)strcspn(value, ",}\n") : 0, value, known);
}

// The sizes of a model. The comments below use the letters.
struct config {
    size_t words;     // V
    size_t positions; // P: tokens of the longest sequence
    size_t types;     // 2: first and second text
    size_t hidden;    // H: numbers of a token between layers
    size_t inner;     // I: numbers of a token within a layer
    size_t layers;    // L
    size_t heads;     // A, of D = H / A numbers
    float epsilon;    // of layer norms
};

static struct config read_config(const char *folder) {
    const struct file file = read_file(folder, "config.json", 1);
    const struct config config = {
        .words = config_size(&file, "vocab_size"),
        .positions = config_size(&file, "max_position_embeddings"),
        .types = config_size(&file, "type_vocab_size"),
        .hidden = config_size(&file, "hidden_size"),
        .inner = config_size(&file, "intermediate_size"),
        .layers = (size_t)config_number(&file, "num_hidden_layers", 1, 1000),
        .heads = config_size(&file, "num_attention_heads"),
        .epsilon = (float)config_number(&file, "layer_norm_eps", 0, 1),
    };
    config_only(&file, "model_type", "\"bert\"");
    config_only(&file, "hidden_act", "\"gelu\"");
    config_only(&file, "position_embedding_type", "\"absolute\"");
    config_only(&file, "pre_layer_norm", "false");
    need(config.hidden % config.heads == 0,
         "%s: \"hidden_size\" is %zu, expected a multiple of \"num_attention_heads\", %zu",
         file.name, config.hidden, config.heads);
    free(file.bytes);
    return config;
}

// --- 2. Parameters -------------------------------------------------------------------------------

// A matrix and its gradient. The gradient says of each number how much the loss grows when the
// number does: training moves every number the other way. A vector is a matrix of one row.
struct matrix {
    float *value, *gradient; // [rows, columns], one row after the other
    size_t rows, columns;
};

struct linear {                 // y = x W^T + b
    struct matrix weight, bias; // [outputs, inputs], [outputs]
};

struct norm {
    struct matrix gamma, beta; // [H]
};

struct layer {
    struct linear query, key, value, attention_output, inner, output;
    struct norm attention_norm, output_norm;
};

// All weights are in one buffer, and so are their gradients and the two moments of the optimizer,
// in the same order. So the optimizer is a loop, and each parameter is a slice of the buffers.
struct slice {
    char name[96];
    struct matrix *matrix;
    size_t offset;
    char *file_bytes; // where it is in the file
};

struct model {
    struct config config;
    struct matrix word, position, type; // a row for each
    struct norm embedding_norm;
    struct layer *layers;             // [L]
    int has_words, has_next;          // whether the folder has these heads:
    struct linear transform, decoder; // masked words
    struct norm transform_norm;
    struct linear pooler, next; // next sentences

    struct slice *slices;
    size_t slice_count;
    size_t count;                                // of all numbers
    float *weights, *gradients, *first, *second; // [count]
    struct file file;                            // model.safetensors
};

// A name that begins with "." is of the layer with this number.
static void add_slice(struct model *model, size_t layer, const char *name, const char *end,
                      size_t rows, size_t columns, struct matrix *matrix) {
    struct slice *slice = &model->slices[model->slice_count++];
    char of_layer[48] = "";
    if (*name == '.') {
        snprintf(of_layer, sizeof of_layer, "bert.encoder.layer.%zu", layer);
    }
    snprintf(slice->name, sizeof slice->name, "%s%s%s", of_layer, name, end);
    slice->matrix = matrix;
    slice->offset = model->count;
    matrix->rows = rows;
    matrix->columns = columns;
    model->count += rows * columns;
}

static void add_linear(struct model *model, struct linear *linear, size_t layer, const char *name,
                       size_t inputs, size_t outputs) {
    add_slice(model, layer, name, ".weight", outputs, inputs, &linear->weight);
    add_slice(model, layer, name, ".bias", 1, outputs, &linear->bias);
}

static void add_norm(struct model *model, struct norm *norm, size_t layer, const char *name) {
    add_slice(model, layer, name, ".weight", 1, model->config.hidden, &norm->gamma);
    add_slice(model, layer, name, ".bias", 1, model->config.hidden, &norm->beta);
}

static void add_parameters(struct model *model) {
    const struct config *config = &model->config;
    const size_t hidden = config->hidden, inner = config->inner;
    model->slices = allocate(32 + 16 * config->layers, sizeof *model->slices);
    model->layers = allocate(config->layers, sizeof *model->layers);
    add_slice(model, 0, "bert.embeddings.word_embeddings", ".weight", config->words, hidden,
              &model->word);
    add_slice(model, 0, "bert.embeddings.position_embeddings", ".weight", config->positions, hidden,
              &model->position);
    add_slice(model, 0, "bert.embeddings.token_type_embeddings", ".weight", config->types, hidden,
              &model->type);
    add_norm(model, &model->embedding_norm, 0, "bert.embeddings.LayerNorm");
    for (size_t i = 0; i < config->layers; i++) {
        struct layer *layer = &model->layers[i];
        add_linear(model, &layer->query, i, ".attention.self.query", hidden, hidden);
        add_linear(model, &layer->key, i, ".attention.self.key", hidden, hidden);
        add_linear(model, &layer->value, i, ".attention.self.value", hidden, hidden);
        add_linear(model, &layer->attention_output, i, ".attention.output.dense", hidden, hidden);
        add_norm(model, &layer->attention_norm, i, ".attention.output.LayerNorm");
        add_linear(model, &layer->inner, i, ".intermediate.dense", hidden, inner);
        add_linear(model, &layer->output, i, ".output.dense", inner, hidden);
        add_norm(model, &layer->output_norm, i, ".output.LayerNorm");
    }
    if (model->has_words) {
        add_linear(model, &model->transform, 0, "cls.predictions.transform.dense", hidden, hidden);
        add_norm(model, &model->transform_norm, 0, "cls.predictions.transform.LayerNorm");
        add_slice(model, 0, "cls.predictions", ".bias", 1, config->words, &model->decoder.bias);
    }
    if (model->has_next) {
        add_linear(model, &model->pooler, 0, "bert.pooler.dense", hidden, hidden);
        add_linear(model, &model->next, 0, "cls.seq_relationship", hidden, 2);
    }
}

// A safetensors file is
//
//   8 bytes    the length N of the header, the lowest byte first
//   N bytes    {"name": {"dtype": "F32", "shape": [30522, 768], "data_offsets": [0, 93763584]}, ...
//   the rest   the numbers of each tensor, between its two offsets from here, in the byte order of
//              nearly all processors

// The first BERTs call the weight of a norm gamma and its bias beta; a file of an encoder without
// heads leaves out "bert.".
static const char *find_entry(const char *header, const char *name) {
    const char *entry = find_key(header, name), *norm = strstr(name, "LayerNorm.");
    if (entry == NULL && norm != NULL) {
        char old[96];
        snprintf(old, sizeof old, "%.*s%s", (int)(norm + 10 - name), name,
                 begins(norm + 10, "weight") ? "gamma" : "beta");
        entry = find_key(header, old);
    }
    return entry == NULL && begins(name, "bert.") ? find_entry(header, name + 5) : entry;
}

// Finds the tensor in the file and compares its type, shape and place with what the model needs.
static void find_tensor(const struct file *file, struct slice *slice, const char *header,
                        size_t data) {
    const size_t rows = slice->matrix->rows, columns = slice->matrix->columns;
    const char *entry = find_entry(header, slice->name);
    need(entry != NULL, "%s: the tensor %s is missing; by config.json the model has it", file->name,
         slice->name);
    const char *type = find_key(entry, "dtype"), *shape = find_key(entry, "shape");
    const char *place = find_key(entry, "data_offsets");
    need(begins(type, "\"F32\"") && shape != NULL && place != NULL,
         "%s: the tensor %s has the type %.6s, expected \"F32\"; Berth reads other types",
         file->name, slice->name, type != NULL ? type : "?");
    size_t sizes[3] = {0}, begin = 0, end = 0;
    const int rank = sscanf(shape, "[ %zu , %zu , %zu", &sizes[0], &sizes[1], &sizes[2]);
    const int is_vector = rank == 1 && rows == 1 && sizes[0] == columns;
    need(is_vector || (rank == 2 && sizes[0] == rows && sizes[1] == columns),
         "%s: the tensor %s has the shape %.*s], expected [%zu, %zu] by config.json", file->name,
         slice->name, (int)strcspn(shape, "]"), shape, rows, columns);
    need(sscanf(place, "[ %zu , %zu", &begin, &end) == 2 && begin <= end &&
             end <= file->size - data && end - begin == rows * columns * sizeof(float),
         "%s: the tensor %s is not within the file; was the file copied to its end?", file->name,
         slice->name);
    slice->file_bytes = file->bytes + data + begin;
}

static size_t slice_bytes(const struct slice *slice) {
    return slice->matrix->rows * slice->matrix->columns * sizeof(float);
}

static void read_model(struct model *model, const char *folder) {
    model->config = read_config(folder);
    model->file = read_file(folder, "model.safetensors", 1);
    const struct file *file = &model->file;
    uint64_t length = 0;
    for (size_t i = 0; i < 8 && file->size >= 8; i++) {
        length |= (uint64_t)(unsigned char)file->bytes[i] << 8 * i;
    }
    need(length > 0 && length <= file->size - 8,
         "%s: is no safetensors file, or was not copied to its end", file->name);
    char *header = allocate(length + 1, 1);
    memcpy(header, file->bytes + 8, length);
    model->has_words = find_key(header, "cls.predictions.bias") != NULL;
    model->has_next = find_key(header, "cls.seq_relationship.weight") != NULL;
    need(find_key(header, "cls.predictions.decoder.weight") == NULL,
         "%s: the decoder has a matrix of its own; in this program it has the table of words",
         file->name);
    add_parameters(model);
    for (size_t i = 0; i < model->slice_count; i++) {
        find_tensor(file, &model->slices[i], header, 8 + length);
    }
    free(header);

    model->weights = allocate(model->count, sizeof(float));
    model->gradients = allocate(model->count, sizeof(float));
    for (size_t i = 0; i < model->slice_count; i++) {
        const struct slice *slice = &model->slices[i];
        slice->matrix->value = model->weights + slice->offset;
        slice->matrix->gradient = model->gradients + slice->offset;
        memcpy(slice->matrix->value, slice->file_bytes, slice_bytes(slice));
    }
    // The decoder finds the word of a vector with the table that has the vector of each word. It
    // has no matrix of its own, and the table gets gradients from both uses.
    model->decoder.weight = model->word;
}

// Writes the file that was read, with the trained numbers in their places.
static void save_model(const struct model *model, const char *path) {
    const struct file *file = &model->file;
    for (size_t i = 0; i < model->slice_count; i++) {
        const struct slice *slice = &model->slices[i];
        memcpy(slice->file_bytes, slice->matrix->value, slice_bytes(slice));
    }
    FILE *stream = fopen(path, "wb");
    need(stream != NULL && fwrite(file->bytes, 1, file->size, stream) == file->size &&
             fclose(stream) == 0,
         "%s: %s", path, strerror(errno));
}

// --- 3. Text -------------------------------------------------------------------------------------

// A model reads numbers. vocab.txt has a piece of a word a line, and the number of the line, from
// 0, is the piece's id. "Berth floats." becomes the ids of
//
//   [CLS] bert ##h floats . [SEP]      where ## continues a word

struct word {
    const char *text;
    int id;
};

struct vocabulary {
    struct file file;
    struct word *words; // sorted by their text
    size_t count;
    int lower_case, unknown, cls, sep, mask;
};

static int compare_words(const void *a, const void *b) {
    return strcmp(((const struct word *)a)->text, ((const struct word *)b)->text);
}

// The id of a piece; -1: it is not in the vocabulary.
static int find_word(const struct vocabulary *vocabulary, const char *text) {
    const struct word key = {text, 0};
    const struct word *found =
        bsearch(&key, vocabulary->words, vocabulary->count, sizeof key, compare_words);
    return found != NULL ? found->id : -1;
}

static int need_word(const struct vocabulary *vocabulary, const char *text) {
    const int id = find_word(vocabulary, text);
    need(id >= 0, "%s: %s is missing; the vocabulary of a BERT has it", vocabulary->file.name,
         text);
    return id;
}

static char *next_line(char *line) {
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

static size_t line_count(char *text) {
    size_t count = 0;
    for (; *text != '\0'; text = next_line(text)) {
        count++;
    }
    return count;
}

static void read_vocabulary(struct vocabulary *vocabulary, const char *folder, size_t words) {
    const struct file settings = read_file(folder, "tokenizer_config.json", 0);
    struct file *file = &vocabulary->file;
    *file = read_file(folder, "vocab.txt", 1);
    vocabulary->count = line_count(file->bytes);
    need(vocabulary->count <= words, "%s: has %zu lines, but \"vocab_size\" of config.json is %zu",
         file->name, vocabulary->count, words);
    vocabulary->words = allocate(vocabulary->count, sizeof *vocabulary->words);
    char *line = file->bytes;
    for (size_t id = 0; id < vocabulary->count; id++) {
        char *next = next_line(line);
        line[strcspn(line, " \t\r\n")] = '\0';
        vocabulary->words[id] = (struct word){line, (int)id};
        line = next;
    }
    qsort(vocabulary->words, vocabulary->count, sizeof *vocabulary->words, compare_words);
    vocabulary->unknown = need_word(vocabulary, "[UNK]");
    vocabulary->cls = need_word(vocabulary, "[CLS]");
    vocabulary->sep = need_word(vocabulary, "[SEP]");
    vocabulary->mask = need_word(vocabulary, "[MASK]");
    vocabulary->lower_case = !begins(find_key(settings.bytes, "do_lower_case"), "false");
    free(settings.bytes);
}

struct ids {
    int *items;
    size_t count, room;
};

static void add_id(struct ids *ids, int id) {
    if (ids->count == ids->room) {
        ids->room = 2 * ids->room + 64;
        ids->items = realloc(ids->items, ids->room * sizeof *ids->items);
        need(ids->items != NULL, "no memory for %zu tokens", ids->room);
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
        int id = -1, end = length + 1;
        while (id < 0 && --end > begin) {
            char piece[LONGEST_WORD + 3];
            snprintf(piece, sizeof piece, "%s%.*s", begin > 0 ? "##" : "", end - begin,
                     word + begin);
            id = find_word(vocabulary, piece);
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
// count. (Berth takes [MASK] and the like in a text for tokens; here they are ordinary text.)
static void tokenize(const struct vocabulary *vocabulary, const char *text, const char *name,
                     struct ids *ids) {
    char word[LONGEST_WORD];
    int length = 0; // of the word so far, also beyond LONGEST_WORD
    for (const char *s = text;; s++) {
        const int c = (unsigned char)*s, is_mark = ispunct(c);
        const int shown = s - text < 20 ? (int)(s - text) : 20;
        need(c < 0x80,
             "%s: the byte 0x%02X after \"%.*s\" is not ASCII; this program reads plain English, "
             "Berth every language",
             name, (unsigned)c, shown, s - shown);
        if (length > 0 && (is_mark || strchr(" \t\r\n", c) != NULL)) { // which finds the NUL, too
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

enum { MOST_TOKENS = 512 };

// What a model is trained on: a text, or two, some of whose words are hidden.
struct example {
    size_t length;           // T
    int ids[MOST_TOKENS];    // what the model sees
    int types[MOST_TOKENS];  // 0: first text, 1: second text
    int labels[MOST_TOKENS]; // the word that is to be predicted here; -1: none is
    int next;                // 0: the second text follows the first, 1: it does not, -1: unknown
    int update;              // which is made with it, from 0
};

static size_t longest_sequence(const struct model *model) {
    return model->config.positions < MOST_TOKENS ? model->config.positions : MOST_TOKENS;
}

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
        const int any = (int)random_below(vocabulary->count);
        const int seen = chance < 120 ? vocabulary->mask : chance < 135 ? any : ids[i];
        add_token(example, seen, type, chance < 150 ? ids[i] : -1);
    }
    add_token(example, vocabulary->sep, type, -1);
}

enum { DRAWN_TOKENS = 128 };

// [CLS] first [SEP] second [SEP]: the first text is a run of tokens from anywhere; the second is
// the run behind it or, in half of the examples, one from anywhere. A model that does not predict
// next sentences gets a first text alone.
static void draw_example(struct example *example, const struct model *model,
                         const struct vocabulary *vocabulary, const struct ids *text) {
    const size_t most = longest_sequence(model);
    const size_t room = most < DRAWN_TOKENS ? most : DRAWN_TOKENS;
    const size_t count = room < 5 ? 1 : model->has_next ? (room - 3) / 2 : room - 2;
    need(room >= 5 && text->count >= 2 * count,
         "the text has %zu tokens, expected %zu or more; the model takes %zu, expected 5 or more",
         text->count, 2 * count, most);
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
    size_t count, line;
};

static int read_number(const struct given *given, char **s, size_t below) {
    char *begin = *s;
    const long number = isdigit((unsigned char)*begin) ? strtol(begin, s, 10) : -1;
    need(number >= 0 && number < (long)below,
         "%s, line %zu: expected a number from 0 to %zu, found \"%.*s\"", given->file.name,
         given->line, below - 1, (int)strcspn(begin, "\n"), begin);
    return (int)number;
}

static void read_example(const struct given *given, struct example *example, char *s,
                         const struct model *model) {
    const size_t words = model->config.words, most = longest_sequence(model);
    int type = 0;
    s += strspn(s, " \r");
    example->next = *s == '-' ? -1 : read_number(given, &s, 2);
    s += example->next < 0;
    need(strchr(" \r\n", *s) != NULL, "%s, line %zu: expected a blank after the first word",
         given->file.name, given->line);
    while (*(s += strspn(s, " \r")) != '\n' && *s != '\0') {
        if (*s == '|') {
            s++;
            type = model->config.types > 1;
            continue;
        }
        const int id = read_number(given, &s, words), has_label = *s == '=';
        s += has_label;
        need(example->length < most, "%s, line %zu: expected at most %zu tokens", given->file.name,
             given->line, most);
        add_token(example, id, type, has_label ? read_number(given, &s, words) : -1);
    }
    need(example->length > 0, "%s, line %zu: expected tokens", given->file.name, given->line);
}

static void read_examples(struct given *given, const char *path, const struct model *model) {
    given->file = read_file("", path, 1);
    given->examples = allocate(line_count(given->file.bytes), sizeof *given->examples);
    int update = 0, is_new = 1;
    for (char *s = given->file.bytes; *s != '\0'; s = next_line(s)) {
        given->line++;
        if (strchr("\n", s[strspn(s, " \r")]) != NULL) { // which finds the NUL, too
            update += !is_new;
            is_new = 1;
        } else {
            is_new = 0;
            given->examples[given->count].update = update;
            read_example(given, &given->examples[given->count++], s, model);
        }
    }
    need(given->count > 0, "%s: has no examples", given->file.name);
}

// --- 4. Operations -------------------------------------------------------------------------------

// Each operation has a function forward, which makes a matrix of others, and a function backward,
// which takes that matrix's gradient and *adds* to the gradients of the others: what is read in
// several places gets a gradient from each. In the formulas, dx is the gradient of x.
//
// A row is a token. A new matrix is full of zeros, and lives until the sequence is done.

enum { MOST_MATRICES = 1 << 16 };
static float *used[MOST_MATRICES];
static size_t used_count;

static struct matrix new_matrix(size_t rows, size_t columns) {
    need(used_count < MOST_MATRICES, "no room for more matrices");
    float *numbers = used[used_count++] = allocate(2 * rows * columns, sizeof(float));
    return (struct matrix){numbers, numbers + rows * columns, rows, columns};
}

static void free_matrices(void) {
    while (used_count > 0) {
        free(used[--used_count]);
    }
}

static void add(float *to, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] += x[i];
    }
}

static void add_scaled(float *to, const float *x, float factor, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] += factor * x[i];
    }
}

static float dot(const float *a, const float *b, size_t count) {
    float sum = 0;
    SUM_IN_ANY_ORDER
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

// y = y + x, and the way back: what goes into a sum gets the gradient of the sum.
static void add_forward(struct matrix y, struct matrix x) {
    add(y.value, x.value, y.rows * y.columns);
}

static void add_backward(struct matrix y, struct matrix x) {
    add(x.gradient, y.gradient, y.rows * y.columns);
}

// y = x W^T + b: each output is a weighted sum of all inputs. Nearly all of the time goes here.
static struct matrix linear_forward(struct matrix x, const struct linear *linear) {
    const size_t inputs = linear->weight.columns, outputs = linear->weight.rows;
    struct matrix y = new_matrix(x.rows, outputs);
    PARALLEL
    for (size_t o = 0; o < outputs; o++) {
        const float *weight = linear->weight.value + o * inputs;
        for (size_t r = 0; r < x.rows; r++) {
            y.value[r * outputs + o] =
                linear->bias.value[o] + dot(x.value + r * inputs, weight, inputs);
        }
    }
    return y;
}

//   dW = dy^T x      db = sum of the rows of dy      dx = dy W
static void linear_backward(struct matrix y, struct matrix x, const struct linear *linear) {
    const size_t inputs = linear->weight.columns, outputs = linear->weight.rows;
    PARALLEL
    for (size_t o = 0; o < outputs; o++) {
        for (size_t r = 0; r < x.rows; r++) {
            const float dy = y.gradient[r * outputs + o];
            linear->bias.gradient[o] += dy;
            add_scaled(linear->weight.gradient + o * inputs, x.value + r * inputs, dy, inputs);
        }
    }
    PARALLEL
    for (size_t r = 0; r < x.rows; r++) {
        for (size_t o = 0; o < outputs; o++) {
            add_scaled(x.gradient + r * inputs, linear->weight.value + o * inputs,
                       y.gradient[r * outputs + o], inputs);
        }
    }
}

// Layer norm brings each row to mean 0 and variance 1, then lets the model scale and shift columns:
//
//   xhat = (x - mean) rstd,  rstd = 1 / sqrt(variance + epsilon)
//   y    = gamma xhat + beta
//
// This computes a row of xhat and returns rstd.
static float standardize(float *xhat, const float *x, size_t size, float epsilon) {
    float mean = 0, variance = 0;
    for (size_t i = 0; i < size; i++) {
        mean += x[i] / (float)size;
    }
    for (size_t i = 0; i < size; i++) {
        variance += (x[i] - mean) * (x[i] - mean) / (float)size;
    }
    const float rstd = 1 / sqrtf(variance + epsilon);
    for (size_t i = 0; i < size; i++) {
        xhat[i] = (x[i] - mean) * rstd;
    }
    return rstd;
}

static struct matrix norm_forward(struct matrix x, const struct norm *norm, float epsilon) {
    struct matrix y = new_matrix(x.rows, x.columns), xhat = new_matrix(1, x.columns);
    for (size_t r = 0; r < x.rows; r++) {
        standardize(xhat.value, x.value + r * x.columns, x.columns, epsilon);
        for (size_t i = 0; i < x.columns; i++) {
            y.value[r * x.columns + i] = norm->gamma.value[i] * xhat.value[i] + norm->beta.value[i];
        }
    }
    return y;
}

//   dxhat = dy gamma      dgamma = sum of the rows of dy xhat      dbeta = sum of the rows of dy
//   dx    = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat))
//
// The means are there because each x also moves the mean and the variance of its row.
static void norm_backward(struct matrix y, struct matrix x, const struct norm *norm,
                          float epsilon) {
    const size_t size = x.columns;
    struct matrix xhat = new_matrix(1, size);
    for (size_t r = 0; r < x.rows; r++) {
        const float *dy = y.gradient + r * size;
        const float rstd = standardize(xhat.value, x.value + r * size, size, epsilon);
        float mean = 0, mean_of_product = 0;
        for (size_t i = 0; i < size; i++) {
            norm->gamma.gradient[i] += dy[i] * xhat.value[i];
            norm->beta.gradient[i] += dy[i];
            xhat.gradient[i] = dy[i] * norm->gamma.value[i];
            mean += xhat.gradient[i] / (float)size;
            mean_of_product += xhat.gradient[i] * xhat.value[i] / (float)size;
        }
        for (size_t i = 0; i < size; i++) {
            x.gradient[r * size + i] +=
                rstd * (xhat.gradient[i] - mean - xhat.value[i] * mean_of_product);
        }
    }
}

// gelu(x) = x Phi(x), where Phi(x) is the part of a normal distribution that is below x. So it is
// nearly 0 for negative x, nearly x for positive x, and smooth between.
static float normal_below(float x) {
    return (1 + erff(x * 0.70710678f)) / 2; // x / sqrt(2)
}

static struct matrix gelu_forward(struct matrix x) {
    struct matrix y = new_matrix(x.rows, x.columns);
    for (size_t i = 0; i < x.rows * x.columns; i++) {
        y.value[i] = x.value[i] * normal_below(x.value[i]);
    }
    return y;
}

//   dx = dy (Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi))
static void gelu_backward(struct matrix y, struct matrix x) {
    for (size_t i = 0; i < x.rows * x.columns; i++) {
        const float v = x.value[i], density = expf(-v * v / 2) * 0.39894228f;
        x.gradient[i] += y.gradient[i] * (normal_below(v) + v * density);
    }
}

// Makes numbers into probabilities, exp(x) / sum of exp(x). Subtracting the largest changes
// nothing, but keeps exp from overflowing. Returns log(sum of exp(x)).
static float softmax(float *x, size_t count) {
    float largest = x[0], sum = 0;
    for (size_t i = 1; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (size_t i = 0; i < count; i++) {
        x[i] = expf(x[i] - largest);
        sum += x[i];
    }
    for (size_t i = 0; i < count; i++) {
        x[i] /= sum;
    }
    return largest + logf(sum);
}

// Attention is how tokens read each other. Each token asks with its query q, is found by its key k,
// and gives its value v. Each of the A heads has D columns of q, k, v and the result c:
//
//   p[i, j] = softmax over j of q[i] . k[j] / sqrt(D)      how much token i reads of token j
//   c[i]    = sum over j of p[i, j] v[j]
struct attention {
    struct matrix q, k, v, p, c; // [T, H], but p [A T, T]
};

static void attention_forward(struct attention *a, size_t heads) {
    const size_t rows = a->q.rows, hidden = a->q.columns, size = hidden / heads;
    a->p = new_matrix(heads * rows, rows);
    a->c = new_matrix(rows, hidden);
    PARALLEL
    for (size_t head = 0; head < heads; head++) {
        for (size_t i = 0; i < rows; i++) {
            const size_t at_i = i * hidden + head * size;
            float *p = a->p.value + (head * rows + i) * rows;
            for (size_t j = 0; j < rows; j++) {
                const size_t at_j = j * hidden + head * size;
                p[j] = dot(a->q.value + at_i, a->k.value + at_j, size) / sqrtf((float)size);
            }
            softmax(p, rows);
            for (size_t j = 0; j < rows; j++) {
                add_scaled(a->c.value + at_i, a->v.value + j * hidden + head * size, p[j], size);
            }
        }
    }
}

//   dv[j] = sum over i of p[i, j] dc[i]       dp[i, j] = dc[i] . v[j]
//   ds    = p (dp - sum over j of p dp)       of the scores s = q . k / sqrt(D), back through
//   softmax dq[i] = sum over j of ds[i, j] k[j] / sqrt(D) dk[j] = sum over i of ds[i, j] q[i] /
//   sqrt(D)
static void attention_backward(const struct attention *a, size_t heads) {
    const size_t rows = a->q.rows, hidden = a->q.columns, size = hidden / heads;
    PARALLEL
    for (size_t head = 0; head < heads; head++) {
        for (size_t i = 0; i < rows; i++) {
            const size_t at_i = i * hidden + head * size;
            const float *p = a->p.value + (head * rows + i) * rows;
            float *dp = a->p.gradient + (head * rows + i) * rows, sum = 0;
            for (size_t j = 0; j < rows; j++) {
                const size_t at_j = j * hidden + head * size;
                dp[j] = dot(a->c.gradient + at_i, a->v.value + at_j, size);
                sum += p[j] * dp[j];
                add_scaled(a->v.gradient + at_j, a->c.gradient + at_i, p[j], size);
            }
            for (size_t j = 0; j < rows; j++) {
                const size_t at_j = j * hidden + head * size;
                const float ds = p[j] * (dp[j] - sum) / sqrtf((float)size);
                add_scaled(a->q.gradient + at_i, a->k.value + at_j, ds, size);
                add_scaled(a->k.gradient + at_j, a->q.value + at_i, ds, size);
            }
        }
    }
}

// The rows of a table that have these numbers: the same row may be taken several times.
static void take_rows(float *to, const float *table, const int *numbers, size_t count,
                      size_t columns) {
    for (size_t i = 0; i < count; i++) {
        add(to + i * columns, table + (size_t)numbers[i] * columns, columns);
    }
}

static void give_rows(float *table, const float *rows, const int *numbers, size_t count,
                      size_t columns) {
    for (size_t i = 0; i < count; i++) {
        add(table + (size_t)numbers[i] * columns, rows + i * columns, columns);
    }
}

// --- 5. The encoder ------------------------------------------------------------------------------

// The matrices of one sequence of T tokens, which backward reads again.
struct layer_pass {
    struct matrix x; // [T, H] the input
    struct attention attention;
    struct matrix sum, middle;   // [T, H]
    struct matrix inner, active; // [T, I] before and after gelu
    struct matrix output_sum, y; // [T, H]
};

struct pass {
    const struct example *example;
    int positions[MOST_TOKENS];
    struct matrix sum;         // [T, H] of the embeddings
    struct layer_pass *layers; // [L]
    struct matrix y;           // [T, H] the last layer's output
};

// x = LN(word + position + type): which word it is, where it is, and in which text.
static struct matrix embed_forward(const struct model *model, struct pass *pass) {
    const struct example *example = pass->example;
    const size_t rows = example->length, hidden = model->config.hidden;
    for (size_t t = 0; t < rows; t++) {
        pass->positions[t] = (int)t;
    }
    pass->sum = new_matrix(rows, hidden);
    take_rows(pass->sum.value, model->word.value, example->ids, rows, hidden);
    take_rows(pass->sum.value, model->position.value, pass->positions, rows, hidden);
    take_rows(pass->sum.value, model->type.value, example->types, rows, hidden);
    return norm_forward(pass->sum, &model->embedding_norm, model->config.epsilon);
}

static void embed_backward(const struct model *model, const struct pass *pass) {
    const struct example *example = pass->example;
    const size_t rows = example->length, hidden = model->config.hidden;
    norm_backward(pass->layers[0].x, pass->sum, &model->embedding_norm, model->config.epsilon);
    give_rows(model->word.gradient, pass->sum.gradient, example->ids, rows, hidden);
    give_rows(model->position.gradient, pass->sum.gradient, pass->positions, rows, hidden);
    give_rows(model->type.gradient, pass->sum.gradient, example->types, rows, hidden);
}

// A layer reads other tokens, then thinks about each token by itself. Both parts are added to what
// came in, so that they have to learn only what changes:
//
//   m = LN(x + c Wa^T + ba),  c = attention(x Wq^T + bq, x Wk^T + bk, x Wv^T + bv)
//   y = LN(m + g Wo^T + bo),  g = gelu(m Wi^T + bi)
static struct matrix layer_forward(const struct config *config, const struct layer *layer,
                                   struct layer_pass *pass, struct matrix x) {
    pass->x = x;
    pass->attention.q = linear_forward(x, &layer->query);
    pass->attention.k = linear_forward(x, &layer->key);
    pass->attention.v = linear_forward(x, &layer->value);
    attention_forward(&pass->attention, config->heads);
    pass->sum = linear_forward(pass->attention.c, &layer->attention_output);
    add_forward(pass->sum, x);
    pass->middle = norm_forward(pass->sum, &layer->attention_norm, config->epsilon);
    pass->inner = linear_forward(pass->middle, &layer->inner);
    pass->active = gelu_forward(pass->inner);
    pass->output_sum = linear_forward(pass->active, &layer->output);
    add_forward(pass->output_sum, pass->middle);
    pass->y = norm_forward(pass->output_sum, &layer->output_norm, config->epsilon);
    return pass->y;
}

// The same lines from the last to the first.
static void layer_backward(const struct config *config, const struct layer *layer,
                           const struct layer_pass *pass) {
    norm_backward(pass->y, pass->output_sum, &layer->output_norm, config->epsilon);
    add_backward(pass->output_sum, pass->middle);
    linear_backward(pass->output_sum, pass->active, &layer->output);
    gelu_backward(pass->active, pass->inner);
    linear_backward(pass->inner, pass->middle, &layer->inner);
    norm_backward(pass->middle, pass->sum, &layer->attention_norm, config->epsilon);
    add_backward(pass->sum, pass->x);
    linear_backward(pass->sum, pass->attention.c, &layer->attention_output);
    attention_backward(&pass->attention, config->heads);
    linear_backward(pass->attention.v, pass->x, &layer->value);
    linear_backward(pass->attention.k, pass->x, &layer->key);
    linear_backward(pass->attention.q, pass->x, &layer->query);
}

static void encode_forward(const struct model *model, struct pass *pass) {
    pass->y = embed_forward(model, pass);
    for (size_t i = 0; i < model->config.layers; i++) {
        pass->y = layer_forward(&model->config, &model->layers[i], &pass->layers[i], pass->y);
    }
}

static void encode_backward(const struct model *model, const struct pass *pass) {
    for (size_t i = model->config.layers; i-- > 0;) {
        layer_backward(&model->config, &model->layers[i], &pass->layers[i]);
    }
    embed_backward(model, pass);
}

// --- 6. Losses -----------------------------------------------------------------------------------

// The loss of a guess is -log(probability of what is right): 0 if the model is sure of it, large if
// it is sure of something else. `scores` has a row for each guess. Sets their gradient, which is
// probability - 1 for what is right and probability for the rest, times `weight`; returns the sum
// of the losses times `weight`.
static float cross_entropy(struct matrix scores, const int *right, float weight) {
    float sum = 0;
    for (size_t r = 0; r < scores.rows; r++) {
        const float *x = scores.value + r * scores.columns;
        float *dx = scores.gradient + r * scores.columns;
        memcpy(dx, x, scores.columns * sizeof(float));
        sum += weight * (softmax(dx, scores.columns) - x[right[r]]);
        dx[right[r]] -= 1;
        for (size_t i = 0; i < scores.columns; i++) {
            dx[i] *= weight;
        }
    }
    return sum;
}

// Masked words: with y the rows of the M masked tokens and E the table of words,
//
//   h = LN(gelu(y Wt^T + bt))      scores = h E^T + b  [M, V]
static float masked_words(const struct model *model, const struct pass *pass, float weight) {
    const struct example *example = pass->example;
    const size_t hidden = model->config.hidden;
    const float epsilon = model->config.epsilon;
    int places[MOST_TOKENS], labels[MOST_TOKENS];
    size_t count = 0;
    for (size_t t = 0; t < example->length; t++) {
        if (example->labels[t] >= 0) {
            places[count] = (int)t;
            labels[count++] = example->labels[t];
        }
    }
    const struct matrix y = new_matrix(count, hidden);
    take_rows(y.value, pass->y.value, places, count, hidden);
    const struct matrix turned = linear_forward(y, &model->transform);
    const struct matrix active = gelu_forward(turned);
    const struct matrix h = norm_forward(active, &model->transform_norm, epsilon);
    const struct matrix scores = linear_forward(h, &model->decoder);
    const float loss = cross_entropy(scores, labels, weight);
    linear_backward(scores, h, &model->decoder);
    norm_backward(h, active, &model->transform_norm, epsilon);
    gelu_backward(active, turned);
    linear_backward(turned, y, &model->transform);
    give_rows(pass->y.gradient, y.gradient, places, count, hidden);
    return loss;
}

// Whether the second text follows the first: with y the row of [CLS], the first token,
//
//   t = tanh(y Wp^T + bp)      scores = t Wn^T + bn  [2]
static float next_sentence(const struct model *model, const struct pass *pass, float weight) {
    const struct matrix y = {pass->y.value, pass->y.gradient, 1, pass->y.columns};
    const struct matrix pooled = linear_forward(y, &model->pooler);
    const struct matrix t = new_matrix(1, y.columns);
    for (size_t i = 0; i < y.columns; i++) {
        t.value[i] = tanhf(pooled.value[i]);
    }
    const struct matrix scores = linear_forward(t, &model->next);
    const float loss = cross_entropy(scores, &pass->example->next, weight);
    linear_backward(scores, t, &model->next);
    for (size_t i = 0; i < y.columns; i++) {
        pooled.gradient[i] = t.gradient[i] * (1 - t.value[i] * t.value[i]); // tanh' = 1 - tanh^2
    }
    linear_backward(pooled, y, &model->pooler);
    return loss;
}

// Computes the gradient of a batch and returns its loss: the mean over its masked words plus the
// mean over its pairs of texts.
static float batch_gradient(const struct model *model, struct pass *pass,
                            const struct example *examples, size_t count) {
    float words = 0, pairs = 0, loss = 0;
    for (size_t i = 0; i < count; i++) {
        pairs += examples[i].next >= 0;
        for (size_t t = 0; t < examples[i].length; t++) {
            words += examples[i].labels[t] >= 0;
        }
    }
    memset(model->gradients, 0, model->count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        pass->example = &examples[i];
        encode_forward(model, pass);
        loss += masked_words(model, pass, 1 / fmaxf(words, 1));
        if (model->has_next && examples[i].next >= 0) {
            loss += next_sentence(model, pass, 1 / pairs);
        }
        encode_backward(model, pass);
        free_matrices();
    }
    return loss;
}

// --- 7. Optimizer --------------------------------------------------------------------------------

// AdamW. Each number p has two memories of its gradient g: m, a mean of about the last ten, and v,
// a mean of the squares of about the last thousand. Both begin at 0 and would be too small at
// first, which the divisions correct at update t = 1, 2, ...:
//
//   m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
//   p = p - rate ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay p)
//
// So p moves by up to about `rate` whatever the size of its gradient, and less where the gradient
// changes its sign. The decay pulls the numbers of matrices to 0 unless the loss needs them.
//
// A gradient that is longer than 1 is first cut to the length 1, so that one strange batch does not
// throw the model far away. Returns the length before.
static double update_weights(struct model *model, float rate, int t) {
    const double beta1 = 0.9, beta2 = 0.999;
    const float keep1 = (float)beta1, take1 = (float)(1 - beta1);
    const float keep2 = (float)beta2, take2 = (float)(1 - beta2);
    const float correct1 = (float)(1 / (1 - pow(beta1, t)));
    const float correct2 = (float)(1 / (1 - pow(beta2, t)));
    double squares = 0; // of up to hundreds of millions of numbers, too many for a sum in float
    for (size_t i = 0; i < model->count; i++) {
        squares += (double)model->gradients[i] * model->gradients[i];
    }
    const double length = sqrt(squares);
    const float factor = (float)fmin(1, 1 / (length + 1e-6));
    for (size_t i = 0; i < model->slice_count; i++) {
        const struct slice *slice = &model->slices[i];
        const int is_free = strstr(slice->name, "bias") || strstr(slice->name, "LayerNorm");
        const float decay = is_free ? 0 : 0.01f;
        const size_t end = slice->offset + slice->matrix->rows * slice->matrix->columns;
        for (size_t j = slice->offset; j < end; j++) {
            const float g = factor * model->gradients[j];
            float *p = &model->weights[j], *m = &model->first[j], *v = &model->second[j];
            *m = keep1 * *m + take1 * g;
            *v = keep2 * *v + take2 * g * g;
            *p -= rate * (*m * correct1 / (sqrtf(*v * correct2) + 1e-8f) + decay * *p);
        }
    }
    return length;
}

// The rate grows from 0 in the first tenth of the updates, because m and v know little yet, and
// then falls to 0, because the last steps have to be small.
static float rate_of(float peak, int update, int updates) {
    const float done = (float)update / (float)updates;
    return peak * (done < 0.1f ? done / 0.1f : (1 - done) / 0.9f);
}

// --- 8. The program ------------------------------------------------------------------------------

// Takes an option and its value out of the arguments. NULL: it is not among them.
static const char *take_option(char **argv, const char *name) {
    const char *value = NULL;
    for (int i = 1; argv[i] != NULL;) {
        if (strcmp(argv[i], name) != 0) {
            i++;
            continue;
        }
        value = argv[i + 1];
        need(value != NULL, "%s needs a value", name);
        for (int j = i; (argv[j] = argv[j + 2]) != NULL; j++) {
        }
    }
    return value;
}

static double take_number(char **argv, const char *name, double standard, double most) {
    const char *text = take_option(argv, name);
    char *end = NULL;
    const double number = text != NULL ? strtod(text, &end) : standard;
    need(text == NULL || (end != text && *end == '\0' && number > 0 && number <= most),
         "%s is \"%s\", expected a number above 0, at most %g", name, text, most);
    return number;
}

struct plan {
    int updates;
    size_t batch;
    float rate;
};

// Trains on the given examples or, if there are none, on examples drawn from the text.
static void train(struct model *model, struct pass *pass, const struct given *given,
                  const struct vocabulary *vocabulary, const struct ids *text,
                  const struct plan *plan) {
    struct example *drawn = allocate(plan->batch, sizeof *drawn);
    model->first = allocate(model->count, sizeof(float));
    model->second = allocate(model->count, sizeof(float));
    size_t next = 0; // given example
    for (int update = 0; update < plan->updates; update++) {
        const struct example *examples = given->count > 0 ? &given->examples[next] : drawn;
        size_t count = 0;
        for (; next < given->count && given->examples[next].update == update; next++) {
            count++;
        }
        for (; given->count == 0 && count < plan->batch; count++) {
            draw_example(&drawn[count], model, vocabulary, text);
        }
        const float rate = rate_of(plan->rate, update, plan->updates);
        const float loss = batch_gradient(model, pass, examples, count);
        const double length = update_weights(model, rate, update + 1);
        printf("update %d/%d  loss %.7f  gradient %.5f  rate %.3g\n", update + 1, plan->updates,
               (double)loss, length, (double)rate);
        fflush(stdout);
    }
    free(drawn);
}

static void print_vector(const struct model *model, struct pass *pass,
                         const struct vocabulary *vocabulary, const char *text) {
    static struct example example;
    struct ids ids = {0};
    tokenize(vocabulary, text, "the text", &ids);
    add_token(&example, vocabulary->cls, 0, -1);
    for (size_t i = 0; i < ids.count && example.length + 1 < longest_sequence(model); i++) {
        add_token(&example, ids.items[i], 0, -1);
    }
    add_token(&example, vocabulary->sep, 0, -1);
    pass->example = &example;
    encode_forward(model, pass);
    for (size_t i = 0; i < pass->y.columns; i++) {
        printf("%.9g\n", (double)pass->y.value[i]);
    }
    free_matrices();
    free(ids.items);
}

int main(int argc, char **argv) {
    static struct model model;
    static struct pass pass;
    static struct vocabulary vocabulary;
    static struct given given;
    static struct ids text;
    const char *ids = take_option(argv, "--ids"), *vector = take_option(argv, "--vector");
    const char *save = take_option(argv, "--save");
    struct plan plan = {.updates = (int)take_number(argv, "--updates", 100, 1e9),
                        .batch = (size_t)take_number(argv, "--batch", 16, 1e5),
                        .rate = (float)take_number(argv, "--rate", 1e-4, 1)};
    random_state = 1 + (uint64_t)take_number(argv, "--seed", 42, 1e15);
    need(argc > 2 && argv[1] != NULL && (ids != NULL) + (vector != NULL) + (argv[2] != NULL) == 1,
         "expected a model folder, and either files of text, --ids FILE or --vector TEXT");
    read_model(&model, argv[1]);
    pass.layers = allocate(model.config.layers, sizeof *pass.layers);
    if (ids == NULL) {
        read_vocabulary(&vocabulary, argv[1], model.config.words);
    }
    if (vector != NULL) {
        print_vector(&model, &pass, &vocabulary, vector);
        return 0;
    }
    need(model.has_words,
         "%s: has no head for masked words (cls.predictions); `berth pretrain` makes one",
         model.file.name);
    if (ids != NULL) {
        read_examples(&given, ids, &model);
        plan.updates = given.examples[given.count - 1].update + 1;
    }
    for (int i = 2; argv[i] != NULL; i++) {
        const struct file file = read_file("", argv[i], 1);
        tokenize(&vocabulary, file.bytes, file.name, &text);
        free(file.bytes);
    }
    train(&model, &pass, &given, &vocabulary, &text, &plan);
    if (save != NULL) {
        save_model(&model, save);
    }
    return 0;
}
