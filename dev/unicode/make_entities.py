#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints wiki/wikitext_entities.h: the names of HTML 4's character entities, by name.

    dev/unicode/make_entities.py > wiki/wikitext_entities.h
"""
from html.entities import name2codepoint

print("""// SPDX-License-Identifier: Apache-2.0
// Made by dev/unicode/make_entities.py: the character entities of HTML 4, sorted by their bytes.
#ifndef BERTH_DATA_WIKITEXT_ENTITIES_H
#define BERTH_DATA_WIKITEXT_ENTITIES_H

#include <stdint.h>

static const struct {
    char name[10];
    uint16_t point;
} wikitext_entities[] = {""")
for name, point in sorted({**name2codepoint, "apos": 39}.items()):
    print(f'    {{"{name}", {point}}},')
print("""};

#endif""")
