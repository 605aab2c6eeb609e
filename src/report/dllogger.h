// SPDX-License-Identifier: Apache-2.0
// Records as dllogger's lines, as NVIDIA's BERT scripts write them to --json-summary and print
// them: which fields of the records they contain, and under which keys.
//
// In the file: DLLL {"timestamp": "...", "datetime": "...", "elapsedtime": "...", "type": "LOG",
// "step": "PARAMETER" | [epoch, step] | [], "data": {...}}, and once at the start a line of type
// METADATA with the unit of each metric. For people: DLL <datetime> - <step> <metric> : <value>
// <unit> ...
//
//   PLAN, EVENT without a step         "PARAMETER"
//   STEP, EVAL, EVENT and NOTE with one [epoch, step], epochs counted from 0
//   SUMMARY                            []
// An EVENT is {text: true}; with fields {text: {fields}}; without a text its fields. An EVAL record
// contains all of its fields. Of other records, only the keys that dllogger knows are written. A
// loss is average_loss if the record also has a step_loss, otherwise step_loss. NaN is left out.
#ifndef BERTH_REPORT_DLLOGGER_H
#define BERTH_REPORT_DLLOGGER_H

#include "core/config.h"
#include "core/json_line.h"

#include <stddef.h>

// Appends the line of a record to `line`; 0 if dllogger has no line for it. `elapsed` is in seconds
// since the log's start.
int dllogger_line(struct json_line *line, double elapsed, const struct berth_record *record);
// Appends the lines of type METADATA.
void dllogger_metadata(struct json_line *line, double elapsed);
// Writes the line for people, truncated to `size`; 0 as above.
int dllogger_text(const struct berth_record *record, char *text, size_t size);

#endif
