// SPDX-License-Identifier: Apache-2.0
// A C++ program that asks one classifier and one encoder from several threads, in calls of
// different sizes, and compares every result with that of a single call. Prints the results, as
// bits.
//
//   threads MODEL_FOLDER
#include <berth.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t texts_count = 30, rounds = 5;

void check(berth_status status, const berth_error &error) {
    if (status != BERTH_OK) {
        std::printf("FAILED: %s\n", error.message);
        std::exit(1);
    }
}

struct Results {
    std::vector<float> scores, embeddings;
};

struct Handles {
    berth_classifier *classifier = nullptr;
    berth_encoder *encoder = nullptr;
    std::vector<berth_text> texts;
};

// In calls of `group` texts.
Results process(const Handles &handles, std::size_t group) {
    const std::size_t classes = berth_classifier_classes(handles.classifier).count;
    const std::size_t size = berth_encoder_size(handles.encoder), all = handles.texts.size();
    Results results{std::vector<float>(all * classes), std::vector<float>(all * size)};
    std::vector<berth_text_status> statuses(all);
    berth_error error{};
    for (std::size_t i = 0; i < all; i += group) {
        const std::size_t count = i + group < all ? group : all - i;
        const berth_text *texts = &handles.texts[i];
        check(berth_classifier_classify(handles.classifier, texts, count, BERTH_SCORE_USUAL,
                                        &results.scores[i * classes], &statuses[i], &error),
              error);
        check(berth_encoder_embed_many(handles.encoder, texts, count,
                                       berth_encoder_usual(handles.encoder),
                                       &results.embeddings[i * size], &statuses[i], &error),
              error);
    }
    return results;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

void print(const std::vector<float> &numbers) {
    for (const float number : numbers) {
        unsigned bits;
        std::memcpy(&bits, &number, sizeof bits);
        std::printf("%08x\n", bits);
    }
}

} // namespace

int main(int count, char **words) {
    static_assert(BERTH_VERSION_NUMBER ==
                  BERTH_VERSION_MAJOR * 10000 + BERTH_VERSION_MINOR * 100 + BERTH_VERSION_PATCH);
    if (count != 2 || berth_version_number() != BERTH_VERSION_NUMBER) {
        return 2;
    }
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < texts_count; i++) {
        lines.push_back("the");
        for (std::size_t word = 0; word < i; word++) {
            lines.back() += word % 3 == 0 ? " red ball" : " of anna";
        }
    }
    Handles handles;
    for (const std::string &line : lines) {
        handles.texts.push_back({line.c_str(), nullptr});
    }
    berth_config config;
    berth_error error{};
    berth_config_init(&config);
    config.model_name_or_path = words[1];
    config.precision = BERTH_FP32;
    config.max_seq_length = 16;
    config.predict_batch_size = 3;
    check(berth_classifier_open(&config, berth_log{}, &handles.classifier, &error), error);
    check(berth_encoder_open(&config, berth_log{}, &handles.encoder, &error), error);

    const Results alone = process(handles, 1);
    std::vector<std::thread> threads;
    std::vector<int> differs(3);
    for (std::size_t i = 0; i < differs.size(); i++) {
        threads.emplace_back([&, i] {
            for (std::size_t round = 0; round < rounds; round++) {
                const Results found = process(handles, 1 + 7 * i + round);
                differs[i] |=
                    !same(found.scores, alone.scores) || !same(found.embeddings, alone.embeddings);
            }
        });
    }
    for (std::size_t i = 0; i < threads.size(); i++) {
        threads[i].join();
        if (differs[i]) {
            std::printf("FAILED: thread %zu has other results\n", i);
        }
    }
    print(alone.scores);
    print(alone.embeddings);
    berth_classifier_close(handles.classifier);
    berth_encoder_close(handles.encoder);
}
