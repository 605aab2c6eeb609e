// SPDX-License-Identifier: Apache-2.0
// Made by dev/unicode/make_golden.py; do not edit. What `tokenizers` makes of each line of the data
// files with bert-base-uncased-vocab.txt: counts, and FNV-1a over id, begin, end of every token and
// 0xFFFFFFFF after every line.
#ifndef BERTH_TEST_DATA_HASHES_H
#define BERTH_TEST_DATA_HASHES_H

#include <stdint.h>

static const struct {
    const char *file;
    int lower_case;
    uint64_t lines, tokens, hash;
} data_hashes[] = {
    {"mrpc/msr_paraphrase_test.txt", 1, 1727, 100048, 0x3C3ECF3F2C37A562u},
    {"mrpc/msr_paraphrase_train.txt", 1, 4078, 237414, 0x9F2671C3FB96E211u},
    {"squad/dev-v1.1.json", 1, 1, 199389, 0x5815D1B86F02C5F7u},
    {"squad/dev-v2.0.json", 1, 1, 159856, 0xF384929E2A2317C5u},
    {"squad/train-v1.1.json", 1, 1, 826657, 0xBA7CE5766683213Au},
    {"squad/train-v2.0.json", 1, 1, 778298, 0x35A950BF9CA5DAE8u},
    {"vocab/bert-base-uncased-vocab.txt", 1, 30523, 49396, 0xCB2E375AC1995BD9u},
    {"wikitext2/test.txt", 1, 4359, 299307, 0x7D4755FAB992CEDBu},
    {"wikitext2/valid.txt", 1, 3761, 260172, 0xBDD419AA82D82EE9u},
    {"mrpc/msr_paraphrase_test.txt", 0, 1727, 96807, 0x57CA2E9646A98C9Fu},
    {"mrpc/msr_paraphrase_train.txt", 0, 4078, 230036, 0xEB7B5552237192F7u},
    {"squad/dev-v1.1.json", 0, 1, 195063, 0x7A6C30ACC7723FDCu},
    {"squad/dev-v2.0.json", 0, 1, 156684, 0x4D34ED201FC5ACAEu},
    {"squad/train-v1.1.json", 0, 1, 814065, 0xCC769A513608CA75u},
    {"squad/train-v2.0.json", 0, 1, 769492, 0x265CEB19834A05C1u},
    {"vocab/bert-base-uncased-vocab.txt", 0, 30523, 49394, 0x83936A0DDB568E45u},
    {"wikitext2/test.txt", 0, 4359, 298046, 0x5F753CAEFEEB160Eu},
    {"wikitext2/valid.txt", 0, 3761, 258740, 0xAF3771B4680F7B39u},
};

#endif
