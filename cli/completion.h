// SPDX-License-Identifier: Apache-2.0
// The scripts in completion/ as bytes that the build embeds in the program (completions.c, which it
// generates). `berth completion` prints one of them, and the shell then asks the program itself
// what may follow a word (completion.c).
#ifndef BERTH_CLI_COMPLETION_H
#define BERTH_CLI_COMPLETION_H

extern const char completion_bash[], completion_zsh[], completion_fish[];

#endif
