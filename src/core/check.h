// SPDX-License-Identifier: Apache-2.0
// What the checks of the core nouns are written with: batch_check, param_table_check and so on.
// Each returns NULL, or the first sentence of the struct's invariant that does not hold. The code
// that receives such a struct from another room asserts that its check returns NULL, so builds
// without NDEBUG stop where a rule is broken, not where its numbers are wrong. Tests call the
// checks themselves. Values that a user can set are no invariants: those get an error (error.h).
#ifndef BERTH_CORE_CHECK_H
#define BERTH_CORE_CHECK_H

// One sentence of an invariant, and the condition that it states.
#define CLAUSE(holds, sentence)                                                                    \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            return sentence;                                                                       \
        }                                                                                          \
    } while (0)

#endif
