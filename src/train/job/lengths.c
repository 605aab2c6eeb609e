// SPDX-License-Identifier: Apache-2.0
// Counts the sequences and tokens of each range of lengths, over a whole data set before training
// (training_report.c), or over the updates of a run on shards, whose lengths are known only when
// they are read (loop_records.c).
#include "train/job/lengths.h"

void lengths_init(struct lengths *lengths, int64_t longest) {
    *lengths = (struct lengths){.width = (longest + LENGTHS_RANGES - 1) / LENGTHS_RANGES};
    lengths->width = lengths->width > 0 ? lengths->width : 1;
}

void lengths_add(struct lengths *lengths, int64_t length) {
    int64_t range = length > 0 ? (length - 1) / lengths->width : 0;
    range = range < LENGTHS_RANGES ? range : LENGTHS_RANGES - 1;
    lengths->sequences[range]++;
    lengths->tokens[range] += length;
    lengths->longest = length > lengths->longest ? length : lengths->longest;
}

void lengths_of_sources(struct lengths *lengths, const struct packer_source *sources,
                        size_t count) {
    int64_t longest = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t own = 0;
        for (size_t j = 0; j < sources[i].count * packer_texts(&sources[i]); j++) {
            const int32_t length = sources[i].get(sources[i].data, j).length;
            own = length > own ? length : own;
        }
        longest = own > longest ? own : longest;
    }
    lengths_init(lengths, longest);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sources[i].count * packer_texts(&sources[i]); k++) {
            lengths_add(lengths, sources[i].get(sources[i].data, k).length);
        }
    }
}

void lengths_log(const struct lengths *lengths, int64_t padded, const struct berth_log *log) {
    const int64_t ranges = (lengths->longest + lengths->width - 1) / lengths->width;
    for (int64_t i = 0; i < ranges && i < LENGTHS_RANGES; i++) {
        LOG_RECORD(log, BERTH_DETAIL, "length", log_integer("from", i * lengths->width + 1),
                   log_integer("to", (i + 1) * lengths->width),
                   log_integer("sequences", lengths->sequences[i]),
                   log_integer("tokens", lengths->tokens[i]),
                   log_integer("longest", lengths->longest), log_integer("max_seq_length", padded));
    }
}
