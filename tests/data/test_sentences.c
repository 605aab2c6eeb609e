// SPDX-License-Identifier: Apache-2.0
// Sentences: each rule, and the hand-made marks in the sample of Wikipedia (sentences.marked.h),
// where exactly the marked ends are found.
#include "core/scratch.h"
#include "data/corpus/sentences.h"
#include "data/wikipedia/wikipedia.h"
#include "format/archive/deflate.h"
#include "sentences.marked.h"

// The sentences of a text, each after a '|'.
static const char *split(const char *text) {
    static char result[2048];
    struct sentences sentences = {.text = text, .length = strlen(text)};
    const char *begin;
    size_t length;
    result[0] = '\0';
    while (sentences_next(&sentences, &begin, &length)) {
        strcat(result, "|");
        strncat(result, begin, length);
    }
    assert_false(sentences_next(&sentences, &begin, &length));
    return result;
}

static void test_rules(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {" \n \t", ""},
        {"No mark at all", "|No mark at all"},
        {"One. Two! Three?  Four", "|One.|Two!|Three?|Four"},
        {"A line\nand another. \n\nLast", "|A line|and another.|Last"},
        {"It rose by 3.5 to 4. The end.", "|It rose by 3.5 to 4.|The end."},
        {"Dr. Who met Gen. Smith vs. Jones.", "|Dr. Who met Gen. Smith vs. Jones."},
        {"John F. Kennedy spoke. He left.", "|John F. Kennedy spoke.|He left."},
        {"It was plan B. They knew.", "|It was plan B.|They knew."},
        {"In the U.S. Senate. Made in the U.S. The rest.",
         "|In the U.S. Senate.|Made in the U.S.|The rest."},
        {"He said \"Go.\" Then \"Why?\" he asked.", "|He said \"Go.\"|Then \"Why?\" he asked."},
        {"So it is (see No. 5). \"Yes\" (No. Never.)",
         "|So it is (see No. 5).|\"Yes\" (No.|Never.)"},
        {"Wait... and see... Then go.", "|Wait... and see...|Then go."},
        {"Born c. 1900 (d. 1980). Died.", "|Born c. 1900 (d. 1980).|Died."},
        {"Apples, pears, etc. were sold. Also nuts etc. The end.",
         "|Apples, pears, etc. were sold.|Also nuts etc.|The end."},
        {"Acme Inc. Building. Acme Inc. It grew.", "|Acme Inc. Building.|Acme Inc.|It grew."},
        {"1. First. 2. Second.", "|1. First.|2. Second."},
        {"On Sept. 11 it began. In Sept. He came.", "|On Sept. 11 it began.|In Sept.|He came."},
        {"Caf\xc3\xa9. \xc3\xa9tude. \xc3\x89tude.", "|Caf\xc3\xa9. \xc3\xa9tude.|\xc3\x89tude."},
        {"He wrote \xe2\x80\x9cNo.\xe2\x80\x9d Then \xe2\x80\x98so.\xe2\x80\x99 \xe2\x80\x9cYes.",
         "|He wrote \xe2\x80\x9cNo.\xe2\x80\x9d|Then \xe2\x80\x98so.\xe2\x80\x99|\xe2\x80\x9cYes."},
        {"example.com is a.b.c. and so", "|example.com is a.b.c. and so"},
        // two-byte lower-case letters, the first and last of each range, and adjacent capitals
        {"Slovo. \xd0\xb0. \xd0\xbf. \xd1\x80. \xd1\x9f. \xd0\xaf.",
         "|Slovo. \xd0\xb0. \xd0\xbf. \xd1\x80. \xd1\x9f.|\xd0\xaf."},
        {"Slovo. \xd1\xa0. End! \xd0\x90. End! \xd0\xbb.",
         "|Slovo.|\xd1\xa0.|End!|\xd0\x90.|End! \xd0\xbb."},
        {"Logos. \xce\xac. \xcf\x89. \xce\xa9!", "|Logos. \xce\xac. \xcf\x89.|\xce\xa9!"},
        {"Wort. \xc3\x9f. \xc3\xbf. \xc3\x9e. \xc3\xb7.",
         "|Wort. \xc3\x9f. \xc3\xbf.|\xc3\x9e.|\xc3\xb7."},
        // initials
        {"J. The man. Then J. S. Bach. I. He wrote. P. T. It was.",
         "|J. The man.|Then J. S. Bach.|I. He wrote.|P. T.|It was."},
        {"Vitamin C. A cold. Vitamin C. The cold. In unit 7. The cold.",
         "|Vitamin C. A cold.|Vitamin C.|The cold.|In unit 7.|The cold."},
        // item numbers, and numbers that end a sentence
        {"12. The twelfth. Born in 12. The end.", "|12. The twelfth.|Born in 12.|The end."},
        {"999. The last.\n1000. The next.", "|999. The last.|1000.|The next."},
        {"A4. The paper.", "|A4.|The paper."},
        // other scripts
        {"数学是学科。古希腊人有贡献！你知道吗？！是的。",
         "|数学是学科。|古希腊人有贡献！|你知道吗？！|是的。"},
        {"彼は「行く。」と言った。終わり", "|彼は「行く。」と言った。|終わり"},
        {"他说：“好。” 她说不。", "|他说：“好。”|她说不。"},
        {"他说：“好。”\u3000她说不。", "|他说：“好。”|\u3000她说不。"},
        {"यह राम है। वह सीता है॥ अंत", "|यह राम है।|वह सीता है॥|अंत"},
        {"هل تعرف؟ نعم. یہ ہے۔ وہ", "|هل تعرف؟|نعم.|یہ ہے۔|وہ"},
        {"क।ख", "|क।ख"},
        {"ہے۔x ہے۔。x ہے。۔x", "|ہے۔x ہے۔。|x ہے。۔|x"},
        {"好。।”x 好।。.x 好।.x", "|好。।”x 好।。.|x 好।.x"},
        {"See pp. 5 and 6. See pp. The end.", "|See pp. 5 and 6.|See pp.|The end."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(split(cases[i][0]), cases[i][1]);
    }
}

// --- the marks ----------------------------------------------------------------------------------

// The text of an article in a file of extracted text, with lines joined by blanks.
static char *article(const char *file, int id) {
    char head[32];
    snprintf(head, sizeof head, "<doc id=\"%d\" ", id);
    const char *at = strstr(file, head), *end = at != NULL ? strstr(at, "\n</doc>") : NULL;
    assert_non_null(end);
    at = strstr(strchr(at, '\n') + 1, "\n") + 2; // after the title and an empty line
    char *text = memory_string_of(at, (size_t)(end - at));
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    return text;
}

// Marks that end nothing are read once, not again from each of them on.
static void test_many_marks(void **state) {
    (void)state;
    enum { MARKS = 1000000 };
    static const char mark[] = "۔";
    const size_t size = strlen(mark), length = MARKS * size + 1;
    char *text = memory_new(length);
    for (size_t i = 0; i < MARKS; i++) {
        memcpy(text + i * size, mark, size);
    }
    text[length - 1] = 'x';
    struct sentences sentences = {.text = text, .length = length};
    const char *begin;
    size_t found;
    assert_true(sentences_next(&sentences, &begin, &found));
    assert_int_equal(found, length);
    memory_free(text);
}

struct score {
    size_t both, marked, found;
};

static void score_article(const char *file, const struct marked *marked, struct score *score) {
    char *text = article(file, marked->id);
    size_t last = marked->ends[marked->count - 1], length, at = 0;
    struct sentences sentences = {.text = text, .length = strlen(text)};
    const char *begin;
    if (deflate_crc32(0, text, last) != marked->crc) {
        fail_msg("article %d: its text differs from the marked text", marked->id);
    }
    score->marked += marked->count;
    while (sentences_next(&sentences, &begin, &length)) {
        size_t end = (size_t)(begin - text) + length;
        while (at < marked->count && marked->ends[at] < end) {
            at++;
        }
        score->found += end <= last;
        score->both += at < marked->count && marked->ends[at] == end;
    }
    memory_free(text);
}

static void test_marks(void **state) {
    (void)state;
    const char *dump = data_path("wikipedia/enwiki-sample.xml.bz2");
    if (!file_exists(dump)) {
        print_message("skipped: no %s (set BERTH_DATA)\n", dump);
        skip();
    }
    struct wikipedia_settings settings = {
        .dump = dump, .folder = scratch("text"), .threads = 1, .comm = comm_self()};
    struct wikipedia_counts counts;
    struct berth_log log = {0};
    struct score score = {0};
    char *file;
    size_t length;
    assert_int_equal(wikipedia_text(&settings, &log, NULL, &counts, NULL), BERTH_OK);
    assert_int_equal(file_read(scratch("text/AA/wiki_00"), 1 << 27, &file, &length, NULL),
                     BERTH_OK);
    for (size_t i = 0; i < sizeof marked_articles / sizeof *marked_articles; i++) {
        score_article(file, &marked_articles[i], &score);
    }
    memory_free(file);
    assert_int_equal(score.marked, 308);
    assert_int_equal(score.found, 308);
    assert_int_equal(score.both, 308);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_rules),
        cmocka_unit_test(test_many_marks),
        SCRATCH_TEST(test_marks),
    };
    return cmocka_run_group_tests_name("sentences", tests, NULL, NULL);
}
