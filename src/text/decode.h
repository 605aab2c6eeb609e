// SPDX-License-Identifier: Apache-2.0
// Converts token ids to text like the WordPiece decoder of Hugging Face's `tokenizers`: tokens are
// separated by blanks, except before continuations ("##ing", whose ## is dropped) and before . , ?
// ! n't 'm 's 've 're. The original spelling and spacing are lost. If the tokenizer keeps blanks,
// these are separated, too; if it keeps pieces, so are continuations, with their ##. If it cleans
// up, the text is then what transformers' clean_up_tokenization makes of it. A pipeline has
// decoders of its own, which are rows (components.h).
#ifndef BERTH_TEXT_DECODE_H
#define BERTH_TEXT_DECODE_H

#include "text/tokenizer.h"

// The text of ids[count], newly allocated (memory_free); NULL: out of memory. Ids outside the
// vocabulary and [PAD] are skipped; with `skips_special` so are [CLS], [SEP], [MASK] and [UNK].
char *decode_text(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                  int skips_special);

#endif
