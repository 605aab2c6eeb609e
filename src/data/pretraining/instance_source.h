// SPDX-License-Identifier: Apache-2.0
// Pre-training instances as the packer takes them: masked tokens with their words, and as class
// whether the second sentence is a random one.
#ifndef BERTH_DATA_INSTANCE_SOURCE_H
#define BERTH_DATA_INSTANCE_SOURCE_H

#include "data/batches/packer.h"
#include "data/pretraining/instances.h"

// Borrows the instances. They have at most INSTANCE_LENGTH_MAX tokens each.
struct packer_source instance_source(const struct instances *instances);

#endif
