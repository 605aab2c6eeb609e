// SPDX-License-Identifier: Apache-2.0
// A C++ program that asks one model for classes and embeddings from several threads, in calls of
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

void check(const berth_error &error) {
    if (error.status != BERTH_OK) {
        std::printf("FAILED: %s\n", error.message);
        std::exit(1);
    }
}

struct Results {
    std::vector<float> scores, embeddings;
};

struct Asked {
    berth_model *model = nullptr;
    std::vector<berth_text> texts;
};

void append(std::vector<float> &to, const berth_model *model, const char *task,
            const berth_text *texts, std::size_t count) {
    berth_error error;
    berth_result *result = berth_run(model, task, texts, count, nullptr, nullptr, &error);
    check(error);
    std::size_t width;
    const float *rows = berth_result_rows(result, 0, nullptr, &width);
    to.insert(to.end(), rows, rows + count * width);
    berth_result_free(result);
}

// In calls of `group` texts.
Results process(const Asked &asked, std::size_t group) {
    const std::size_t all = asked.texts.size();
    Results results;
    for (std::size_t i = 0; i < all; i += group) {
        const std::size_t count = i + group < all ? group : all - i;
        append(results.scores, asked.model, "classify", &asked.texts[i], count);
        append(results.embeddings, asked.model, "embed", &asked.texts[i], count);
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
    if (count != 2 || std::strcmp(berth_version(), BERTH_VERSION) != 0) {
        return 2;
    }
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < texts_count; i++) {
        lines.push_back("the");
        for (std::size_t word = 0; word < i; word++) {
            lines.back() += word % 3 == 0 ? " red ball" : " of anna";
        }
    }
    Asked asked;
    for (const std::string &line : lines) {
        asked.texts.push_back({});
        asked.texts.back().text = line.c_str();
    }
    const char *settings[] = {"precision",          "fp32", "max_seq_length", "16",
                              "predict_batch_size", "3",    nullptr};
    berth_error error;
    asked.model = berth_open(words[1], settings, nullptr, &error);
    check(error);

    const Results alone = process(asked, 1);
    std::vector<std::thread> threads;
    std::vector<int> differs(3);
    for (std::size_t i = 0; i < differs.size(); i++) {
        threads.emplace_back([&, i] {
            for (std::size_t round = 0; round < rounds; round++) {
                const Results found = process(asked, 1 + 7 * i + round);
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
    berth_close(asked.model);
}
