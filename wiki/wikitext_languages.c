// SPDX-License-Identifier: Apache-2.0
// Shows templates of words in other languages, and of how words are pronounced, as the page does:
// the name of the language, the word, its sounds. Called through the rows of wikitext_rows.c, while
// wikitext.c cleans a page.
#include "core/caseless.h"
#include "wiki/wikitext_parts.h"

// --- languages ----------------------------------------------------------------------------------

static const struct language {
    const char *code, *name;
    int is_latin; // its script; otherwise {{lang-xx}} has a transliteration
} languages[] = {
    {"af", "Afrikaans", 1},
    {"sq", "Albanian", 1},
    {"am", "Amharic", 0},
    {"ang", "Old English", 1},
    {"ar", "Arabic", 0},
    {"arc", "Imperial Aramaic", 0},
    {"hy", "Armenian", 0},
    {"az", "Azerbaijani", 1},
    {"eu", "Basque", 1},
    {"be", "Belarusian", 0},
    {"bn", "Bengali", 0},
    {"bs", "Bosnian", 1},
    {"br", "Breton", 1},
    {"bg", "Bulgarian", 0},
    {"ca", "Catalan", 1},
    {"ceb", "Cebuano", 1},
    {"zh", "Chinese", 0},
    {"co", "Corsican", 1},
    {"hr", "Croatian", 1},
    {"cs", "Czech", 1},
    {"cy", "Welsh", 1},
    {"da", "Danish", 1},
    {"de", "German", 1},
    {"el", "Greek", 0},
    {"en", "English", 1},
    {"eo", "Esperanto", 1},
    {"es", "Spanish", 1},
    {"et", "Estonian", 1},
    {"fa", "Persian", 0},
    {"fi", "Finnish", 1},
    {"fil", "Filipino", 1},
    {"fo", "Faroese", 1},
    {"fr", "French", 1},
    {"fy", "West Frisian", 1},
    {"ga", "Irish", 1},
    {"gd", "Scottish Gaelic", 1},
    {"gl", "Galician", 1},
    {"grc", "Ancient Greek", 0},
    {"grc-gre", "Greek", 0},
    {"gu", "Gujarati", 0},
    {"gv", "Manx", 1},
    {"haw", "Hawaiian", 1},
    {"he", "Hebrew", 0},
    {"hi", "Hindi", 0},
    {"hu", "Hungarian", 1},
    {"id", "Indonesian", 1},
    {"is", "Icelandic", 1},
    {"it", "Italian", 1},
    {"ja", "Japanese", 0},
    {"ka", "Georgian", 0},
    {"kk", "Kazakh", 0},
    {"km", "Khmer", 0},
    {"kn", "Kannada", 0},
    {"ko", "Korean", 0},
    {"kw", "Cornish", 1},
    {"ky", "Kyrgyz", 0},
    {"la", "Latin", 1},
    {"lb", "Luxembourgish", 1},
    {"lo", "Lao", 0},
    {"lt", "Lithuanian", 1},
    {"lv", "Latvian", 1},
    {"mi", "Māori", 1},
    {"mk", "Macedonian", 0},
    {"ml", "Malayalam", 0},
    {"mn", "Mongolian", 0},
    {"mr", "Marathi", 0},
    {"ms", "Malay", 1},
    {"mt", "Maltese", 1},
    {"my", "Burmese", 0},
    {"ne", "Nepali", 0},
    {"nl", "Dutch", 1},
    {"no", "Norwegian", 1},
    {"nb", "Norwegian Bokmål", 1},
    {"nn", "Norwegian Nynorsk", 1},
    {"non", "Old Norse", 1},
    {"oc", "Occitan", 1},
    {"or", "Odia", 0},
    {"pa", "Punjabi", 0},
    {"pl", "Polish", 1},
    {"ps", "Pashto", 0},
    {"pt", "Portuguese", 1},
    {"qu", "Quechua", 1},
    {"ro", "Romanian", 1},
    {"ru", "Russian", 0},
    {"sa", "Sanskrit", 0},
    {"sd", "Sindhi", 0},
    {"si", "Sinhala", 0},
    {"sk", "Slovak", 1},
    {"sl", "Slovene", 1},
    {"so", "Somali", 1},
    {"sr", "Serbian", 0},
    {"sv", "Swedish", 1},
    {"sw", "Swahili", 1},
    {"syr", "Syriac", 0},
    {"ta", "Tamil", 0},
    {"te", "Telugu", 0},
    {"tg", "Tajik", 0},
    {"th", "Thai", 0},
    {"tk", "Turkmen", 1},
    {"tl", "Tagalog", 1},
    {"tr", "Turkish", 1},
    {"tt", "Tatar", 0},
    {"uk", "Ukrainian", 0},
    {"ur", "Urdu", 0},
    {"uz", "Uzbek", 1},
    {"vi", "Vietnamese", 1},
    {"yi", "Yiddish", 0},
    {"yo", "Yoruba", 1},
    {"zu", "Zulu", 1},
    {"goh", "Old High German", 1},
    {"gmh", "Middle High German", 1},
    {"enm", "Middle English", 1},
    {"fro", "Old French", 1},
    {"sga", "Old Irish", 1},
    {"cu", "Church Slavonic", 0},
    {"scn", "Sicilian", 1},
    {"sc", "Sardinian", 1},
    {"vec", "Venetian", 1},
    {"nap", "Neapolitan", 1},
    {"rm", "Romansh", 1},
    {"fur", "Friulian", 1},
    {"ber", "Berber languages", 0},
    {"kab", "Kabyle", 1},
    {"ku", "Kurdish", 1},
    {"mg", "Malagasy", 1},
    {"ht", "Haitian Creole", 1},
    {"lij", "Ligurian", 1},
    {"lmo", "Lombard", 1},
    {"pms", "Piedmontese", 1},
    {"nds", "Low German", 1},
    {"sco", "Scots", 1},
    {"se", "Northern Sami", 1},
    {"got", "Gothic", 0},
    {"bo", "Tibetan", 0},
    {"ug", "Uyghur", 0},
    {"xh", "Xhosa", 1},
    {"st", "Sotho", 1},
    {"ny", "Chewa", 1},
    {"sn", "Shona", 1},
    {"rw", "Kinyarwanda", 1},
    {"ha", "Hausa", 1},
    {"ig", "Igbo", 1},
    {"dv", "Maldivian", 0},
    {"cop", "Coptic", 0},
    {"akk", "Akkadian", 1},
    {"ota", "Ottoman Turkish", 0},
    {"nah", "Nahuatl languages", 1},
    {"gn", "Guarani", 1},
};

static const struct language *find_language(const char *code, size_t length) {
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        if (strlen(languages[i].code) == length &&
            caseless_equal_bytes(languages[i].code, code, length)) {
            return &languages[i];
        }
    }
    return NULL;
}

// "Greek: text, romanized: translit, lit. 'literal'"
static int put_language(struct wikitext_call *call, const struct language *language,
                        struct wikitext_argument text, struct wikitext_argument romanized,
                        struct wikitext_argument literal) {
    const struct wikitext_argument label = wikitext_named(call, "label");
    if ((language == NULL && label.length == 0) || text.length == 0 ||
        !wikitext_names_only(call, "label link links lit translit translation italic italics i "
                                   "rtl size")) {
        return 0;
    }
    if (label.length == 0) {
        buffer_put_text(call->out, language->name);
    } else if (!wikitext_is(&label, "none")) {
        wikitext_put(call, label);
    }
    buffer_put_text(call->out, call->out->length > 0 ? ": " : "");
    wikitext_put(call, text);
    if (romanized.length > 0) {
        buffer_put_text(call->out, ", romanized: ");
        wikitext_put(call, romanized);
    }
    if (literal.length > 0) {
        buffer_put_text(call->out, ", lit. '");
        wikitext_put(call, literal);
        buffer_put_text(call->out, "'");
    }
    return 1;
}

static struct wikitext_argument either(struct wikitext_argument a, struct wikitext_argument b) {
    return a.length > 0 ? a : b;
}

static struct wikitext_argument literal_of(const struct wikitext_call *call, size_t position) {
    return either(either(wikitext_named(call, "lit"), wikitext_named(call, "translation")),
                  wikitext_positional(call, position));
}

int wikitext_langx(struct wikitext_call *call) {
    const struct wikitext_argument code = wikitext_positional(call, 0);
    return put_language(call, find_language(code.text, code.length), wikitext_positional(call, 1),
                        either(wikitext_named(call, "translit"), wikitext_positional(call, 2)),
                        literal_of(call, 3));
}

int wikitext_lang_of(struct wikitext_call *call) {
    static const struct wikitext_argument none = {"", 0};
    const size_t skip = strlen("lang-");
    const struct language *language =
        find_language(call->name.text + skip, call->name.length - skip);
    const int is_latin = language != NULL && language->is_latin;
    const struct wikitext_argument romanized =
        either(wikitext_named(call, "translit"), is_latin ? none : wikitext_positional(call, 1));
    return put_language(call, language, wikitext_positional(call, 0), romanized,
                        literal_of(call, is_latin ? 1 : 2));
}

// --- sounds -------------------------------------------------------------------------------------

// "French: [text]", "pronounced [text]"
static int put_sound(struct wikitext_call *call, const struct language *language,
                     struct wikitext_argument text, struct wikitext_argument mode,
                     const char *after_name) {
    const int is_named = after_name != NULL || wikitext_is(&mode, "lang");
    if (text.length == 0 || (is_named && language == NULL)) {
        return 0;
    }
    if (is_named) {
        buffer_print(call->out, "%s%s: ", language->name, after_name != NULL ? after_name : "");
    } else if (mode.length > 0 && !wikitext_is(&mode, "pron") && !wikitext_is(&mode, "local")) {
        return 0;
    }
    buffer_put_text(call->out, wikitext_is(&mode, "pron")    ? "pronounced "
                               : wikitext_is(&mode, "local") ? "locally "
                                                             : "");
    buffer_put_byte(call->out, '[');
    wikitext_put(call, text);
    buffer_put_byte(call->out, ']');
    return 1;
}

// {{IPA-fr|text|mode}}
int wikitext_ipa_of(struct wikitext_call *call) {
    const size_t skip = strlen("ipa-");
    return put_sound(call, find_language(call->name.text + skip, call->name.length - skip),
                     wikitext_positional(call, 0), wikitext_positional(call, 1),
                     call->count < 2 ? " pronunciation" : NULL);
}

// {{IPA|text}} or {{IPA|fr|text|mode}}
int wikitext_ipa(struct wikitext_call *call) {
    const struct wikitext_argument first = wikitext_positional(call, 0);
    if (call->count == 1) {
        wikitext_put(call, first);
        return first.length > 0;
    }
    const struct language *language = find_language(first.text, first.length);
    return language != NULL && put_sound(call, language, wikitext_positional(call, 1),
                                         wikitext_positional(call, 2), NULL);
}

// The letters and marks that {{IPAc-en}} shows as they are; other words of ASCII mean something.
static int is_sound(struct wikitext_argument part) {
    return (unsigned char)part.text[0] >= 0x80 ||
           (part.length == 1 && strchr("bdfhijklmnprstuvwxz.-()", part.text[0]) != NULL) ||
           ((unsigned char)part.text[part.length - 1] >= 0x80);
}

// {{IPAc-en|lang|ˈ|æ|s|k|i}}: "English: /ˈæski/"
int wikitext_ipac(struct wikitext_call *call) {
    static const struct {
        const char *key, *shown;
        int is_label; // before the sounds
    } words[] = {{"lang", "English: ", 1},
                 {"pron", "pronounced ", 1},
                 {"also", "also ", 1},
                 {"UK", "UK: ", 1},
                 {"uk", "UK: ", 1},
                 {"US", "US: ", 1},
                 {"us", "US: ", 1},
                 {"AU", "AU: ", 1},
                 {"'", "ˈ", 0},
                 {",", "ˌ", 0},
                 {"_", " ", 0},
                 {",_", ", ", 0},
                 {"g", "ɡ", 0},
                 {"I", "ɪ", 0}};
    int is_open = 0;
    if (!wikitext_names_only(call, "audio")) {
        return 0;
    }
    for (size_t i = 0; i < call->count; i++) {
        const struct wikitext_argument part = wikitext_positional(call, i);
        size_t w = 0;
        while (w < sizeof words / sizeof *words && !wikitext_is(&part, words[w].key)) {
            w++;
        }
        const int is_word = w < sizeof words / sizeof *words;
        const int is_label = is_word && words[w].is_label;
        if (part.length == 0 || (part.length > 4 && part.text[part.length - 4] == '.')) {
            continue; // a recording
        }
        if ((is_label && is_open) || (!is_word && !is_sound(part))) {
            return 0;
        }
        buffer_put_text(call->out, is_open || is_label ? "" : "/");
        is_open |= !is_label;
        if (is_word) {
            buffer_put_text(call->out, words[w].shown);
        } else {
            wikitext_put(call, part);
        }
    }
    buffer_put_byte(call->out, '/');
    return is_open;
}

int wikitext_respell(struct wikitext_call *call) {
    int joins = 0;
    for (size_t i = 0; i < call->count; i++) {
        const struct wikitext_argument part = wikitext_positional(call, i);
        const int is_blank = wikitext_is(&part, "_"), is_quote = wikitext_is(&part, "'");
        buffer_put_text(call->out, is_blank ? " " : joins && !is_quote ? "-" : "");
        if (!is_blank) {
            wikitext_put(call, part);
        }
        joins = !is_blank;
    }
    return call->out->length > 0;
}
