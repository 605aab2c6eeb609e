// SPDX-License-Identifier: Apache-2.0
// Exchanges ranges of the flat buffers between the ranks, wherever the buffers lie. Ranges of the
// host's memory are the communicator's as they are. Those of a GPU go to other ranks' GPUs
// directly, where all ranks' devices have such an exchange. Else they pass through a mirror in the
// host's memory: they are copied to it once the device has computed them, exchanged there while the
// device goes on, and copied back when somebody waits for them.
#ifndef BERTH_TRAIN_RANGE_EXCHANGE_H
#define BERTH_TRAIN_RANGE_EXCHANGE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

struct mirrored_range;

// How ranges of a GPU's memory are exchanged.
enum range_exchange_mode {
    RANGE_EXCHANGE_AUTO,    // directly where all ranks can
    RANGE_EXCHANGE_DIRECT,  // by the devices, or BERTH_UNAVAILABLE
    RANGE_EXCHANGE_MIRRORED // by the communicator
};

struct range_exchange {
    struct comm *comm;
    struct device *device;
    int is_direct;
    char mirror_reason[512]; // where another way than directly was asked for or taken
    void *mirror;            // of the whole table; NULL: none is needed
    size_t mirror_bytes;
    struct mirrored_range *ranges;      // a ring of those that nobody has waited for
    int64_t capacity;                   // in the ring
    int64_t begun, submitted, finished; // tickets: of the caller's, at the communicator, waited for
};

// Bytes of the mirror of a table of that many elements, as if one were needed.
size_t range_exchange_bytes(const struct comm *comm, const struct device *device, int64_t elements);

// For at most `capacity` ranges of a table under way at a time. Zeroed, it is closed without harm.
enum berth_status range_exchange_init(struct range_exchange *exchange, struct comm *comm,
                                      struct device *device, int64_t elements, int64_t capacity,
                                      enum range_exchange_mode mode, struct berth_error *error);
// How a GPU's ranges are exchanged, for the log.
void range_exchange_note(const struct range_exchange *exchange, const struct berth_log *log);
// Closes the GPUs' exchange, once all that was begun is done or a rank is lost: before the
// communicator is closed, which is asked for lost ranks.
void range_exchange_close(struct range_exchange *exchange);
void range_exchange_done(struct range_exchange *exchange);

// As in core/comm.h, of ranges in the device's memory. `starts` must remain until a wait.
int64_t range_exchange_reduce(struct range_exchange *exchange, const struct comm_range *range);
int64_t range_exchange_gather(struct range_exchange *exchange, const struct comm_range *range);
// The device's operations that follow find what was exchanged.
void range_exchange_wait(struct range_exchange *exchange, int64_t ticket);

// Before waits for all that was begun: gives the communicator each range as soon as the device has
// computed it.
void range_exchange_submit_all(struct range_exchange *exchange);

#endif
