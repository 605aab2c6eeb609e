// SPDX-License-Identifier: Apache-2.0
// Templates, parser functions and escaped markup: five and more of every family, with the text that
// a reader of the page sees; and what is left out, and counted, where that text is not known.
#include "core/harness.h"
#include "core/memory.h"
#include "wiki/wikitext.h"
#include "wiki/wikitext_parts.h"

#include <string.h>

static const struct {
    const char *text, *plain;
} shown[] = {
    // numbers and formatting
    {"{{formatnum:1234567}} people.", "1,234,567 people.\n"},
    {"{{formatnum:-10}} °C and {{formatnum:3}}.", "-10 °C and 3.\n"},
    {"{{formatnum:1,234.5|R}} and {{formatnum:9876543|NOSEP}}.", "1234.5 and 9876543.\n"},
    {"{{nts|42}} old and {{nts|12345}}.", "42 old and 12,345.\n"},
    {"{{ordinal|21}}, {{ordinal|112}} and {{ordinal|3}}.", "21st, 112th and 3rd.\n"},
    {"{{percentage|1|4}} or {{percentage|1|3|1}}.", "25% or 33.3%.\n"},
    {"{{gaps|1|234|567}} is {{val|1234567|fmt=commas}}.", "1234567 is 1,234,567.\n"},
    {"{{US$|5 million}}, {{GBP|3}} and {{€|7}}.", "US$5 million, £3 and €7.\n"},
    {"{{no.|5}} in {{vol.|2}}.", "No. 5 in vol. 2.\n"},
    // languages
    {"{{langx|fr|chat}} and {{lang-de|Katze}}.", "French: chat and German: Katze.\n"},
    {"{{langx|grc|ἀναρχία|anarkhía|lack of rule}}.",
     "Ancient Greek: ἀναρχία, romanized: anarkhía, lit. 'lack of rule'.\n"},
    {"{{lang-ru|Москва|Moskva}} or {{lang-es|gato|lit=cat}}.",
     "Russian: Москва, romanized: Moskva or Spanish: gato, lit. 'cat'.\n"},
    {"{{langx|la|canis|label=none|i=no}} and {{lang|fr|un {{nowrap|gros}} chat}}.",
     "canis and un gros chat.\n"},
    {"{{transl|grc|ISO|anarchos}} and {{transliteration|ar|kitāb}}.", "anarchos and kitāb.\n"},
    {"{{nihongo|Tokyo|東京|Tōkyō}} and {{nihongo|Aikido|合気道|Aikidō|lead=yes}}.",
     "Tokyo (東京, Tōkyō) and Aikido (Japanese: 合気道, Hepburn: Aikidō).\n"},
    {"China ({{zh|s=中国|t=中國|p=Zhōngguó}}).",
     "China (simplified Chinese: 中国; traditional Chinese: 中國; pinyin: Zhōngguó).\n"},
    {"Seoul ({{Korean|hangul=서울|rr=Seoul}}).", "Seoul (Korean: 서울; RR: Seoul).\n"},
    {"Alabama ({{IPAc-en|audio=a.ogg|ˌ|æ|l|ə|ˈ|b|æ|m|ə}} {{respell|AL|ə|BAM|ə}}).",
     "Alabama (/ˌæləˈbæmə/ AL-ə-BAM-ə).\n"},
    {"Ayn ({{IPAc-en|lang|ˈ|aɪ|n|_|ˈ|r|æ|n|d}}; {{IPA|fr|ajn|lang}}; {{IPA-ca|ajn|local}}).",
     "Ayn (English: /ˈaɪn ˈrænd/; French: [ajn]; locally [ajn]).\n"},
    {"The letter {{angbr|a}} is {{IPA|/a/}}.", "The letter ⟨a⟩ is /a/.\n"},
    // fractions
    {"{{frac|1|2}} and {{frac|3|1|2}}.", "1⁄2 and 3 1⁄2.\n"},
    {"{{fraction|7|8}} of {{frac|3}}.", "7⁄8 of 1⁄3.\n"},
    {"{{sfrac|1|2}} and {{sfrac|3n + 1|2}}.", "1/2 and (3n + 1)/2.\n"},
    {"{{sfrac|2}} and {{sfrac|2|3|4}}.", "1/2 and 2 3/4.\n"},
    {"{{convert|1/2|in|mm}} and {{convert|2+1/2|mi|km}}.",
     "1⁄2 inch (13 mm) and 2 1⁄2 miles (4.0 km).\n"},
    // dates and ages
    {"{{birth date|1809|2|12}} and {{birth date|1809|2|12|df=yes}}.",
     "February 12, 1809 and 12 February 1809.\n"},
    {"{{death date and age|1865|4|15|1809|2|12}}.", "April 15, 1865 (aged 56).\n"},
    {"{{start date|1969|7}} to {{end date|1970}}.", "July 1969 to 1970.\n"},
    {"{{as of|2010}}, {{as of|2011|6|20|lc=y}}, {{As of|2013|June|8|df=US}}.",
     "As of 2010, as of 20 June 2011, As of June 8, 2013.\n"},
    {"{{circa|1500}}, {{circa|1500|1510}}, {{floruit|1200}} and {{reign|1066|1087}}.",
     "c. 1500, c. 1500 – c. 1510, fl. 1200 and r. 1066–1087.\n"},
    {"{{OldStyleDate|2 February|1905|20 January}}.", "2 February [O.S. 20 January] 1905.\n"},
    {"{{age|1950|3|2|2000|3|1}} years and {{MONTHNAME|3}}.", "49 years and March.\n"},
    {"{{dts|1777|12|16}}.", "December 16, 1777.\n"},
    // units
    {"{{convert|468|km2|sqmi}} of land.", "468 square kilometres (181 sq mi) of land.\n"},
    {"{{convert|1300|mi|km}} and {{convert|13000|mi|km}}.",
     "1300 miles (2100 km) and 13,000 miles (21,000 km).\n"},
    {"{{convert|5|km|mi|abbr=on}} or {{cvt|3|-|4|kg}}.", "5 km (3.1 mi) or 3–4 kg (6.6–8.8 lb).\n"},
    {"{{convert|10|-|100|m|ft}}.", "10–100 metres (33–328 ft).\n"},
    {"{{convert|20|C|F}} and {{convert|-40|F}}.", "20 °C (68 °F) and −40 °F (−40 °C).\n"},
    {"{{convert|5|m}}, {{cvt|1.8|m}} and {{convert|6|ft|2|in|cm}}.",
     "5 metres (16 ft), 1.8 m (5 ft 11 in) and 6 feet 2 inches (188 cm).\n"},
    {"A {{convert|5|km|mi|adj=on}} walk.", "A 5-kilometre (3.1 mi) walk.\n"},
    {"{{convert|22|e6acre|km2}}.", "22 million acres (89,000 km²).\n"},
    {"{{convert|100|km|mi|sp=us|order=flip}} and {{convert|1|mi|km|disp=or}}.",
     "62 miles (100 km) and 1 mile or 1.6 kilometres.\n"},
    {"{{convert|6.5|nmi|km mi}}.", "6.5 nautical miles (12.0 km; 7.5 mi).\n"},
    {"{{convert|85|kg|lb}}, {{convert|123|m|ft}} and {{convert|2.54|cm|in|2}}.",
     "85 kilograms (187 lb), 123 metres (404 ft) and 2.54 centimetres (1.00 in).\n"},
    // ships
    {"{{HMS|Ajax|22|6}} and {{HMS|Exeter|68}}.", "HMS Ajax and HMS Exeter (68).\n"},
    {"{{USS|Hornet|CV-12|2}} and {{USS|Enterprise|CV-6}}.", "Hornet and USS Enterprise (CV-6).\n"},
    {"{{SS|Great Eastern}} and {{RMS|Titanic}}.", "SS Great Eastern and RMS Titanic.\n"},
    {"{{ship|German battleship|Bismarck||2}} and {{ship||Mary Rose}}.",
     "Bismarck and Mary Rose.\n"},
    {"{{SMS|Emden|1908|6}}, {{GS|U-47|1938|2}} and {{sclass|Iowa|battleship}}.",
     "SMS Emden, U-47 and Iowa-class battleship.\n"},
    // mathematics
    {"{{val|6.241|e=18|u=C}} and {{val|5.5|u=kg}}.", "6.241×10¹⁸ C and 5.5 kg.\n"},
    {"{{val|1.00794|(7)}} and {{val|1.2|0.1|e=-3|u=kg/m3}}.",
     "1.00794(7) and (1.2±0.1)×10⁻³ kg/m³.\n"},
    {"{{val|-5|u=%}} and {{val|e=9|ul=Hz}}.", "−5% and 10⁹ Hz.\n"},
    {"{{math|''x'' + 1}}, {{mvar|y}} and {{sqrt|2}}.", "x + 1, y and √2.\n"},
    {"3{{e|5}} and {{10^|6}}.", "3×10⁵ and 10⁶.\n"},
    {"{{abs|x}} {{=}} 5.", "|x| = 5.\n"},
    {"10<sup>18</sup>, 10<sup>6.5</sup>, m<sup>−2</sup>, 2{{sup|n}}.", "10¹⁸, 10^6.5, m⁻², 2ⁿ.\n"},
    {"log<sub>10</sub>5, 101<sub>2</sub>, 19<sup>th</sup>, H<sub>2</sub>O.",
     "log₁₀5, 101₂, 19th, H2O.\n"},
    {"{{chem|SO|4|2-}}, {{chem|H|2|O}}, {{chem2|NH4+}}.", "SO4²⁻, H2O, NH4⁺.\n"},
    // quotations
    {"Said: {{quote|text=Be [[cat|good]].|author=X}} end.", "Said:\nBe good.\nend.\n"},
    {"So: {{blockquote|Be good.}} end.", "So:\nBe good.\nend.\n"},
    {"So: {{cquote|Be good.}} end.", "So:\nBe good.\nend.\n"},
    {"So: {{quotation|1=Be good.}} end.", "So:\nBe good.\nend.\n"},
    {"The ''[[cat]]''{{'}}s and dog{{'s}}, <q>never</q>..", "The cat's and dog's, “never”..\n"},
    {"{{sic|recieve}}, {{sic|recieve|hide=y}}.", "recieve [sic], recieve.\n"},
    // abbreviations
    {"{{abbr|NASA|National Aeronautics}} and {{abbrlink|HTML|x}}.", "NASA and HTML.\n"},
    {"{{tooltip|SR|Strike Rate}} and {{c.}} 1500.", "SR and c. 1500.\n"},
    {"{{nowrap|a b}}, {{nobr|c d}} and {{not a typo|e|f}}.", "a b, c d and ef.\n"},
    {"A{{snd}}B{{mdash}}C{{ndash}}D{{nbsp}}E.", "A – B—C–D E.\n"},
    {"{{key press|Ctrl|C}} and {{unichar|00A9|copyright sign}}.",
     "Ctrl+C and U+00A9 © COPYRIGHT SIGN.\n"},
    // coordinates
    {"{{coord|48|51|24|N|2|21|03|E|display=inline,title}} and {{coord|12|S|31|33|W}}.",
     "48°51′24″N 2°21′03″E and 12°S 31°33′W.\n"},
    {"{{coord|12.5|-3.25}} is the place{{coord|1|N|2|E|display=title}}.",
     "12.5°N 3.25°W is the place.\n"},
    // links
    {"{{ill|Lea Foo|de}} and {{ill|Foo (x)|de|lt=Foo}}.", "Lea Foo and Foo.\n"},
    {"{{slink|Berlin|History}} and {{wikt-lang|en|cat|cats}}.", "Berlin § History and cats.\n"},
    {"{{URL|https://example.org|Example}} and {{vanchor|one}}.", "Example and one.\n"},
    {"{{sortname|Ada|Lovelace}} and {{linktext|word}}.", "Ada Lovelace and word.\n"},
    {"{{flagicon|MAR}} {{flag|Morocco}} and {{audio|a.ogg|listen}}.", "Morocco and listen.\n"},
    // parser functions
    {"{{lc:ABC}}, {{uc:abc}} and {{ucfirst:abc}}, {{lcfirst:ABC}}.", "abc, ABC and Abc, aBC.\n"},
    {"{{#expr: 2 + 3 * 4}} and {{#expr: (1 + 2) / 4 round 1}}.", "14 and 0.8.\n"},
    {"{{#expr: 10 / 4 - -1}} and {{#expr: 2^10 mod 7}}.", "3.5 and 2.\n"},
    {"{{#if: x | yes | no}}, {{#if: | yes | no}} and {{#ifeq: 01 | 1 | same | other}}.",
     "yes, no and same.\n"},
    {"{{{1|default}}} end and {{#if:|a}} more.", "default end and more.\n"},
    // styles
    {"{{em|never}}, {{strong|ever}}, <em>a</em> <strong>b</strong>.", "never, ever, a b.\n"},
    {"{{small|a}}, {{big|b}}, <small>c</small> and {{resize|80%|d}}.", "a, b, c and d.\n"},
    {"{{mono|x}}, {{code|y}}, {{kbd|z}} and <code>w</code>.", "x, y, z and w.\n"},
    {"{{color|red|warm}} and {{background color|blue|cold}}.", "warm and cold.\n"},
    {"{{smallcaps|a}}, {{sc|b}}, {{underline|c}} and {{nobold|d}}.", "a, b, c and d.\n"},
    // entities and escaped markup
    {"1 &lt; 2 &amp; &lt;b&gt;x&lt;/b&gt;.", "1 < 2 & <b>x</b>.\n"},
    {"x<y and z>w, a<3.", "x<y and z>w, a<3.\n"},
    {"<nowiki>[[x]] and {{y|z}} ''q''</nowiki>.", "[[x]] and {{y|z}} ''q''.\n"},
    {"&#91;&#91;a&#93;&#93; &#123;b&#125; c&#124;d.", "[[a]] {b} c|d.\n"},
    {"The <foo> tag, {{tl|bar}} and {{!}}.", "The <foo> tag, {{bar}} and |.\n"},
    // footnotes and doubts, which are not part of the sentence
    {"It is so.{{sfn|Smith|1990|p=5}} It{{efn|A note.}} was{{citation needed|date=May 2015}}.",
     "It is so. It was.\n"},
    {"A{{r|a}} b{{refn|c}} d{{rp|5}} e{{when|date=May 2015}} f{{#tag:ref|g}} h{{anchor|i}}.",
     "A b d e f h.\n"},
};

// Sentences that are left out are counted; boxes, which belong to no sentence, are not.
static const struct {
    const char *text, *plain;
    int64_t left_out;
} gaps[] = {
    // within a sentence, at its end, before a word that begins none
    {"One. It has {{unknown|5}} parts. Three.", "One. Three.\n", 1},
    {"It has {{unknown|5}}. Two.\nIt ends {{unknown}}\nThree.", "Two.\nThree.\n", 2},
    {"{{unknown|5}} people came. The {{unknown}} was there. Three.", "Three.\n", 2},
    {"{{Unknown}} was there. Two.\n{{unknown|5}}% of it. Three. {{unknown}}4 is. Five.",
     "Two.\nThree. Five.\n", 3},
    {"The \"{{unknown}}\" ({{unknown}}) is. [[Two|The {{unknown}}]] is. Three.", "Three.\n", 2},
    {"{{lang|fr|un {{unknown}}}} is. {{frac|{{unknown}}|2}} is. Three.", "Three.\n", 2},
    {"== The {{unknown}} ==\nText.", "Text.\n", 1},
    // boxes
    {"{{Unknown}} The [[cat]] is. Two.{{unknown}} Three. {{unknown}} Four.{{unknown}}\nFive.",
     "The cat is. Two. Three. Four.\nFive.\n", 0},
    {"{{Infobox\n| a = {{b|c}}\n}}\n{{unknown}}\n: {{unknown}}\nText.", "Text.\n", 0},
    {"Text.<ref>{{unknown}}</ref>\n* {{unknown}} list\n{|\n| {{unknown}}\n|}\n{{#if:|{{unknown}}}}",
     "Text.\n", 0},
    // a number, a unit, an option or an argument of a known template that is not known
    {"It is {{convert|5|smoot}}. It is {{convert|5|km|round=5}}. It is {{convert|x|km}}.", "", 3},
    {"It is {{convert|5|km|kg}}. It is {{convert|5|km|x|mi}}. It is {{convert|5}}.", "", 3},
    {"It is {{val|5|u=m.s-2}}. It is {{val|5|6|7}}. It is {{val|x}}. It is {{val|5|end=x}}.", "",
     4},
    {"It is {{frac}}. It is {{#expr: 1 / 0}}. It is {{#expr: 1 + }}. It is {{#expr: x}}.", "", 4},
    {"It is {{#if: {{unknown}} | a | b}}. It is {{#invoke:a|b}}. In {{CURRENTYEAR}}, it is.", "",
     3},
    {"He is {{age|1950|1|2}}. Born {{birth date and age|1950|1|2}}. On {{start date|1950|13}}.", "",
     3},
    {"As of {{as of|x}} it is. It is {{langx|xx|a}}. It is {{lang-fr}}. It is {{USS|X|Y|9}}.", "",
     4},
    {"It is {{IPAc-en|tS}}. It is {{uc:é}}. It is {{lang|fr}}. It is {{chem2|a-b}}.", "", 4},
    {"It is {{cite web|title=X}}. See {{harvnb|Smith|1990}}. It is {{ordinal|x}}.", "", 3},
};

static void check(struct wikitext *wikitext, const char *text, const char *expected,
                  int64_t left_out) {
    const char *plain;
    size_t length;
    assert_int_equal(wikitext_clean(wikitext, text, strlen(text), &plain, &length, NULL), BERTH_OK);
    if (length != strlen(expected) || memcmp(plain, expected, length) != 0 ||
        wikitext->left_out != left_out) {
        fail_msg("%s\nexpected: %sfound: %.*s%d left out", text, expected, (int)length, plain,
                 (int)wikitext->left_out);
    }
}

static void test_shown(void **state) {
    (void)state;
    struct wikitext wikitext = {.namespace_count = 0};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        check(&wikitext, shown[i].text, shown[i].plain, 0);
    }
    wikitext_done(&wikitext);
}

static void test_gaps(void **state) {
    (void)state;
    struct wikitext wikitext = {.namespace_count = 0};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        check(&wikitext, gaps[i].text, gaps[i].plain, gaps[i].left_out);
    }
    wikitext_done(&wikitext);
}

// Whatever a template is given, the text has no control characters.
static void check_damaged(struct wikitext *wikitext, const char *text, size_t length) {
    const char *plain;
    size_t plain_length;
    char *copy = memory_string_of(text, length); // a sanitizer finds a read past its end
    assert_int_equal(wikitext_clean(wikitext, copy, length, &plain, &plain_length, NULL), BERTH_OK);
    for (size_t i = 0; i < plain_length; i++) {
        assert_true((unsigned char)plain[i] >= ' ' || plain[i] == '\n');
    }
    memory_free(copy);
}

static void test_damaged(void **state) {
    (void)state;
    struct wikitext wikitext = {.namespace_count = 0};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const size_t length = strlen(shown[i].text);
        char *text = memory_string(shown[i].text);
        for (size_t at = 0; at < length; at++) {
            check_damaged(&wikitext, text, at);
            const char kept = text[at];
            for (const char *other = "\xFF|}=9-e. "; *other != '\0'; other++) {
                text[at] = *other;
                check_damaged(&wikitext, text, length);
            }
            text[at] = kept;
        }
        memory_free(text);
    }
    wikitext_done(&wikitext);
}

// Templates are found by halving, so the table has to be sorted by the bytes of their names.
static void test_rows(void **state) {
    (void)state;
    for (size_t i = 1; i < wikitext_template_count; i++) {
        assert_true(strcmp(wikitext_templates[i - 1].name, wikitext_templates[i].name) < 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shown), cmocka_unit_test(test_gaps),
                                       cmocka_unit_test(test_damaged), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
