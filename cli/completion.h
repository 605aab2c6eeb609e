// SPDX-License-Identifier: Apache-2.0
// The scripts in completion/, which the build makes texts of the program.
#ifndef BERTH_CLI_COMPLETION_H
#define BERTH_CLI_COMPLETION_H

extern const char completion_bash[], completion_zsh[], completion_fish[];

#endif
