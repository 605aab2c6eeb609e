// SPDX-License-Identifier: Apache-2.0
// The APIs of other servers that this one speaks, a struct protocol for each: how inputs are found
// in a request and results are written into a reply. routes.c has their paths; the protocol_*.c
// files define them, and call.c runs them.
#ifndef BERTH_SERVE_PROTOCOLS_H
#define BERTH_SERVE_PROTOCOLS_H

#include "serve/call.h"

// {"inputs": ..., "parameters": {...}}
extern const struct protocol protocol_hugging_face;
// POST /v1/embeddings
extern const struct protocol protocol_openai;
// text-embeddings-inference's POST /embed, /embed_all, /embed_sparse, /predict and /similarity
extern const struct protocol protocol_tei_embed, protocol_tei_embed_all, protocol_tei_embed_sparse,
    protocol_tei_predict;
extern const struct protocol protocol_tei_similarity; // protocol_hugging_face.c
// POST /rerank, /v1/rerank and /v2/rerank
extern const struct protocol protocol_rerank;
// POST /v2/models/NAME/infer
extern const struct protocol protocol_kserve;
// Writes the description of a model, of GET /v2/models/NAME.
void kserve_put_model(struct json_line *line, const char *name, const struct task_model *instance);

#endif
