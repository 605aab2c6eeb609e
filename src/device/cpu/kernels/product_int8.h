// SPDX-License-Identifier: Apache-2.0
// The int8 kernels (cpu/int8.h) of one instruction set: included by kernels_int8_*.c, which name
// the table. Only the sums of a block are written per instruction set; quantization and the
// conversion of sums to results are loops that the compiler vectorizes, without contraction, so
// that every instruction set gives the same numbers.
#include "core/int8.h"
#include "device/cpu/int8.h"
#include "device/cpu/kernels/math.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

// --- sums ---------------------------------------------------------------------------------------

// GCC keeps a converted copy of the sums, for which a loop has too few registers. This prevents it.
#define ONE_TYPE(sums) __asm__("" : "+v"(sums))

// The sums of a block: rows of a times a panel of b.
struct block {
    float sums[INT8_ROWS][INT8_PANEL]; // of the groups so far, with the weights' scales
    const unsigned char *row[INT8_ROWS];
    const struct int8_layout *layout;
    const signed char *panel;
    const float *scales; // of the panel
    int64_t width;
    const signed char *next; // position in the next panel, of which each group prefetches
    int64_t next_lines;      // this many cache lines: the hardware would fetch them too late
};

#if defined(__AVX512VNNI__)
enum { LANES_OF_SUM = 16, ROWS_TOGETHER = INT8_ROWS, VECTORS_MOST = 3 };
typedef __m512i vector_sums, vector_columns, vector_word;

ALWAYS_INLINE vector_sums no_sums(void) {
    return _mm512_setzero_si512();
}

ALWAYS_INLINE vector_columns columns_at(const signed char *from) {
    return _mm512_loadu_si512(from);
}

ALWAYS_INLINE vector_word word_at(const unsigned char *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
}

ALWAYS_INLINE vector_sums add_products(vector_sums sums, vector_word word, vector_columns columns) {
    return _mm512_dpbusd_epi32(sums, word, columns);
}

ALWAYS_INLINE void add_scaled(float *to, vector_sums sums, const float *scales) {
    ONE_TYPE(sums);
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(scales));
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), scaled));
}
#elif defined(__AVX2__)
ALWAYS_INLINE void add_scaled_8(float *to, __m256i sums, const float *scales) {
    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(scales));
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), scaled));
}

#if defined(__AVXVNNI__)
enum { LANES_OF_SUM = 8, ROWS_TOGETHER = 4, VECTORS_MOST = 2 };
typedef __m256i vector_sums, vector_columns, vector_word;

ALWAYS_INLINE vector_sums no_sums(void) {
    return _mm256_setzero_si256();
}

ALWAYS_INLINE vector_columns columns_at(const signed char *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

ALWAYS_INLINE vector_word word_at(const unsigned char *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm256_set1_epi32(word);
}

ALWAYS_INLINE vector_sums add_products(vector_sums sums, vector_word word, vector_columns columns) {
    return _mm256_dpbusd_avx_epi32(sums, word, columns);
}

ALWAYS_INLINE void add_scaled(float *to, vector_sums sums, const float *scales) {
    ONE_TYPE(sums);
    add_scaled_8(to, sums, scales);
}
#else
// Products of bytes would saturate in 16 bits, so both operands are widened to 16 bits first. A sum
// is in two halves, in adjacent lanes.
enum { LANES_OF_SUM = 8, ROWS_TOGETHER = 4, VECTORS_MOST = 1 };
typedef struct {
    __m256i low, high; // of columns 0, 1, 4, 5 and of 2, 3, 6, 7
} vector_sums, vector_columns;
typedef __m256i vector_word;

ALWAYS_INLINE vector_sums no_sums(void) {
    return (vector_sums){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

ALWAYS_INLINE vector_columns columns_at(const signed char *from) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)from);
    const __m256i signs = _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes);
    return (vector_columns){_mm256_unpacklo_epi8(bytes, signs), _mm256_unpackhi_epi8(bytes, signs)};
}

ALWAYS_INLINE vector_word word_at(const unsigned char *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return _mm256_unpacklo_epi8(_mm256_set1_epi32(word), _mm256_setzero_si256());
}

ALWAYS_INLINE vector_sums add_products(vector_sums sums, vector_word word, vector_columns columns) {
    return (vector_sums){_mm256_add_epi32(sums.low, _mm256_madd_epi16(word, columns.low)),
                         _mm256_add_epi32(sums.high, _mm256_madd_epi16(word, columns.high))};
}

ALWAYS_INLINE void add_scaled(float *to, vector_sums sums, const float *scales) {
    ONE_TYPE(sums.low);
    ONE_TYPE(sums.high);
    add_scaled_8(to, _mm256_hadd_epi32(sums.low, sums.high), scales);
}
#endif
#elif defined(__ARM_FEATURE_DOTPROD)
// UDOT multiplies unsigned bytes: the columns are those of b plus 128.
enum { LANES_OF_SUM = 4, ROWS_TOGETHER = 4, VECTORS_MOST = 4 };
typedef uint32x4_t vector_sums;
typedef uint8x16_t vector_columns;
typedef uint8x8_t vector_word; // its first four bytes

ALWAYS_INLINE vector_sums no_sums(void) {
    return vdupq_n_u32(0);
}

ALWAYS_INLINE vector_columns columns_at(const signed char *from) {
    return veorq_u8(vld1q_u8((const unsigned char *)from), vdupq_n_u8(128));
}

ALWAYS_INLINE vector_word word_at(const unsigned char *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return vcreate_u8(word);
}

ALWAYS_INLINE vector_sums add_products(vector_sums sums, vector_word word, vector_columns columns) {
    return vdotq_lane_u32(sums, columns, word, 0);
}

// Minus what the 128 add to the sums of a row.
ALWAYS_INLINE vector_sums sums_before(const unsigned char *row, int64_t count) {
    const vector_columns added = vdupq_n_u8(128);
    vector_sums words = no_sums(), vectors = no_sums();
    for (; count >= 16; count -= 16, row += 16) {
        vectors = vdotq_u32(vectors, vld1q_u8(row), added);
    }
    for (; count > 0; count -= INT8_STEP, row += INT8_STEP) {
        words = add_products(words, word_at(row), added);
    }
    return vsubq_u32(vdupq_n_u32(0u - vaddvq_u32(vectors)), words);
}
#define SUMS_BEFORE sums_before

ALWAYS_INLINE void add_scaled(float *to, vector_sums sums, const float *scales) {
    const float32x4_t values = vcvtq_f32_s32(vreinterpretq_s32_u32(sums));
    vst1q_f32(to, vaddq_f32(vld1q_f32(to), vmulq_f32(values, vld1q_f32(scales))));
}
#else
// The compiler's 16-byte vectors, which every 64-bit processor has. Bytes are widened to 16 bits,
// which hold a product, those at even and those at odd positions separately.
enum { LANES_OF_SUM = 4, ROWS_TOGETHER = 4, VECTORS_MOST = 2 };
typedef int16_t shorts __attribute__((vector_size(16)));
typedef uint16_t unsigned_shorts __attribute__((vector_size(16)));
typedef uint32_t unsigned_sums __attribute__((vector_size(16)));
typedef int32_t vector_sums __attribute__((vector_size(16)));
typedef struct {
    shorts even, odd;
} vector_columns, vector_word;

ALWAYS_INLINE vector_sums no_sums(void) {
    return (vector_sums){0};
}

ALWAYS_INLINE vector_columns columns_at(const signed char *from) {
    unsigned_shorts bytes;
    memcpy(&bytes, from, sizeof bytes);
    return (vector_columns){(shorts)(bytes << 8) >> 8, (shorts)bytes >> 8};
}

ALWAYS_INLINE vector_word word_at(const unsigned char *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    const unsigned_shorts bytes = (unsigned_shorts)(word - (unsigned_sums){0});
    return (vector_word){(shorts)(bytes & 255), (shorts)(bytes >> 8)};
}

// Adds the two products in each lane of a sum.
ALWAYS_INLINE vector_sums add_pairs(vector_sums sums, shorts products) {
    const unsigned_sums pairs = (unsigned_sums)products;
    return sums + ((vector_sums)pairs >> 16) + ((vector_sums)(pairs << 16) >> 16);
}

ALWAYS_INLINE vector_sums add_products(vector_sums sums, vector_word word, vector_columns columns) {
    return add_pairs(add_pairs(sums, word.even * columns.even), word.odd * columns.odd);
}

ALWAYS_INLINE void add_scaled(float *to, vector_sums sums, const float *scales) {
#pragma omp simd
    for (int i = 0; i < LANES_OF_SUM; i++) {
        to[i] += (float)sums[i] * scales[i];
    }
}
#endif

// What the sums of a row of a group begin with.
#if !defined(SUMS_BEFORE)
#define SUMS_BEFORE(row, count) no_sums()
#endif

// Adds the sums of a group, a range of the depth. Those of ROWS_TOGETHER rows and `vectors` vectors
// of columns stay in registers.
ALWAYS_INLINE void add_group(struct block *block, int first_row, int64_t column, int vectors,
                             int64_t group) {
    vector_sums sums[ROWS_TOGETHER][VECTORS_MOST];
    const unsigned char *const *row = block->row + first_row;
    const int64_t stride = block->width * INT8_STEP, end = block->layout->ends[group];
    const int64_t first = group > 0 ? block->layout->ends[group - 1] : 0;
    const signed char *b = block->panel + first * block->width + column * INT8_STEP;
    for (int64_t i = 0; i < block->next_lines; i++, block->next += 64) {
        __builtin_prefetch(block->next, 0, 2);
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS_TOGETHER; i++) {
        const vector_sums before = SUMS_BEFORE(row[i] + first, end - first);
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            sums[i][j] = before;
        }
    }
    for (int64_t at = first; at < end; at += INT8_STEP, b += stride) {
        vector_columns columns[VECTORS_MOST];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            columns[j] = columns_at(b + j * LANES_OF_SUM * INT8_STEP);
        }
#pragma GCC unroll 8
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            const vector_word word = word_at(row[i] + at);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) {
                sums[i][j] = add_products(sums[i][j], word, columns[j]);
            }
        }
    }
    const float *scales = block->scales + group * block->width + column;
#pragma GCC unroll 8
    for (int i = 0; i < ROWS_TOGETHER; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            const int64_t at = j * LANES_OF_SUM;
            add_scaled(block->sums[first_row + i] + column + at, sums[i][j], scales + at);
        }
    }
}

ALWAYS_INLINE void add_groups(struct block *block, int first_row, int64_t column, int vectors) {
    for (int64_t group = 0; group < block->layout->groups; group++) {
        add_group(block, first_row, column, vectors, group);
    }
}

ALWAYS_INLINE void block_sums(struct block *block) {
#if defined(__AVX512VNNI__)
    switch (block->width / LANES_OF_SUM) {
    case 3:
        add_groups(block, 0, 0, 3);
        break;
    case 2:
        add_groups(block, 0, 0, 2);
        break;
    default:
        add_groups(block, 0, 0, 1);
    }
#else
    for (int row = 0; row < INT8_ROWS; row += ROWS_TOGETHER) {
        for (int64_t column = 0; column < block->width; column += VECTORS_MOST * LANES_OF_SUM) {
            add_groups(block, row, column, VECTORS_MOST);
        }
    }
#endif
}

// --- the product --------------------------------------------------------------------------------

// Sums begin with the correction for the row's zero point over the whole depth.
ALWAYS_INLINE void begin_block(const struct int8_product *p, struct block *block, int64_t row,
                               int64_t column, int64_t width) {
    const int64_t rows = chunk_length(row, p->c.rows, INT8_ROWS);
    for (int64_t i = 0; i < INT8_ROWS; i++) {
        const int64_t own = row + (i < rows ? i : rows - 1);
        const float zero = (float)p->a->zeros[own];
        block->row[i] = p->a->values + own * p->a->depth;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            block->sums[i][j] = -(zero * p->sums[column + j]);
        }
    }
}

// Writes the results of a block, whose first output of `count` is `column`.
ALWAYS_INLINE void write_block(const struct int8_product *p, const struct block *block, int64_t row,
                               int64_t column, int64_t count) {
    const int64_t rows = chunk_length(row, p->c.rows, INT8_ROWS);
    float out[INT8_ROWS][INT8_PANEL]; // a product takes 2 % longer with one row, used again
    for (int64_t i = 0; i < rows; i++) {
        const float scale = p->a->scales[row + i];
#pragma omp simd
        for (int64_t j = 0; j < block->width; j++) {
            out[i][j] = block->sums[i][j] * scale;
        }
        if (p->bias != NULL) {
            const float *bias = p->bias + column;
#pragma omp simd
            for (int64_t j = 0; j < count; j++) {
                out[i][j] += bias[j];
            }
        }
        if (p->kernels != NULL) {
            p->kernels->activate(out[i], block->width, p->activation);
        }
        store(p->c, row + i, column, out[i], count);
    }
}

// The number of cache lines of a panel that each group of each block of rows prefetches.
ALWAYS_INLINE int64_t lines_of_group(const struct int8_product *p, int64_t lines, int64_t groups) {
    const int64_t parts = (p->c.rows + INT8_ROWS - 1) / INT8_ROWS * groups;
    return (lines + parts - 1) / parts;
}

// All rows of a panel of `columns` outputs. Rows missing in the last block are read as its last
// row.
ALWAYS_INLINE void panel_of(const struct int8_product *p, int64_t column, int64_t columns) {
    struct block block = {.layout = p->layout,
                          .panel = p->panels + column * p->a->depth,
                          .scales = p->scales + column * p->layout->groups,
                          .width = cpu_round_up(columns, 16)};
    const int64_t bytes = p->a->depth * block.width;
    block.next = block.panel + bytes;
    block.next_lines =
        column + columns < p->c.cols ? lines_of_group(p, bytes / 64, block.layout->groups) : 0;
    for (int64_t row = 0; row < p->c.rows; row += INT8_ROWS) {
        prefetch_block(p->c, row, column, INT8_ROWS, INT8_PANEL, 1);
        begin_block(p, &block, row, column, cpu_round_up(columns, 16));
        block_sums(&block);
        write_block(p, &block, row, column, columns);
    }
}

static void product(const struct int8_product *p) {
    for (int64_t column = 0; column < p->c.cols; column += INT8_PANEL) {
        const int64_t left = p->c.cols - column;
        if (left >= INT8_PANEL) {
            panel_of(p, column, INT8_PANEL); // a compile-time constant
        } else {
            panel_of(p, column, left);
        }
    }
}

// --- quantization -------------------------------------------------------------------------------

// The range of a row; `bits` is the bit pattern of its largest absolute value, which is that of a
// number that is not finite if there is one.
struct range {
    float low, high;
    uint32_t bits;
};

ALWAYS_INLINE struct range range_of(const float *x, int64_t count) {
    float low = 0.0f, high = 0.0f;
    uint32_t max_bits = 0;
#pragma omp simd reduction(min : low) reduction(max : high, max_bits)
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(x[i]) & 0x7FFFFFFFu;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        max_bits = bits > max_bits ? bits : max_bits;
    }
    return (struct range){low, high, max_bits};
}

// Below this range a row counts as zero: the reciprocal of its scale would overflow.
#define RANGE_MIN 1e-30f

ALWAYS_INLINE unsigned char byte_of(int32_t value) {
    value = value > 0 ? value : 0;
    return (unsigned char)(value < 255 ? value : 255);
}

// Divides a wide column's number among its copies, `first` and those in `more`.
ALWAYS_INLINE void put_wide(unsigned char *first, unsigned char *more, int32_t value,
                            int32_t zero) {
    int32_t sum = value + INT8_COPIES * zero;
    sum = sum > 0 ? sum : 0;
    *first = byte_of(sum / INT8_COPIES);
    for (int i = 1; i < INT8_COPIES; i++) {
        more[i - 1] = byte_of((sum + i) / INT8_COPIES);
    }
}

// How the numbers of a row become bytes.
struct bytes {
    float inverse; // of the scale; 0: all are zero
    int32_t zero;
};

ALWAYS_INLINE void quantize_columns(unsigned char *to, const float *values, int64_t columns,
                                    struct bytes b) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) {
        to[i] = byte_of(int8_round(values[i] * b.inverse) + b.zero);
    }
}

ALWAYS_INLINE void quantize_groups(const struct int8_layout *layout, const float *values,
                                   const float *large, struct bytes b, unsigned char *to) {
    const int64_t columns = layout->columns / layout->groups;
    int64_t wide = 0, first = 0, begin = 0;
    for (int64_t g = 0; g < layout->groups; g++, first += columns, begin = layout->ends[g - 1]) {
        unsigned char *group = to + begin, *more = group + columns;
        if (columns == INT8_GROUP) { // a compile-time constant
            quantize_columns(group, values + first, INT8_GROUP, b);
        } else {
            quantize_columns(group, values + first, columns, b);
        }
        for (; wide < layout->wide_count && layout->wide[wide] < first + columns; wide++) {
            put_wide(group + layout->wide[wide] - first, more, int8_round(large[wide] * b.inverse),
                     b.zero);
            more += INT8_COPIES - 1;
        }
        memset(more, 0, (size_t)(to + layout->ends[g] - more));
    }
}

ALWAYS_INLINE void quantize_row(const struct int8_rows *rows, int64_t row, struct mat x,
                                const struct int8_layout *layout) {
    float large[DEVICE_INT8_WIDE], *values = rows->buffer;
    load(values, x, row, 0, x.cols);
    for (int64_t i = 0; i < layout->wide_count; i++) {
        large[i] = values[layout->wide[i]];
        values[layout->wide[i]] = 0.0f;
    }
    const struct range wide = range_of(large, layout->wide_count);
    struct range range = range_of(values, x.cols);
    range.low = fminf(range.low, wide.low / INT8_COPIES);
    range.high = fmaxf(range.high, wide.high / INT8_COPIES);
    const int is_finite = range.bits < 0x7F800000u && wide.bits < 0x7F800000u;
    const float size = range.high - range.low;
    const float inverse = is_finite && size > RANGE_MIN ? 255.0f / size : 0.0f;
    const struct bytes b = {inverse, is_finite ? int8_round(-range.low * inverse) : 0};
    rows->scales[row] = is_finite ? size / 255.0f : NAN;
    rows->zeros[row] = b.zero;
    quantize_groups(layout, values, large, b, rows->values + row * rows->depth);
}

static void quantize(const struct int8_rows *rows, struct mat x, const struct int8_layout *layout) {
    for (int64_t row = 0; row < rows->count; row++) {
        quantize_row(rows, row, x, layout);
    }
}

// --- the peak -----------------------------------------------------------------------------------

#define PEAK_CHAINS 16
#if defined(__AVX2__)
#define CHANGED_WORD(word) __asm__ volatile("" : "+v"(word))
#else
#define CHANGED_WORD(word) __asm__ volatile("" : "+m"(word))
#endif

static double peak(int64_t rounds) {
    enum { DEPTH = PEAK_CHAINS * LANES_OF_SUM * INT8_STEP };
    static const signed char ones[DEPTH] = {1};
    static const unsigned char words[INT8_STEP] = {1, 1, 1, 1};
    vector_sums sums[PEAK_CHAINS];
    float lanes[LANES_OF_SUM] = {0};
    vector_columns columns = columns_at(ones);
    vector_word word = word_at(words);
    __asm__ volatile("" : "+m"(columns));
    for (int i = 0; i < PEAK_CHAINS; i++) {
        sums[i] = no_sums();
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < PEAK_CHAINS; i++) {
            CHANGED_WORD(word); // as far as the compiler knows, so that it multiplies in each chain
            sums[i] = add_products(sums[i], word, columns);
        }
    }
    const float scales[LANES_OF_SUM] = {1};
#pragma GCC unroll 16
    for (int i = 0; i < PEAK_CHAINS; i++) {
        add_scaled(lanes, sums[i], scales);
    }
    volatile float sink = lanes[0];
    (void)sink;
    return (double)rounds * PEAK_CHAINS * LANES_OF_SUM * INT8_STEP * 2;
}

const struct int8_kernels INT8_TABLE = {
    .name = INT8_NAME, .quantize = quantize, .product = product, .peak = peak};
