// SPDX-License-Identifier: Apache-2.0
// Finds where a sentence of an article ends, by rules that look at the words around a mark.
// text_shards.c and shard_stage.c cut articles with it, and the cleaner of wikitext finds the
// sentence that it must leave out. The rules and their examples are listed in
// doc/pretraining-data.md.
#include "data/corpus/sentences.h"

#include "core/utf8.h"
#include "text/python.h"

#include <string.h>

// Word lists: words without their full stop, each between blanks. A sentence never ends after
// these.
static const char never_final[] =
    " Mr Mrs Ms Messrs Mme Mlle Dr Prof Gen Col Capt Cpt Lt Sgt Cpl Maj Adm Cmdr Cdr Brig "
    "Rev Revd Fr Hon St Ste Sts Sen Rep Gov Pres Supt Msgr Mgr Mt Ft Pvt Gens Cols Profs Drs "
    "Amb Sec Treas Insp vs v cf ca viz approx resp incl esp et op cit ibid lit trans transl "
    "dim vt eg ie ed eds rev illus repr introd ";
// A sentence does not end after these if a number follows: "No. 5", "Sept. 11".
static const char before_numbers[] =
    " No Nos no nos Vol Vols vol vols Fig Figs fig figs Op Nr nr pp p Pt pt Ch ch Chap chap "
    "Art art Sect sect Para para Ex ex Eq eq Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov "
    "Dec Bk bk Abt abt Ser Cat Tab Ref est circa ";
// A sentence ends after these only if a word that often begins one follows.
static const char seldom_final[] =
    " Jr Sr Inc Co Corp Ltd Bros Ave Blvd Rd Assn Dept Univ Mass Conn Calif Penn Ala Ariz "
    "Ark Colo Fla Ill Ind Kans Ky La Md Mich Minn Miss Mo Mont Neb Nev Okla Ore Tenn Tex Va "
    "Vt Wash Wis Wyo Esq Ph M.A B.A etc al sp spp subsp var ";
// Words that often begin a sentence.
static const char starters[] =
    " The A An In On At It Its He She They We You I His Her Their Our This That These Those "
    "There Here As After Before When While Where Although Though Because Since If Unless "
    "Until However But And Or So Yet For From By With Without During Under Over Among "
    "Between Some Many Most Several Other Others Another Each Both All One Two Three First "
    "Second Later Then Thus Therefore Today Now Not No What Who Which Why How According "
    "Despite Following Also Such To Of About Around Throughout Once Only Even More "
    "Additionally Furthermore Moreover Nevertheless Instead Meanwhile Finally Eventually "
    "Initially Originally Currently Recently Subsequently Upon Within Like Unlike Beginning "
    "Based ";

static int is_in(const char *list, const char *word, size_t length) {
    for (const char *at = list; (at = memmem(at, strlen(at), word, length)) != NULL; at++) {
        if (at[-1] == ' ' && at[length] == ' ') {
            return 1;
        }
    }
    return 0;
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int is_small(char c) {
    return c >= 'a' && c <= 'z';
}

static int is_capital(char c) {
    return c >= 'A' && c <= 'Z';
}

// Whether the text begins with a lower-case letter: ASCII, or one of two bytes (Latin-1, common
// Cyrillic and Greek).
static int is_small_at(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (length < 2 || bytes[0] < 0x80) {
        return length > 0 && is_small(text[0]);
    }
    return (bytes[0] == 0xc3 && bytes[1] >= 0x9f && bytes[1] != 0xb7) ||
           (bytes[0] == 0xce && bytes[1] >= 0xac) || (bytes[0] == 0xcf && bytes[1] <= 0x89) ||
           (bytes[0] == 0xd0 && bytes[1] >= 0xb0) || (bytes[0] == 0xd1 && bytes[1] <= 0x9f);
}

// The length in bytes of the quotation mark or bracket at `text`: one of the bytes `plain`, or one
// of the strings `wide`; 0: none.
static size_t mark_at(const char *text, size_t length, const char *plain, const char *const *wide) {
    if (length > 0 && text[0] != '\0' && strchr(plain, text[0]) != NULL) {
        return 1;
    }
    for (; *wide != NULL; wide++) {
        size_t size = strlen(*wide);
        if (length >= size && memcmp(text, *wide, size) == 0) {
            return size;
        }
    }
    return 0;
}

static size_t closing_at(const char *text, size_t length) {
    static const char *const wide[] = {"’", "”", "»", "」", "』", "）", "】", "》", "〉", NULL};
    return mark_at(text, length, "\"')]}", wide);
}

static size_t opening_at(const char *text, size_t length) {
    static const char *const wide[] = {"\xe2\x80\x98", "\xe2\x80\x9c", "\xc2\xab", NULL};
    return mark_at(text, length, "\"'([{", wide);
}

// --- around a full stop -------------------------------------------------------------------------

// The word before a full stop: letters, digits, inner stops and hyphens.
struct word {
    const char *text;
    size_t length;
    int begins; // the sentence
};

static int is_word_byte(char c) {
    return (c & 0x80) != 0 || is_small(c) || is_capital(c) || is_digit(c) || c == '.' || c == '&';
}

static struct word word_before(const char *begin, const char *stop) {
    const char *at = stop;
    while (at > begin && is_word_byte(at[-1])) {
        at--;
    }
    return (struct word){at, (size_t)(stop - at), at == begin};
}

static int has_inner_stop(struct word word) {
    return word.length > 1 && memchr(word.text + 1, '.', word.length - 1) != NULL;
}

static int all_digits(struct word word) {
    size_t i = 0;
    while (i < word.length && is_digit(word.text[i])) {
        i++;
    }
    return i == word.length;
}

// Whether a full stop ends the sentence. `next` is the text after the white space that follows it;
// it does not begin with a lower-case letter.
static int stop_ends_sentence(struct word before, const char *next, size_t length) {
    size_t count = 0;
    while (count < length && (is_capital(next[count]) || is_small(next[count]))) {
        count++;
    }
    struct word after = (struct word){next, count, 0};
    int starts = after.length > 0 && is_in(starters, after.text, after.length);
    if (before.length == 0) {
        return 1;
    }
    if (before.length == 1 && !is_digit(before.text[0])) { // an initial, "c." or a unit
        return !before.begins && starts && after.length > 1;
    }
    if (before.begins && before.length <= 3 && all_digits(before)) { // an item number
        return 0;
    }
    if (is_in(never_final, before.text, before.length)) {
        return 0;
    }
    if (length > 0 && is_digit(next[0]) && is_in(before_numbers, before.text, before.length)) {
        return 0;
    }
    return !(has_inner_stop(before) || is_in(seldom_final, before.text, before.length)) || starts;
}

// --- sentences ----------------------------------------------------------------------------------

static int is_end_mark(char c) {
    return c == '.' || c == '!' || c == '?';
}

// Whether the marks [mark, past) end the sentence that begins at `begin`. `next` is the text after
// the white space that follows them.
static int marks_end_sentence(const char *begin, const char *mark, const char *past,
                              const char *next, size_t length) {
    size_t opening;
    while ((opening = opening_at(next, length)) > 0) {
        next += opening;
        length -= opening;
    }
    if (is_small_at(next, length)) {
        return 0;
    }
    int one_stop = past == mark + 1 && *mark == '.';
    return !one_stop || stop_ends_sentence(word_before(begin, mark), next, length);
}

// The end of the sentence if the marks at `at` end it; NULL: it continues.
static const char *end_after(const char *begin, const char *at, const char *end) {
    const char *past = at, *closed, *next;
    size_t closing;
    while (past < end && is_end_mark(*past)) {
        past++;
    }
    for (closed = past; (closing = closing_at(closed, (size_t)(end - closed))) > 0;) {
        closed += closing;
    }
    if (closed < end && !is_blank(*closed)) {
        return NULL;
    }
    for (next = closed; next < end && is_blank(*next);) {
        next++;
    }
    return next == end || marks_end_sentence(begin, at, past, next, (size_t)(end - next)) ? closed
                                                                                          : NULL;
}

// The length of an end mark of other scripts at `text`; 0: none. The first three need no blank
// after them.
static size_t wide_mark_at(const char *text, size_t length, int *needs_blank) {
    static const char *const marks[] = {"。", "！", "？", "।", "॥", "؟", "۔", "።", "။", "។"};
    enum { WITHOUT_BLANK = 3 };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const size_t size = strlen(marks[i]);
        if (length >= size && memcmp(text, marks[i], size) == 0) {
            *needs_blank = i >= WITHOUT_BLANK;
            return size;
        }
    }
    return 0;
}

// Like end_after for the marks from `*at` on, of which the first is of another script; no
// abbreviation contains these. After a closing quotation mark the sentence continues unless white
// space follows: 「...。」と言った。 Moves *at to the last byte of marks that do not end the
// sentence.
static const char *end_after_wide(const char **at, const char *end) {
    const char *past = *at;
    int needs_blank = 1, one_needs_blank;
    size_t size;
    while ((size = wide_mark_at(past, (size_t)(end - past), &one_needs_blank)) > 0) {
        needs_blank &= one_needs_blank;
        past += size;
        while (past < end && is_end_mark(*past)) {
            past++;
        }
    }
    if (past == *at) {
        return NULL;
    }
    *at = past - 1;
    for (; (size = closing_at(past, (size_t)(end - past))) > 0; needs_blank = 1) {
        past += size;
    }
    const int is_wide_blank = end - past >= 3 && memcmp(past, "\xe3\x80\x80", 3) == 0; // U+3000
    return past == end || is_blank(*past) || is_wide_blank || !needs_blank ? past : NULL;
}

static const char *find_end(const char *begin, const char *end) {
    for (const char *at = begin; at < end; at++) {
        const char *stop = (*at & 0x80) != 0 ? end_after_wide(&at, end)
                           : is_end_mark(*at) && (at == begin || !is_end_mark(at[-1]))
                               ? end_after(begin, at, end)
                               : NULL;
        if (stop != NULL) {
            return stop;
        }
    }
    return end;
}

int sentences_may_begin(const char *text, size_t length) {
    size_t opening;
    while ((opening = opening_at(text, length)) > 0) {
        text += opening;
        length -= opening;
    }
    if (length == 0 || (text[0] & 0x80) == 0) {
        return length > 0 && is_capital(text[0]);
    }
    uint32_t first;
    (void)utf8_decode(text, length, &first);
    return python_is_word(first) && !is_small_at(text, length);
}

int sentences_next(struct sentences *sentences, const char **begin, size_t *length) {
    const char *text = sentences->text, *end = text + sentences->length,
               *at = text + sentences->offset;
    while (at < end && is_blank(*at)) {
        at++;
    }
    if (at == end) {
        sentences->offset = sentences->length;
        return 0;
    }
    if (sentences->line_end <= (size_t)(at - text)) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        sentences->line_end = newline != NULL ? (size_t)(newline - text) : sentences->length;
    }
    const char *stop = find_end(at, text + sentences->line_end);
    sentences->offset = (size_t)(stop - text);
    while (is_blank(stop[-1])) {
        stop--;
    }
    *begin = at;
    *length = (size_t)(stop - at);
    return 1;
}
