// SPDX-License-Identifier: Apache-2.0
// dllogger's lines, as NVIDIA's BERT scripts write them into --json-summary and print them: what of
// the records they hold, under which keys.
//
// In the file: DLLL {"timestamp": "...", "datetime": "...", "elapsedtime": "...", "type": "LOG",
// "step": "PARAMETER" | [epoch, step] | [], "data": {...}}, and once at the start a line of type
// METADATA with the unit of each metric. For people: DLL <datetime> - <step> <metric> : <value>
// <unit> ...
//
//   PLAN, EVENT without a step         "PARAMETER"
//   STEP, EVAL, EVENT and NOTE with one [epoch, step], epochs counted from 0
//   SUMMARY                            []
// An EVENT is {text: true}, with fields {text: {fields}}, without a text its fields; an EVAL record
// is all of its fields. Of the others the keys that dllogger has a name for are told; a loss is
// average_loss where a step_loss stands beside it, else step_loss. Reals that are not a number are
// left out.
#ifndef BERTH_REPORT_DLLOGGER_H
#define BERTH_REPORT_DLLOGGER_H

#include "berth.h"
#include "core/json_line.h"

#include <stddef.h>

// Adds the line of a record to `line`; 0: it says nothing to dllogger. `elapsed` seconds since the
// log's start.
int dllogger_line(struct json_line *line, double elapsed, const struct berth_record *record);
// Adds the lines of type METADATA.
void dllogger_metadata(struct json_line *line, double elapsed);
// The line for people, cut to `size`; 0 as above.
int dllogger_text(const struct berth_record *record, char *text, size_t size);

#endif
