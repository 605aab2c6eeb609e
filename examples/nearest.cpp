// SPDX-License-Identifier: Apache-2.0
// nearest MODEL FILE QUERY: embeds the lines of FILE, prints the 5 nearest to QUERY
#include <berth.h>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    std::vector<std::string> lines;
    std::ifstream file(argv[2]);
    for (std::string line; lines.size() < 1000 && std::getline(file, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
    std::vector<berth_text> texts(1);
    texts[0].text = argv[3];
    for (const std::string &line : lines) { texts.push_back({}); texts.back().text = line.c_str(); }

    berth_error error;
    const char *settings[] = {"normalize", "true", nullptr};
    std::unique_ptr<berth_model, decltype(&berth_close)> model(berth_open(argv[1], nullptr, nullptr, &error), berth_close);
    std::unique_ptr<berth_result, decltype(&berth_result_free)> result(
        berth_run(model.get(), "embed", texts.data(), texts.size(), settings, nullptr, &error), berth_result_free);
    if (error.status != BERTH_OK) return std::cerr << error.message << "\n", error.status;

    size_t size;
    const float *query = berth_result_rows(result.get(), 0, nullptr, &size), *rows = query + size;
    std::vector<float> score(lines.size());
    for (size_t i = 0; i < lines.size(); i++) score[i] = std::inner_product(query, query + size, rows + i * size, 0.0f);
    std::vector<size_t> order(lines.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t top = std::min<size_t>(5, order.size());
    std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](size_t a, size_t b) { return score[a] > score[b]; });
    for (size_t i = 0; i < top; i++) std::cout << score[order[i]] << "  " << lines[order[i]].substr(0, 90) << "\n";
}
