// SPDX-License-Identifier: Apache-2.0
// Compares the declarations in gpu/nccl.h with NCCL's header. It is compiled if the header is
// found, and never run.
#include "device/gpu/nccl.h"

#include <nccl.h>
#include <type_traits>

// Whether our declaration of a function and the header's have the same number of parameters, of the
// same sizes and kinds.
template <class Ours, class Theirs>
constexpr bool agree = std::is_same_v<Ours, Theirs> ||
                       (sizeof(Ours) == sizeof(Theirs) &&
                        std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                        std::is_class_v<Ours> == std::is_class_v<Theirs>);

template <class Ours, class Theirs> constexpr bool same_call = false;
template <class Result, class... Ours, class TheirResult, class... Theirs>
constexpr bool same_call<Result (*)(Ours...), TheirResult (*)(Theirs...)> = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
        return agree<Result, TheirResult> && (agree<Ours, Theirs> && ...);
    }
    return false;
}();

#define CHECK(result, name, ...)                                                                   \
    static_assert(same_call<decltype(NCCL(name)), decltype(&nccl##name)>, "nccl" #name);
NCCL_FUNCTIONS(CHECK)

static_assert((int)ncclSuccess == NCCL(SUCCESS) && (int)ncclInProgress == NCCL(IN_PROGRESS),
              "results");
static_assert((int)ncclFloat16 == NCCL(F16) && (int)ncclFloat32 == NCCL(F32) &&
                  (int)ncclBfloat16 == NCCL(BF16),
              "types");
static_assert((int)ncclSum == NCCL(SUM), "reductions");
static_assert(sizeof(struct NCCL(id)) == NCCL_UNIQUE_ID_BYTES, "the id");
static_assert(offsetof(struct NCCL(settings), magic) == offsetof(ncclConfig_t, magic) &&
                  offsetof(struct NCCL(settings), version) == offsetof(ncclConfig_t, version) &&
                  offsetof(struct NCCL(settings), blocking) == offsetof(ncclConfig_t, blocking),
              "the settings");

constexpr ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
static_assert(defaults.magic == NCCL(MAGIC), "the settings' mark");
