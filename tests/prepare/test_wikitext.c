// SPDX-License-Identifier: Apache-2.0
// Wikitext to plain text: what is kept and dropped, unclosed markup and markup nested 10,000 deep,
// and the guarantees of wikitext.h for every text, however broken.
#include "core/foreign_locale.h"
#include "core/harness.h"
#include "core/memory.h"
#include "wiki/wikitext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *const namespaces[] = {(char *)"Datei", (char *)"Benutzer Diskussion"};

static struct wikitext make(void) {
    return (struct wikitext){.namespaces = namespaces, .namespace_count = 2};
}

static const struct {
    const char *text, *plain;
} cases[] = {
    {"", ""},
    {"One.\n\nTwo.", "One.\nTwo.\n"},
    // links
    {"The [[cat]], [[dog|dogs]] and [[horse]]s.", "The cat, dogs and horses.\n"},
    {"[[File:x.jpg|thumb|A [[cat|big cat]] here]]Text.", "Text.\n"},
    {"[[image:x.jpg]][[Datei:y.jpg|z]][[Category:A|B]][[benutzer diskussion:X|y]][[fr:Chat]]Text.",
     "Text.\n"},
    {"[[File:x.jpg|thumb|A caption\n\nof two paragraphs]]Text.", "Text.\n"},
    {"[[Bild:x.jpg]][[文件:b.png|thumb|图]][[分类:数学]][[画像:F.png]][[カテゴリ:国]]Text.",
     "Text.\n"},
    {"[[файл:M.jpg|Вид]][[Изображение:m.jpg|справа]][[категория:Города]][[صورة:E.png]][[تصنيف:دول]]"
     "Text.",
     "Text.\n"},
    {"[[Εικόνα:a.png]][[εικόνα:a.png]][[Image :x]][[user_talk:X|y]][[CATÉGORIE:Ville]]Text.",
     "Text.\n"},
    {"[[数学:定义|数]]和[[Аль: Бом]].", "数和Аль: Бом.\n"},
    // variants of a language
    {"研究-{zh-hans:数量;zh-hant:數量}-、-{A|逻辑}-和-{zh-cn:[[网络|网]];zh-tw:網路;}-。-{H|zh-cn:"
     "甲;zh-tw:乙}-",
     "研究数量、逻辑和网。\n"},
    {"-{T|zh:x}-A-{R|b&amp;c}--{zh-hant; zh-hans|d}-{{lang|fr|-{zh-hans:e;zh-hant:f}-}}.",
     "Ab&cde.\n"},
    {"Open -{ [[cat]] and {{r|-{}} end.\nNext }- line.", "Open - cat and end.\nNext - line.\n"},
    {"So -{known}- facts, 4-{2-ethyl}-phenol, x-{{nowrap|y}}.",
     "So known facts, 4-2-ethyl-phenol, x-y.\n"},
    {"See [[:Category:Cats|cats]] and [[:Category:Dogs]].", "See cats and Category:Dogs.\n"},
    {"[[Alien: Covenant]] and [[Star Trek: Picard|Picard]].", "Alien: Covenant and Picard.\n"},
    {"[[wikt:cat]] [[Foo (bar)|]] end.", "cat end.\n"},
    {"A [http://x.org/a_b?c=d label]. B [https://x.org]. C [//x.org l].", "A label. B. C l.\n"},
    {"[http://x.org A label with [[cat|a link]]] and [sic] stay.",
     "A label with a link and [sic] stay.\n"},
    {"An [[unclosed link\nNext [[cat]] line.", "An unclosed link\nNext cat line.\n"},
    {"A [[[[doubled]]]] one.", "A doubled one.\n"},
    // templates
    {"A{{refn|url=x|title={{lang|fr|y}}}} b.", "A b.\n"},
    {"{{Infobox\n| a = {{b|c}}\n| d = [[e|f]]\n}}\nText.", "Text.\n"},
    {"About {{convert|5|km|mi|abbr=on}} or {{Convert|5|to|10|ft}} or {{cvt|3|-|4|kg}}.",
     "About 5 km (3.1 mi) or 5 to 10 feet (1.5 to 3.0 m) or 3–4 kg (6.6–8.8 lb).\n"},
    {"{{lang|fr|chat}} {{lang-de|Katze}} {{nowrap|1=a b}} {{chem|H|2|O}} x{{'s}} {{as "
     "of|2010}}",
     "chat German: Katze a b H2O x's As of 2010\n"},
    {"Said: {{quote|text=Be [[cat|good]].|author=X}} end.", "Said:\nBe good.\nend.\n"},
    {"{{transl|grc|ISO|anarchos}} {{nihongo|Tokyo|x|y}} {{lang|fr|{{nowrap|un chat}}}}",
     "anarchos Tokyo (x, y) un chat\n"},
    {"{{unclosed\nText [[cat]].", "unclosed\nText cat.\n"},
    {"{{unclosed|x. Text.\n| cell\nMore.", "unclosed x. Text.\nMore.\n"},
    {"Text}} more.", "Text more.\n"},
    {"{{{1|default}}} end.", "default end.\n"},
    {"Cats (Latin: {{r|x}}; born {{birth date|1950}}) are ({{r|x}}, {{r|y}}) big ({{r|z}}).",
     "Cats (Latin:; born 1950) are big.\n"},
    // tables
    {"{| class=x\n|-\n! a || b\n|}\nText.", "Text.\n"},
    {"{|\n| {|\n| inner\n|}\n| {{t|x}}\n|}\nText.", "Text.\n"},
    {":{|\n|a\n|}\nText.", "Text.\n"},
    {"{{t\n|}}\nText.", "Text.\n"},
    {"{|\n| never ended\nText.", "Text.\n"},
    // tags
    {"A<ref>x {{y}} [[z]]</ref> b<ref name=\"q\"/> c<REF group=a>d</Ref >.", "A b c.\n"},
    {"A<ref>one<ref>two</ref> b.", "A b.\n"},
    {"A<!-- x\n\ny -->B<!-- never ended", "AB\n"},
    {"H<sub>2</sub>O, <b>bold</b>, a<br/>b <span style=\"x\">c</span>", "H2O, bold, a b c\n"},
    {"<math>x^{2}</math> and <math>y</math>.", "formula_1 and formula_2.\n"},
    {"<gallery>\nFile:x.jpg|y\n</gallery><pre>{{x</pre>Text<small> tiny [[x]]</small>.",
     "Text tiny x.\n"},
    {"<nowiki>[x]</nowiki> <code>a</code> 1 < 2 > 0 &lt;b&gt;", "[x] a 1 < 2 > 0 <b>\n"},
    {"<div>x <div>y</div> z</div>Text</div>.", "Text.\n"},
    {"<blockquote>Quoted.</blockquote>After.", "Quoted.\nAfter.\n"},
    {"<ref name=x>never ended. Text.", "never ended. Text.\n"},
    // quote marks
    {"'''Bold''' ''italic'' '''''both''''' it's L'''amour'' '''x'''",
     "Bold italic both it's L'amour x\n"},
    {"''''quoted'''' a", "'quoted' a\n"},
    // entities and blanks
    {"a&nbsp;b &amp;lt; &ndash; &#8212; &#x41; &bogus; AT&T",
     "a b &lt; \xE2\x80\x93 \xE2\x80\x94 A &bogus; AT&T\n"},
    {"a  b\t c , d . e\xC2\xA0"
     "f",
     "a b c, d. e f\n"},
    {"Wait..... .NET (  x ) 3.5", "Wait... .NET (x) 3.5\n"},
    // lines
    {"= T =\n== A ==\n=== B ===\nText.\n== C ==\n== D? ==\nMore.",
     "= T =\nA.\nB.\nText.\nD?\nMore.\n"},
    {"== A ==\n=== B ===\n=== C ===\nText.\n== Refs ==\n* x", "A.\nC.\nText.\n"},
    {"* list\n# list\n; term\n: indented\n:* deeper\n:: more\nText.", "indented\nmore\nText.\n"},
    {"----\n__TOC__\n__NOTOC__Text.\n(a note)\n...\n| rest", "Text.\n"},
    {"!Kung is a language.", "!Kung is a language.\n"},
};

static void test_cases(void **state) {
    (void)state;
    struct wikitext wikitext = make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *plain;
        size_t length;
        assert_int_equal(
            wikitext_clean(&wikitext, cases[i].text, strlen(cases[i].text), &plain, &length, NULL),
            BERTH_OK);
        if (length != strlen(cases[i].plain) || memcmp(plain, cases[i].plain, length) != 0) {
            fail_msg("%s\nexpected: %s\nfound: %.*s", cases[i].text, cases[i].plain, (int)length,
                     plain);
        }
    }
    wikitext_done(&wikitext);
}

// Whether the text may write markup as text: with entities, <nowiki> or templates.
static int may_escape(const char *text, size_t length) {
    size_t braces = 0;
    for (size_t i = 0; i < length; i++) {
        const int is_blank = text[i] == ' ' || text[i] == '_' || text[i] == '\n';
        if (text[i] == '&' || (text[i] > 0 && text[i] < ' ' && !is_blank && text[i] != '\t') ||
            (braces > 1 && text[i] != '\0' && strchr("!()=", text[i]) != NULL)) {
            return 1;
        }
        braces = text[i] == '{' ? braces + 1 : is_blank ? braces : 0;
    }
    return memmem(text, length, "nowiki", 6) != NULL;
}

// Checks the guarantees of wikitext.h.
static void check_guarantees(const char *plain, size_t length, int is_escaped) {
    char before = '\n';
    for (size_t i = 0; i < length; i++) {
        char byte = plain[i];
        assert_true(is_escaped || (byte != '{' && byte != '}' && byte != '|'));
        assert_false(!is_escaped && (byte == '[' || byte == ']') && before == byte);
        assert_false(byte == '\n' && before == '\n');
        assert_true((unsigned char)byte >= 0x20 || byte == '\n');
        before = byte;
    }
    assert_int_equal(before, '\n');
}

static void clean_and_check(struct wikitext *wikitext, const char *text, size_t length) {
    const char *plain;
    size_t plain_length;
    char *copy = memory_string_of(text, length); // a sanitizer finds a read past its end
    assert_int_equal(wikitext_clean(wikitext, copy, length, &plain, &plain_length, NULL), BERTH_OK);
    check_guarantees(plain, plain_length, may_escape(text, length));
    memory_free(copy);
}

static void test_guarantees(void **state) {
    (void)state;
    struct wikitext wikitext = make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = strlen(cases[i].text);
        char *text = memory_string(cases[i].text);
        for (size_t cut = 0; cut <= length; cut++) {
            clean_and_check(&wikitext, text, cut);
            clean_and_check(&wikitext, text + cut, length - cut);
        }
        for (size_t bit = 0; bit < length * 8; bit++) {
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
            clean_and_check(&wikitext, text, length);
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        }
        memory_free(text);
    }
    wikitext_done(&wikitext);
}

// Pieces of markup in random order.
static void test_random_markup(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "{{",      "}}",  "{|",       "|}",       "[[",      "]]",       "[http://x ",
        "]",       "|",   "\n",       "<ref>",    "</ref>",  "<div>",    "</div>",
        "<!--",    "-->", "'''",      "''",       "== ",     " ==",      "lang",
        "|x",      "=",   "File:",    "&lt;",     "&#123;",  "<",        "a",
        " ",       "(",   ")",        ",",        "nowrap|", "<nowiki>", "</nowiki>",
        "*",       ":",   "\xC2\xA0", "/",        "!",       "<small>",  "</small>",
        "{",       "}",   "convert|", "\xC2\xAD", "[",       "__TOC__",  "<math>",
        "</math>", "-{",  "}-",       "zh:",      ";",       "H|",       "-"};
    struct wikitext wikitext = make();
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char text[512] = "";
        size_t length = 0;
        for (int i = 0; i < 40; i++) {
            random = random * 1664525 + 1013904223;
            const char *piece = pieces[(random >> 16) % (sizeof pieces / sizeof *pieces)];
            memcpy(text + length, piece, strlen(piece));
            length += strlen(piece);
        }
        clean_and_check(&wikitext, text, length);
    }
    wikitext_done(&wikitext);
}

// `open` n times, a word, `close` n times.
static char *nested(const char *open, const char *word, const char *close, size_t count) {
    size_t a = strlen(open), b = strlen(word), c = strlen(close);
    char *text = memory_new(count * (a + c) + b + 1);
    assert_non_null(text);
    char *at = text;
    for (size_t i = 0; i < count; i++, at += a) {
        memcpy(at, open, a);
    }
    memcpy(at, word, b);
    at += b;
    for (size_t i = 0; i < count; i++, at += c) {
        memcpy(at, close, c);
    }
    *at = '\0';
    return text;
}

// Deep nesting and ends without starts, in every combination, megabytes long.
static void test_deep_nesting(void **state) {
    (void)state;
    static const char *const opens[] = {
        "{{a|",    "{{nowrap|", "[[a|",         "[[:",        "[[File:x|", "{|\n|",
        "<div>",   "<ref>",     "<small>",      "[http://x ", "<!--",      "<nowiki>",
        "(",       "'''",       "{{convert|5|", "<a ",        "&",         "{{lang|fr|[[x|",
        "-{zh:a;", "-{["};
    static const char *const closes[] = {"}}", "]]", "\n|}", "</div>", "</ref>",
                                         "]",  ")",  "-->",  "",       "}-"};
    struct wikitext wikitext = make();
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        for (size_t j = 0; j < sizeof closes / sizeof *closes; j++) {
            char *text = nested(opens[i], "word", closes[j], 20000);
            clean_and_check(&wikitext, text, strlen(text));
            memory_free(text);
        }
    }
    const char *plain;
    size_t length;
    char *text = nested("{{a|", "word", "}}", 10000);
    assert_int_equal(wikitext_clean(&wikitext, text, strlen(text), &plain, &length, NULL),
                     BERTH_OK);
    assert_int_equal(length, 0);
    memory_free(text);
    text = nested("[[a|", "word", "]]", 10000);
    assert_int_equal(wikitext_clean(&wikitext, text, strlen(text), &plain, &length, NULL),
                     BERTH_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(plain, "word\n", 5);
    memory_free(text);
    wikitext_done(&wikitext);
}

// A variant is looked for in the first bytes only, so that many starts before as many ends are
// read in linear time.
static void test_long_variants(void **state) {
    (void)state;
    struct wikitext wikitext = make();
    for (int is_long = 0; is_long < 2; is_long++) {
        char text[4096];
        const char *plain;
        size_t length;
        snprintf(text, sizeof text, "a-{%0*d|b}-c", is_long ? 2100 : 2000, 0);
        assert_int_equal(wikitext_clean(&wikitext, text, strlen(text), &plain, &length, NULL),
                         BERTH_OK);
        assert_true(length > 2 && memcmp(plain + length - 3, is_long ? "-c\n" : "bc\n", 3) == 0);
    }
    wikitext_done(&wikitext);
}

// Elements, schemes and prefixes are known in every locale.
static void test_locale(void **state) {
    (void)state;
    static const char text[] = "Kept<DIV>gone<LI>gone</LI></DIV> <MATH>x</MATH> [[WIKT:a]].";
    struct wikitext wikitext = make();
    const char *plain;
    size_t length;
    foreign_locale_set();
    assert_int_equal(wikitext_clean(&wikitext, text, strlen(text), &plain, &length, NULL),
                     BERTH_OK);
    setlocale(LC_ALL, "C");
    assert_int_equal(length, strlen("Kept formula_1 a.\n"));
    assert_memory_equal(plain, "Kept formula_1 a.\n", length);
    wikitext_done(&wikitext);
}

static void test_without_memory(void **state) {
    (void)state;
    static const char text[] = "== A ==\n[[b|c]] {{nowrap|d}} &amp; {{x|{{y}}}}\n'''e''' end.\n";
    const char *plain;
    size_t length;
    struct wikitext whole = make();
    memory_fail_at(0, 0);
    assert_int_equal(wikitext_clean(&whole, text, sizeof text - 1, &plain, &length, NULL),
                     BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    wikitext_done(&whole);
    assert_true(calls > 4);
    for (uint64_t i = 1; i <= calls; i++) {
        struct wikitext wikitext = make();
        struct berth_error error;
        memory_fail_at(i, 0);
        enum berth_status status =
            wikitext_clean(&wikitext, text, sizeof text - 1, &plain, &length, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_NO_MEMORY);
        assert_int_equal(length, 0);
        // The cleaner can be used again.
        assert_int_equal(wikitext_clean(&wikitext, text, sizeof text - 1, &plain, &length, NULL),
                         BERTH_OK);
        assert_true(length > 0);
        wikitext_done(&wikitext);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_guarantees),
        cmocka_unit_test(test_random_markup), cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_long_variants), cmocka_unit_test(test_locale),
        cmocka_unit_test(test_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
