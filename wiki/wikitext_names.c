// SPDX-License-Identifier: Apache-2.0
// Prefixes of links that are not part of the text, in the languages of the larger wikis, and
// language variants, -{zh-hans:...;zh-hant:...}-. wikitext.c asks about every link.
#include "core/utf8.h"
#include "text/python.h"
#include "wiki/wikitext_parts.h"

#include <string.h>

enum { PREFIX_MAX = 64 }; // bytes

// --- prefixes -----------------------------------------------------------------------------------

// In lower case. A dump lists its own namespaces, but neither their older names nor their aliases;
// those of files, images and categories are here.
static const char *const names[] = {
    // English, with other wikis and namespaces
    "file", "image", "media", "category", "template", "wikipedia", "wp", "help", "portal", "user",
    "talk", "user talk", "wikipedia talk", "file talk", "template talk", "special", "mediawiki",
    "book", "draft", "module", "project", "commons", "simple", "species", "meta",
    // Germanic
    "datei", "bild", "kategorie", "bestand", "afbeelding", "categorie", "fil", "billede", "bilde",
    "kategori", "lêer", "beeld", "mynd", "flokkur",
    // Romance
    "fichier", "catégorie", "archivo", "imagen", "categoría", "immagine", "categoria", "ficheiro",
    "imagem", "arquivo", "fitxer", "imatge", "imaxe", "fișier", "fişier", "imagine",
    // Slavic
    "plik", "grafika", "kategoria", "soubor", "obrázek", "súbor", "obrázok", "kategória",
    "datoteka", "slika", "kategorija", "файл", "изображение", "категория", "зображення",
    "категорія", "выява", "катэгорыя", "картинка", "датотека", "слика", "категорија", "податотека",
    // other languages of Europe
    "tiedosto", "kuva", "luokka", "pilt", "kategooria", "fájl", "kép", "attēls", "vaizdas",
    "αρχείο", "εικόνα", "κατηγορία", "fitxategi", "irudi", "delwedd", "categori", "dosiero",
    "kategorio", "dosya", "resim", "fayl", "şəkil", "kateqoriya", "պատկեր", "կատեգորիա", "ფაილი",
    "სურათი", "კატეგორია",
    // Asia
    "сурет", "санат", "ملف", "صورة", "تصنيف", "پرونده", "تصویر", "رده", "فائل", "زمرہ", "קובץ",
    "תמונה", "קטגוריה", "चित्र", "श्रेणी", "वर्ग", "চিত্র", "বিষয়শ্রেণী", "படிமம்", "பகுப்பு", "దస్త్రం",
    "బొమ్మ", "వర్గం", "പ്രമാണം", "ചിത്രം", "വർഗ്ഗം", "ไฟล์", "ภาพ", "หมวดหมู่", "berkas", "gambar",
    "tập tin", "hình", "thể loại", "ファイル", "画像", "カテゴリ", "파일", "그림", "분류", "文件",
    "档案", "檔案", "图像", "圖像", "图片", "圖片", "分类", "分類"};

// A name in lower case, as MediaWiki compares them.
struct folded {
    uint32_t points[2 * PREFIX_MAX];
    size_t count;
};

// Only the first PREFIX_MAX characters.
static struct folded fold(const char *text, size_t length) {
    struct folded folded;
    uint32_t points[PREFIX_MAX];
    size_t count = 0;
    while (length > 0 && count < PREFIX_MAX) {
        const size_t bytes = utf8_decode(text, length, &points[count]);
        points[count] = points[count] == '_' ? ' ' : points[count];
        text += bytes;
        length -= bytes;
        count++;
    }
    folded.count = python_lower(points, count, folded.points);
    return folded;
}

static int add_name(struct string_index *prefixes, const char *name) {
    const struct folded folded = fold(name, strlen(name));
    return string_index_put(prefixes, (const char *)folded.points,
                            folded.count * sizeof *folded.points) != STRING_INDEX_NONE;
}

// Fills wikitext->dropped_prefixes, once for all pages; 0 when out of memory.
static int fold_names(struct wikitext *wikitext) {
    struct string_index *prefixes = &wikitext->dropped_prefixes;
    int ok = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names && ok; i++) {
        ok = add_name(prefixes, names[i]);
    }
    for (size_t i = 0; i < wikitext->namespace_count && ok; i++) {
        ok = add_name(prefixes, wikitext->namespaces[i]);
    }
    if (!ok) {
        string_index_done(prefixes);
    }
    return ok;
}

// Two or three lower-case letters, possibly more after a hyphen.
static int is_language(const char *text, size_t length) {
    size_t letters = 0;
    while (letters < length && text[letters] >= 'a' && text[letters] <= 'z') {
        letters++;
    }
    return (letters == 2 || letters == 3) && (letters == length || text[letters] == '-');
}

int wikitext_drops_prefix(struct wikitext *wikitext, const char *text, size_t length) {
    if (length > PREFIX_MAX) {
        return 0;
    }
    if (wikitext->dropped_prefixes.count == 0 && !fold_names(wikitext)) {
        wikitext->failed = 1;
        return 0;
    }
    const struct folded prefix = fold(text, length);
    return string_index_find(&wikitext->dropped_prefixes, (const char *)prefix.points,
                             prefix.count * sizeof *prefix.points) != STRING_INDEX_NONE ||
           is_language(text, length);
}

// --- variants -----------------------------------------------------------------------------------

// The length of a code such as "zh-hans:" at text[0, length), with surrounding blanks; 0: none.
static size_t code_length(const char *text, size_t length) {
    const char *colon = memchr(text, ':', length < PREFIX_MAX ? length : PREFIX_MAX);
    if (colon == NULL) {
        return 0;
    }
    const char *begin = text, *end = colon;
    while (begin < end && *begin == ' ') {
        begin++;
    }
    while (end > begin && end[-1] == ' ') {
        end--;
    }
    return is_language(begin, (size_t)(end - begin)) ? (size_t)(colon + 1 - text) : 0;
}

// A branch ends at a semicolon before another code, or at the end; entities also have semicolons.
static size_t branch_length(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const size_t left = length - i - 1;
        if (text[i] == ';' && (left == 0 || code_length(text + i + 1, left) > 0)) {
            return i;
        }
    }
    return length;
}

// Whether the flags before the bar mean that nothing is shown: a rule, a title, a description.
static int is_hidden(const char *flags, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const int is_alone = (i == 0 || strchr("; ", flags[i - 1]) != NULL) &&
                             (i + 1 == length || strchr("; ", flags[i + 1]) != NULL);
        if (is_alone && strchr("HTD-", flags[i]) != NULL) {
            return 1;
        }
    }
    return 0;
}

int wikitext_has_variants(const char *text, size_t length) {
    return memchr(text, '|', length) != NULL || code_length(text, length) > 0;
}

size_t wikitext_choose_variant(char *text, size_t length) {
    const char *bar = memchr(text, '|', length), *from = bar != NULL ? bar + 1 : text;
    if (bar != NULL && is_hidden(text, (size_t)(bar - text))) {
        return 0;
    }
    size_t left = length - (size_t)(from - text);
    const size_t code = code_length(from, left);
    from += code;
    left -= code;
    left = code > 0 ? branch_length(from, left) : left;
    memmove(text, from, left);
    return left;
}
