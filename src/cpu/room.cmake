# SPDX-License-Identifier: Apache-2.0
target_include_directories(berth_cpu SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
target_link_libraries(berth_cpu PUBLIC OpenMP::OpenMP_C ${DNNL_LIBRARY})
