// SPDX-License-Identifier: Apache-2.0
// The table of known names. Neither unknown nor known names are ever called: a row says what the
// result of the call would be. pickle_calls.c looks up every name that a pickle calls.
#include "format/torch/pickle_names.h"

#include <stddef.h>
#include <string.h>

const struct pickle_name pickle_names[] = {
    {"", PICKLE_MEANS_NOTHING, NULL},
    {"torch._utils._rebuild_tensor_v2", PICKLE_MEANS_TENSOR, NULL},
    {"torch._utils._rebuild_tensor_v3", PICKLE_MEANS_TENSOR, NULL}, // names the type of its numbers
    {"torch._utils._rebuild_parameter", PICKLE_MEANS_FIRST, NULL},
    {"torch._utils._rebuild_parameter_with_state", PICKLE_MEANS_FIRST, NULL},
    {"torch.nn.parameter.Parameter", PICKLE_MEANS_FIRST, NULL},
    {"torch.Size", PICKLE_MEANS_FIRST, NULL},
    {"collections.OrderedDict", PICKLE_MEANS_DICT, NULL},
    {"torch.FloatStorage", PICKLE_MEANS_STORAGE, "F32"},
    {"torch.HalfStorage", PICKLE_MEANS_STORAGE, "F16"},
    {"torch.BFloat16Storage", PICKLE_MEANS_STORAGE, "BF16"},
    {"torch.DoubleStorage", PICKLE_MEANS_STORAGE, "F64"},
    {"torch.LongStorage", PICKLE_MEANS_STORAGE, "I64"},
    {"torch.IntStorage", PICKLE_MEANS_STORAGE, "I32"},
    {"torch.ShortStorage", PICKLE_MEANS_STORAGE, "I16"},
    {"torch.CharStorage", PICKLE_MEANS_STORAGE, "I8"},
    {"torch.ByteStorage", PICKLE_MEANS_STORAGE, "U8"},
    {"torch.BoolStorage", PICKLE_MEANS_STORAGE, "BOOL"},
    {"torch.ComplexFloatStorage", PICKLE_MEANS_STORAGE, "C64"},
    // The numbers of types without a class of storages: a storage of bytes, and the type.
    {"torch.storage.UntypedStorage", PICKLE_MEANS_STORAGE, "U8"},
    {"torch.uint16", PICKLE_MEANS_TYPE, "U16"},
    {"torch.uint32", PICKLE_MEANS_TYPE, "U32"},
    {"torch.uint64", PICKLE_MEANS_TYPE, "U64"},
    {"torch.float8_e4m3fn", PICKLE_MEANS_TYPE, "F8_E4M3"},
    {"torch.float8_e5m2", PICKLE_MEANS_TYPE, "F8_E5M2"},
    {"torch.float8_e4m3fnuz", PICKLE_MEANS_TYPE, "F8_E4M3FNUZ"},
    {"torch.float8_e5m2fnuz", PICKLE_MEANS_TYPE, "F8_E5M2FNUZ"},
    {"torch.float8_e8m0fnu", PICKLE_MEANS_TYPE, "F8_E8M0"},
    // Objects that training scripts save with their weights.
    {"collections.defaultdict", PICKLE_MEANS_DICT, NULL},
    {"torch.device", PICKLE_MEANS_OPAQUE, NULL},
    {"builtins.set", PICKLE_MEANS_OPAQUE, NULL}, // of protocol 3 and later, as the next two
    {"builtins.bytearray", PICKLE_MEANS_OPAQUE, NULL},
    {"builtins.complex", PICKLE_MEANS_OPAQUE, NULL},
    {"__builtin__.set", PICKLE_MEANS_OPAQUE, NULL},
    {"__builtin__.frozenset", PICKLE_MEANS_OPAQUE, NULL},
    {"__builtin__.bytearray", PICKLE_MEANS_OPAQUE, NULL},
    {"__builtin__.complex", PICKLE_MEANS_OPAQUE, NULL},
    {"__builtin__.bytes", PICKLE_MEANS_OPAQUE, NULL}, // none, in protocol 2
    {"_codecs.encode", PICKLE_MEANS_OPAQUE, NULL},    // bytes, in protocol 2
    {"collections.Counter", PICKLE_MEANS_OPAQUE, NULL},
    {"collections.deque", PICKLE_MEANS_OPAQUE, NULL},
    {"datetime.date", PICKLE_MEANS_OPAQUE, NULL},
    {"datetime.datetime", PICKLE_MEANS_OPAQUE, NULL},
    {"datetime.timedelta", PICKLE_MEANS_OPAQUE, NULL},
    {"pathlib.PosixPath", PICKLE_MEANS_OPAQUE, NULL},
    {"pathlib.WindowsPath", PICKLE_MEANS_OPAQUE, NULL},
    {"pathlib._local.PosixPath", PICKLE_MEANS_OPAQUE, NULL}, // of Python 3.13
    {"pathlib._local.WindowsPath", PICKLE_MEANS_OPAQUE, NULL},
    {"numpy.dtype", PICKLE_MEANS_OPAQUE, NULL},
    {"numpy.core.multiarray.scalar", PICKLE_MEANS_OPAQUE, NULL},
    {"numpy.core.multiarray._reconstruct", PICKLE_MEANS_OPAQUE, NULL},
    {"numpy._core.multiarray.scalar", PICKLE_MEANS_OPAQUE, NULL},
    {"numpy._core.multiarray._reconstruct", PICKLE_MEANS_OPAQUE, NULL},
};

unsigned pickle_find_name(const char *name) {
    unsigned row = sizeof pickle_names / sizeof *pickle_names - 1;
    while (row > 0 && strcmp(pickle_names[row].name, name) != 0) {
        row--;
    }
    return row;
}
