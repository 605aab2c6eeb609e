// SPDX-License-Identifier: Apache-2.0
// The page at /, and the same page with a result for browsers without JavaScript, which send its
// form. routes.c asks for it; what a model answers is put in by run.c.
#ifndef BERTH_SERVE_PAGE_H
#define BERTH_SERVE_PAGE_H

#include "serve/models.h"
#include "serve/protocols.h"

// The page for the models; with `call`, its result.
struct http_reply page_make(struct models *models, const struct call *call);

// POST /ask: fields "model", "question", "context"; the second text of the other tasks is the
// question, too.
extern const struct protocol protocol_form;

#endif
