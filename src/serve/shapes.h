// SPDX-License-Identifier: Apache-2.0
// The APIs that are spoken: how their requests are read and their replies written (struct shape).
#ifndef BERTH_SERVE_SHAPES_H
#define BERTH_SERVE_SHAPES_H

#include "serve/call.h"

// {"inputs": ..., "parameters": {...}}
extern const struct shape shape_hugging_face;
// POST /v1/embeddings
extern const struct shape shape_openai;
// text-embeddings-inference's POST /embed and /predict
extern const struct shape shape_tei_embed, shape_tei_predict;
// POST /v2/models/NAME/infer
extern const struct shape shape_kserve;

#endif
