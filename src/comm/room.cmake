# SPDX-License-Identifier: Apache-2.0
target_link_libraries(berth_comm PUBLIC Threads::Threads)
