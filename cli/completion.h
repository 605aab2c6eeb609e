// SPDX-License-Identifier: Apache-2.0
// The scripts in completion/, embedded by the build.
#ifndef BERTH_CLI_COMPLETION_H
#define BERTH_CLI_COMPLETION_H

extern const char completion_bash[], completion_zsh[], completion_fish[];

#endif
