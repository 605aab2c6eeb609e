# SPDX-License-Identifier: Apache-2.0
target_link_libraries(berth_task PUBLIC OpenMP::OpenMP_C)
