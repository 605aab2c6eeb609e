// SPDX-License-Identifier: Apache-2.0
// LoRA adapters of PEFT: adapter_config.json, and adapter_model.safetensors (or .bin) with two
// small matrices for each linear layer that was trained, and whole tensors of the modules that were
// saved.
//
// They are merged when a model is opened, so that all readers see the matrices W + factor * B A,
// computed as if in exact arithmetic and rounded once, to f32; factor: lora_alpha / r, with
// use_rslora lora_alpha / sqrt(r). What cannot be merged so is refused by name.
#ifndef BERTH_MODEL_ADAPTER_H
#define BERTH_MODEL_ADAPTER_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"

#define ADAPTER_CONFIG "adapter_config.json"

// Sets *found to whether the folder has an adapter.
enum berth_status adapter_is_in(const char *folder, int *found, struct berth_error *error);
// Sets *base (memory_free) to the folder of the model that the folder's adapter names: a local
// path, or a model in Hugging Face's cache; NULL: no adapter, or no such model.
enum berth_status adapter_find_base(const char *folder, char **base, struct berth_error *error);
// Puts the merged tensors in place of *file, the opened weights of the adapter's model, which it
// then owns. After an error *file is unchanged.
enum berth_status adapter_merge(const char *folder, struct tensor_file *file,
                                struct berth_error *error);

#endif
