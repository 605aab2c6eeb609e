// SPDX-License-Identifier: Apache-2.0
// Compares the declarations in gpu/cudnn.h with cuDNN's header. It is compiled if the header is
// found, and never run.
#include "device/gpu/cudnn.h"

#include <cudnn.h>
#include <type_traits>

// Whether our declaration of a function and the header's have the same number of parameters, of the
// same sizes and kinds.
template <class Ours, class Theirs>
constexpr bool agree = [] {
    if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
        return std::is_same_v<Ours, Theirs>;
    } else {
        return sizeof(Ours) == sizeof(Theirs) &&
               std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
    }
}();

template <class Ours, class Theirs> constexpr bool same_call = false;
template <class Result, class... Ours, class TheirResult, class... Theirs>
constexpr bool same_call<Result (*)(Ours...), TheirResult (*)(Theirs...)> = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
        return agree<Result, TheirResult> && (agree<Ours, Theirs> && ...);
    }
    return false;
}();

#define CHECK_CALL(result, name, ...)                                                              \
    static_assert(same_call<decltype(CUDNN(name)), decltype(&cudnn##name)>, "cudnn" #name);
CUDNN_FUNCTIONS(CHECK_CALL)

#define CHECK_NUMBER(name, number)                                                                 \
    static_assert((long)CUDNN_##name == (long)CUDNN(name), "CUDNN_" #name);
CUDNN_NUMBERS(CHECK_NUMBER)
