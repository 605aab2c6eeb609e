// SPDX-License-Identifier: Apache-2.0
// The options of a verb as help, manual and completion show them: one row after the other, with the
// default and the choices of this verb's jobs. rows.c makes them of the option table and the verb's
// own options; how they are laid out is left to whoever prints.
#ifndef BERTH_CLI_ROWS_H
#define BERTH_CLI_ROWS_H

#include "cli.h"
#include "core/buffer.h"

// Row by row: the verb's own options, its rows of the option table, the flags of the original
// scripts, then the options of every verb. NULL at the end. *index starts at 0.
const struct option_row *cli_row_next(const struct cli_verb *verb, size_t *index);
// The verb's row with that name or alias; NULL: none.
const struct option_row *cli_row_named(const struct cli_verb *verb, const char *name);
// Whether the short help shows it.
int cli_row_is_common(const struct option_row *row);
// " RATE", " [auto|DIR]", or nothing.
void cli_row_put_unit(struct buffer *text, const struct option_row *row);
// What the option means, its choices and its default for the verb; with `details` also DeepSpeed's
// key and whether a resumed run must keep it.
void cli_row_put_text(struct buffer *text, const struct cli_verb *verb,
                      const struct option_row *row, int details);

// A note on how options are written and what the brackets mean.
extern const char cli_rows_note[];

#endif
