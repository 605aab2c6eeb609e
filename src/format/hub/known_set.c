// SPDX-License-Identifier: Apache-2.0
#include "format/hub/known_set.h"

#include <stddef.h>
#include <string.h>

// SHA-256 as published with the files' download scripts.
static const struct known_set known_sets[] = {
    {.names = {"squad", "squad-v1.1"},
     .folder = "datasets--squad",
     .url_prefix = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {{"train-v1.1.json",
                "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"},
               {"dev-v1.1.json",
                "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"}}},
    {.names = {"squad_v2", "squad-v2.0"},
     .folder = "datasets--squad_v2",
     .url_prefix = "https://rajpurkar.github.io/SQuAD-explorer/dataset/",
     .files = {
         {"train-v2.0.json", "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002"},
         {"dev-v2.0.json", "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8"}}}};

const struct known_set *known_set_find(const char *name) {
    for (size_t i = 0; i < sizeof known_sets / sizeof *known_sets; i++) {
        for (size_t k = 0; known_sets[i].names[k] != NULL; k++) {
            if (strcmp(known_sets[i].names[k], name) == 0) {
                return &known_sets[i];
            }
        }
    }
    return NULL;
}
