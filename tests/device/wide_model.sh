# SPDX-License-Identifier: Apache-2.0
# A model whose table of token types is wider than usual, and texts of many lengths in more classes than it has columns.
# Sourced after ../cli/lib.sh.

wide_model() { # FOLDER
    cat >"$1.json" <<'END'
{"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
 "max_position_embeddings": 64, "type_vocab_size": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
 "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "initializer_range": 0.02, "model_type": "bert"}
END
    "$BERTH" init --config "$1.json" --output "$1" --seed 7 --quiet && make_vocabulary >"$1/vocab.txt"
}
wide_texts() { # FILE.csv
    awk 'BEGIN {
        print "text,label"
        for (i = 0; i < 250; i++) {
            text = "ada"
            for (k = 0; k < i * 7 % 23; k++) text = text " lived in oslo"
            print text ",c" i
        }
    }' >"$1"
}
