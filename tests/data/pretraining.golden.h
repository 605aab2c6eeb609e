// SPDX-License-Identifier: Apache-2.0
// Made by dev/goldens/pretraining_instances.py with CPython's random.
// Three of 700 random(), seven randint(), the CRC-32 of a shuffle and five samples.
static const struct {
    uint64_t seed;
    double reals[3];
    int64_t integers[7];
    uint32_t crc;
} random_goldens[] = {
    {0u, {0x1.5ac15dbdf4f08p-4, 0x1.7e79dc5d158e4p-3, 0x1.d2ddb2f8ffab0p-5},
     {0, 233, 640444, 319467365, 2630696474, 956510363993, 866411423970506021}, 0x8a18fd18u},
    {12345u, {0x1.74d82752b64bap-1, 0x1.cb77a5bb3f75ap-2, 0x1.067bc42594970p-5},
     {-3, 571, 592686, 99002018, 7661537796, 649479465172, 925692348925235809}, 0xa3e33737u},
    {4294967297u, {0x1.c76b35950469bp-1, 0x1.49c805ad007e7p-1, 0x1.fd6cb434b764ep-2},
     {2, 804, 308971, 484922969, 6006612588, 619123673892, 343974667680151740}, 0x76c00ee4u},
    {18446744073709551615u, {0x1.12270dc14930cp-3, 0x1.f43fb9f94f408p-2, 0x1.307ecceed6100p-1},
     {-2, 469, 657813, 810260145, 1497153416, 33139775891, 25895059867532670}, 0x3cdd1925u},
};

// Made-up documents, settings, and all instances: their number and CRC-32.
static const struct {
    uint64_t seed;
    int documents, sentences, tokens;
    struct instance_options options;
    size_t count;
    uint32_t crc;
} instance_goldens[] = {
    {7, 60, 12, 20,
     {.max_seq_length = 32, .max_predictions = 5, .dupe_factor = 2,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 12345u, .whole_word = 0},
     420, 0x674ba126u},
    {8, 40, 30, 40,
     {.max_seq_length = 128, .max_predictions = 20, .dupe_factor = 5,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 12345u, .whole_word = 0},
     783, 0xc9ffcc46u},
    {9, 40, 30, 40,
     {.max_seq_length = 512, .max_predictions = 80, .dupe_factor = 2,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 42u, .whole_word = 0},
     158, 0xbefdb76cu},
    {10, 60, 12, 20,
     {.max_seq_length = 32, .max_predictions = 8, .dupe_factor = 2,
      .masked_lm_prob = 0.25, .short_seq_prob = 0.1, .seed = 12345u, .whole_word = 1},
     407, 0x405ef9b2u},
    {11, 1, 9, 15,
     {.max_seq_length = 32, .max_predictions = 5, .dupe_factor = 4,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 12345u, .whole_word = 0},
     15, 0x9bff5428u},
    {12, 2, 9, 15,
     {.max_seq_length = 32, .max_predictions = 5, .dupe_factor = 4,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 3u, .whole_word = 0},
     27, 0x7e9eed28u},
    {13, 300, 1, 90,
     {.max_seq_length = 64, .max_predictions = 5, .dupe_factor = 2,
      .masked_lm_prob = 0.15, .short_seq_prob = 0.1, .seed = 12345u, .whole_word = 0},
     600, 0xd7e269c7u},
    {14, 50, 9, 15,
     {.max_seq_length = 32, .max_predictions = 5, .dupe_factor = 2,
      .masked_lm_prob = 0.5, .short_seq_prob = 1.0, .seed = 1099511627781u, .whole_word = 0},
     347, 0xd86769c2u},
};
