# SPDX-License-Identifier: Apache-2.0
"""The tokenizer and the geometry of the tiny models with words for vocabulary: tags.py, fill.py."""
import pathlib

import transformers

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the a an quick brown fox jump ##s ##ed over lazy dog paris is in france . , ? ! ' n't 's é café 中 un "
         "##able good bad film hello").split()


def words_model(folder: pathlib.Path, **settings) -> tuple:
    """(tokenizer, configuration) of a model in `folder`, which gets its vocab.txt"""
    folder.mkdir(exist_ok=True)
    transformers.utils.logging.set_verbosity_error()
    pieces = SPECIALS + WORDS
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, initializer_range=0.5, **settings)
    return transformers.BertTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}), config
