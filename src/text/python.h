// SPDX-License-Identifier: Apache-2.0
// The text functions of Python that define the official SQuAD scores: str.lower() and the word
// characters of `re`. Characters are code points.
#ifndef BERTH_TEXT_PYTHON_H
#define BERTH_TEXT_PYTHON_H

#include <stddef.h>
#include <stdint.h>

// Whether \w matches the character: letters, digits, numerals and the underscore.
int python_is_word(uint32_t character);

// str.lower(): lower[] has room for 2 * count characters (U+0130 becomes two); returns their
// number. A capital sigma at the end of a word becomes a final sigma.
size_t python_lower(const uint32_t *text, size_t count, uint32_t *lower);

#endif
