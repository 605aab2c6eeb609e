// SPDX-License-Identifier: Apache-2.0
// Exchanges ranges of the flat buffers between the ranks. In host memory the communicator exchanges
// them as they are. In a GPU's memory they go directly to the GPUs of other ranks, if the devices
// of all ranks can do that. Otherwise they pass through a mirror in host memory: a range is copied
// to it once the device has computed it, exchanged while the device goes on, and copied back when a
// caller waits for it.
#ifndef BERTH_TRAIN_RANGE_EXCHANGE_H
#define BERTH_TRAIN_RANGE_EXCHANGE_H

#include "comm/comm.h"
#include "core/log.h"
#include "device/device.h"

#include <stddef.h>
#include <stdint.h>

struct mirrored_range;

// How ranges of a GPU's memory are exchanged.
enum range_exchange_mode {
    RANGE_EXCHANGE_AUTO,    // directly, if all ranks can
    RANGE_EXCHANGE_DIRECT,  // by the devices, or BERTH_UNAVAILABLE
    RANGE_EXCHANGE_MIRRORED // by the communicator
};

struct range_exchange {
    struct comm *comm;
    struct device *device;
    int is_direct;
    int is_silent;           // exchanges nothing, to measure an update without; set between updates
    char mirror_reason[512]; // why a GPU's exchange is not direct; else empty
    void *mirror;            // of the whole table; NULL: none is needed
    size_t mirror_bytes;
    struct mirrored_range *ranges; // ring buffer of exchanges that nobody has waited for
    int64_t capacity;              // of the ring buffer
    // The last ticket handed out, submitted to the communicator, waited for.
    int64_t begun, submitted, finished;
};

// Bytes of the mirror of a table with this many elements, if one is needed.
size_t range_exchange_bytes(const struct comm *comm, const struct device *device, int64_t elements);

struct range_exchange_setup {
    int64_t elements; // of the table
    int64_t capacity; // exchanges of its ranges that may be in progress at a time
    enum range_exchange_mode mode;
};

// A zeroed struct may be closed.
enum berth_status range_exchange_init(struct range_exchange *exchange, struct comm *comm,
                                      struct device *device,
                                      const struct range_exchange_setup *setup,
                                      struct berth_error *error);
// Logs how a GPU's ranges are exchanged.
void range_exchange_note(const struct range_exchange *exchange, const struct berth_log *log);
// Closes the direct exchange once all exchanges are done or a rank is lost. Call it before the
// communicator is closed, because it asks the communicator for lost ranks.
void range_exchange_close(struct range_exchange *exchange);
void range_exchange_done(struct range_exchange *exchange);

// As in comm/comm.h, for ranges in the device's memory. `starts` must stay valid until the wait.
int64_t range_exchange_reduce(struct range_exchange *exchange, const struct comm_range *range);
int64_t range_exchange_gather(struct range_exchange *exchange, const struct comm_range *range);
// The device's later operations see what was exchanged.
void range_exchange_wait(struct range_exchange *exchange, int64_t ticket);

// Submits each pending range to the communicator as soon as the device has computed it. Call it
// before waiting for all of them.
void range_exchange_submit_all(struct range_exchange *exchange);

#endif
