// SPDX-License-Identifier: Apache-2.0
// Looks code points up in the generated tables.
//
// Stage 1 is indexed by the code point divided by UNICODE_BLOCK and gives a block of stage 2, which
// gives the index of the properties; past the end of stage 1 its last block applies. Runs,
// ascending and disjoint, map first, first + step, ..., last to `to`, `to` + step, ...; if the
// highest bit of `to` is set, the rest is an index into the pool, which has a length and that many
// points. Hangul syllables are mapped by formula. Called for characters outside ASCII by basic.c,
// the normalizers and splitters.
#include "text/unicode.h"

#include "text/unicode_tables.h"

#define POOLED 0x80000000u
#define HANGUL_FIRST 0xAC00u
#define HANGUL_LAST 0xD7A3u
#define LAST_OF(array) (sizeof(array) / sizeof *(array)-1)
#define STAGE2(stage1, point)                                                                      \
    stage1[(point) / UNICODE_BLOCK < LAST_OF(stage1) ? (point) / UNICODE_BLOCK : LAST_OF(stage1)]

const struct unicode_properties *unicode_properties_of(uint32_t point, int column) {
    const unsigned stage2 = STAGE2(unicode_stage1, point);
    return &unicode_property_table[unicode_stage2[stage2][point % UNICODE_BLOCK]][column];
}

static const struct unicode_run *find_run(const struct unicode_run *runs, size_t count,
                                          uint32_t point) {
    size_t low = 0;
    while (count > 1) {
        size_t half = count / 2;
        if (runs[low + half].first <= point) {
            low += half;
        }
        count -= half;
    }
    const struct unicode_run *run = &runs[low];
    int inside = point >= run->first && point <= run->last && (point - run->first) % run->step == 0;
    return inside ? run : NULL;
}

// Unicode chapter 3.12: a leading consonant, a vowel, perhaps a trailing consonant.
static size_t map_hangul(uint32_t point, uint32_t output[UNICODE_MAP_MAX]) {
    uint32_t index = point - HANGUL_FIRST;
    output[0] = 0x1100u + index / (21 * 28);
    output[1] = 0x1161u + index / 28 % 21;
    output[2] = 0x11A7u + index % 28;
    return index % 28 == 0 ? 2 : 3;
}

struct run_list {
    const struct unicode_run *runs;
    size_t count;
};

#define RUNS(name)                                                                                 \
    { name, sizeof name / sizeof *name }

// The tables of a mapping in the order of look-up: Google's differences before the common tables.
static const struct mapping_row {
    int google; // 1: for Google's rules only
    struct run_list list;
} mapping_rows[][4] = {
    [UNICODE_FOLD] = {{1, RUNS(unicode_google_runs)}, {0, RUNS(unicode_runs)}},
    [UNICODE_LOWER] = {{1, RUNS(unicode_google_lower_runs)}, {0, RUNS(unicode_lower_runs)}},
    [UNICODE_STRIP] = {{1, RUNS(unicode_google_strip_runs)},
                       {0, RUNS(unicode_strip_runs)},
                       {1, RUNS(unicode_google_runs)},
                       {0, RUNS(unicode_runs)}},
    [UNICODE_AS_IS] = {{0, {NULL, 0}}},
};

// Writes what the run maps the point to; the point itself without one.
static size_t put_mapped(const struct unicode_run *run, uint32_t point, uint32_t *output) {
    if (run == NULL || (run->to & POOLED) == 0) {
        output[0] = run == NULL ? point : run->to + (point - run->first);
        return 1;
    }
    const uint32_t *pooled = &unicode_pool[run->to & ~POOLED];
    for (uint32_t i = 0; i < pooled[0]; i++) {
        output[i] = pooled[1 + i];
    }
    return pooled[0];
}

size_t unicode_map(uint32_t point, int column, enum unicode_mapping mapping,
                   uint32_t output[UNICODE_MAP_MAX]) {
    const int decomposes = mapping == UNICODE_FOLD || mapping == UNICODE_STRIP;
    if (decomposes && point >= HANGUL_FIRST && point <= HANGUL_LAST) {
        return map_hangul(point, output);
    }
    const struct unicode_run *run = NULL;
    for (int i = 0; i < 4 && run == NULL; i++) {
        const struct mapping_row *row = &mapping_rows[mapping][i];
        if (row->list.count > 0 && (!row->google || column == UNICODE_GOOGLE)) {
            run = find_run(row->list.runs, row->list.count, point);
        }
    }
    return put_mapped(run, point, output);
}

// --- components ---------------------------------------------------------------------------------

struct unicode_component unicode_component_of(uint32_t point) {
    const unsigned stage2 = STAGE2(unicode_component_stage1, point);
    return unicode_components[unicode_component_stage2[stage2][point % UNICODE_BLOCK]];
}

size_t unicode_decompose(uint32_t point, int compatible, uint32_t output[UNICODE_PARTS_MAX]) {
    const struct run_list canonical = RUNS(unicode_canonical_runs),
                          compatibles = RUNS(unicode_compatible_runs);
    if ((unicode_component_of(point).kinds & UNICODE_DECOMPOSES) == 0) {
        output[0] = point;
        return 1;
    }
    if (point >= HANGUL_FIRST && point <= HANGUL_LAST) {
        return map_hangul(point, output);
    }
    const struct unicode_run *run =
        compatible ? find_run(compatibles.runs, compatibles.count, point) : NULL;
    run = run != NULL ? run : find_run(canonical.runs, canonical.count, point);
    return put_mapped(run, point, output);
}

// The syllable of a leading consonant and a vowel, or of such a syllable and a trailing consonant.
static uint32_t compose_hangul(uint32_t first, uint32_t second) {
    if (first - 0x1100u < 19 && second - 0x1161u < 21) {
        return HANGUL_FIRST + ((first - 0x1100u) * 21 + (second - 0x1161u)) * 28;
    }
    const int is_open =
        first >= HANGUL_FIRST && first <= HANGUL_LAST && (first - HANGUL_FIRST) % 28 == 0;
    return is_open && second - 0x11A8u < 27 ? first + (second - 0x11A7u) : 0;
}

uint32_t unicode_compose(uint32_t first, uint32_t second) {
    size_t low = 0, count = LAST_OF(unicode_pairs) + 1;
    if ((unicode_component_of(second).kinds & UNICODE_COMPOSES) == 0) {
        return 0;
    }
    while (count > 1) {
        const size_t half = count / 2;
        const struct unicode_pair *pair = &unicode_pairs[low + half];
        if (pair->first < first || (pair->first == first && pair->second <= second)) {
            low += half;
        }
        count -= half;
    }
    const struct unicode_pair *pair = &unicode_pairs[low];
    return pair->first == first && pair->second == second ? pair->to
                                                          : compose_hangul(first, second);
}
