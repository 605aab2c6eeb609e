# SPDX-License-Identifier: Apache-2.0
# What Intel's example scripts have in common: their variables and the checks of them. Sourced.
#
#   CHECKPOINT_DIR     folder of a pre-trained BERT: Google's files, or Hugging Face's
#   DATASET_DIR        folder of the data
#   OUTPUT_DIR         folder of the results; made if it does not exist, continued if it has a checkpoint
#   MPI_NUM_PROCESSES  number of processes
#   BATCH_SIZE         sequences of one process in an update
#   BERTH              the program, if it is not in the path
#   BERTH_OPTIONS      options of Berth's own, for example --dry-run
#
# Options after the script's name, of the launcher or of the program, come last and win.
set -euo pipefail

die() {
    echo "$1" >&2
    exit 1
}

[ -n "${OUTPUT_DIR:-}" ] || die "The required environment variable OUTPUT_DIR has not been set"
for name in CHECKPOINT_DIR DATASET_DIR; do
    [ -n "${!name:-}" ] || die "The required environment variable $name has not been set"
    [ -d "${!name}" ] || die "The $name '${!name}' does not exist"
done
mkdir -p "$OUTPUT_DIR"
[ -z "${MODEL_DIR:-}" ] || echo "note: MODEL_DIR has no effect: the program is ${BERTH:-berth}" >&2
export CHECKPOINT_DIR DATASET_DIR OUTPUT_DIR

# Arguments: the words of the script, then those of its user.
launch_benchmark() {
    # shellcheck disable=SC2086
    exec "${BERTH:-berth}" as ${BERTH_OPTIONS:-} launch_benchmark.py --precision=fp32 --mode=training \
        --framework=tensorflow --checkpoint="$CHECKPOINT_DIR" --data-location="$DATASET_DIR" --output-dir="$OUTPUT_DIR" \
        --mpi_num_processes="${MPI_NUM_PROCESSES:-1}" "$@"
}
