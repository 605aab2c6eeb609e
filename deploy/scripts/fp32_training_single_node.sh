#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the pod of one node runs, as in Intel's package: the classifier, with the variables of the pod.
exec "$(dirname "$0")/fp32_classifier_training.sh" "$@"
