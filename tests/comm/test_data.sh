#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several processes on this machine, under each MPI, prepare pre-training data and pre-train on it. They must write the
# same files as one process, also if they are killed or stopped and others resume. Training reads one stream, with the
# same bytes, or files by rank. Only one process reports.
. "$(dirname "$0")/../cli/lib.sh"
. "$(dirname "$0")/launch.sh"

make_model "$work/model"
python3 - "$work" <<'END'
import bz2
import sys

WORDS = "ada hugo olga rita oslo riga bern rome hello world where who did live in the".split()


def text(number, sentences):
    lines = []
    for i in range(sentences):
        words = [WORDS[(number * 7 + i * i + k * 3) % len(WORDS)] for k in range(4 + (number + i) % 9)]
        lines.append(" ".join(words).capitalize() + ".")
    return "\n".join(lines)


pages = "".join(f"<page><title>Page {i}</title><ns>0</ns><id>{i}</id><revision><text>{text(i, 30 + i % 50)}"
                f"</text></revision></page>\n" for i in range(1, 161))
xml = f"<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>{pages}</mediawiki>\n".encode()
with open(sys.argv[1] + "/dump.xml.bz2", "wb") as out:
    for at in range(0, len(xml), 50000):  # streams, which make blocks
        out.write(bz2.compress(xml[at:at + 50000]))
# So long that the second and the third of three ranks have pages, too.
with open(sys.argv[1] + "/long.xml", "w") as out:
    out.write("<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>")
    for i in range(1, 10001):
        out.write(f"<page><title>Page {i}</title><ns>0</ns><id>{i}</id><revision><text>{text(i, 100)}"
                  "</text></revision></page>\n")
    out.write("</mediawiki>\n")
END
prepare="prepare --wikipedia $work/dump.xml.bz2 --vocab $work/model/vocab.txt --shards 5 --test_shards 2 --file_size 40000
         --max_seq_length 64 --max_predictions_per_seq 8 --pack --threads 1"
alike() { # FOLDER FOLDER
    diff -r "$work/$1" "$work/$2" >"$work/diff" || { cat "$work/diff"; fail "$1 and $2 differ"; }
}

run $prepare --output "$work/alone"
expect_code 0
grep -v '^stage \|^together ' "$out" >"$work/counts"
long="prepare --wikipedia $work/long.xml --stages text --threads 1"
run $long --output "$work/long-alone"
expect_code 0
mpi=$(find_mpis | head -n 1)
if [ -n "$mpi" ]; then
    launch "$mpi" 3 $long --output "$work/long-of-three"
    expect_code 0
    diff -r "$work/long-alone" "$work/long-of-three" >/dev/null || fail "three ranks write other text than one process"
    rm -rf "$work"/long*
fi
hdf5=$(echo "$work"/alone/hdf5_*[0-9]/wikicorpus_en)
run pack "$hdf5" "$work/packed/x" --threads 1
expect_code 0
settings="pretrain --input_dir $hdf5 --config_file $work/config.json --vocab_file $work/model/vocab.txt --precision fp32
          --train_batch_size 16 --max_steps 6 --save_steps 3 --learning_rate 1e-2 --do_eval false --threads 1"
# One sequence in each micro-batch.
parts="--virtual_ranks 4 --gradient_accumulation_steps 4"
run $settings $parts --output "$work/stream"
expect_code 0

# Sends SIGNAL to one of two processes when the first file of instances is complete, which is early. If the job ends before
# the signal, the next one has more to do. Sets `large` to the settings and `whole` to the folder of an undisturbed run.
interrupt() { # MPI SIGNAL FOLDER
    local job dupe_factor
    what="$1, one of two processes gets $2"
    for dupe_factor in 40 160 640; do
        large="$prepare --dupe_factor $dupe_factor" whole=large-$dupe_factor
        rm -rf "$work/$3" "$work"/pid-*
        timeout 300 $(launcher_of "$1") -n 2 \
            bash -c 'echo $$ >"$0/pid-${OMPI_COMM_WORLD_RANK-$PMI_RANK}"; exec "$@"' "$work" \
            "$BERTH" $large --output "$work/$3" >"$out" 2>"$err" </dev/null &
        job=$!
        while kill -0 $job 2>/dev/null && ! ls "$work/$3"/hdf5_*/*/*.hdf5 >/dev/null 2>&1; do sleep 0.02; done
        kill -"$2" "$(cat "$work/pid-1")" 2>/dev/null
        wait $job
        code=$?
        [ $code -eq 0 ] || return 0
    done
    fail "it ended before the signal"
}
make_whole() {
    [ ! -d "$work/$whole" ] || return
    run $large --output "$work/$whole"
    expect_code 0
}

# Six files of 20 sequences; an update of 12 tells which ones it had.
reads=$(dirname "$0")/read_by_update.py
python3 "$reads" make "$work/numbered" 6 20
by_rank="pretrain --input_dir $work/numbered/shards --config_file $work/numbered/config.json --precision fp32 --max_steps 40
         --vocab_file $work/numbered/vocab.txt --shard_order rank --train_batch_size 12 --save_steps 1 --save_total_limit 100
         --optimizer adamw --learning_rate 0 --adam_beta1 0 --max_grad_norm 0 --do_eval false --threads 1"
# FROM ranks do some updates, which end in the middle of files; TO ranks continue up to update LAST.
change() { # MPI FROM UPDATES TO LAST
    local folder=$work/$1-$2-to-$4
    launch "$1" "$2" $by_rank --steps_this_run "$3" --output "$folder"
    expect_code 0
    launch "$1" "$4" $by_rank --steps_this_run $(($5 - $3)) --resume_from_checkpoint auto --output "$folder"
    expect_code 0
    once "$4 processes share the files that $2 processes have left of pass 1 through the shards"
}
# How often the sequences were read in updates 1 to LAST: "108x2" are 108 sequences that were read two times.
expect_reads() { # FOLDER LAST TEXT
    local found
    found=$(python3 "$reads" show "$work/$1" 12 1 "$2" | tr ' ' '\n' | sort | uniq -c | awk '{ n[$1]++ }
            END { for (i = 1; i < 99; i++) if (i in n) printf "%s%dx%d", k++ ? " " : "", n[i], i }')
    [ "$found" = "$3" ] || fail "up to update $2 the sequences were read $found, expected $3"
}

mpis=$(find_mpis)
for mpi in $mpis; do
    # The ranks' shares of a pass, which reads every sequence as often as there were ranks, differ by the 12 sequences
    # of a file that were read before; so one share is one update longer, or three with a third of it in each.
    change "$mpi" 4 4 1 10
    expect_reads "$mpi-4-to-1" 10 120x1
    change "$mpi" 2 2 3 22
    expect_reads "$mpi-2-to-3" 19 "12x1 108x2"
    expect_reads "$mpi-2-to-3" 22 "96x2 24x3"
    change "$mpi" 3 3 2 31
    expect_reads "$mpi-3-to-2" 29 "12x2 108x3"
    expect_reads "$mpi-3-to-2" 31 "108x3 12x4"
    what="$mpi, three ranks that continue for two"
    python3 "$reads" show "$work/$mpi-2-to-3" 12 3 22 >"$work/continued"
    cp -r "$work/$mpi-2-to-3" "$work/$mpi-again"
    rm -r "$work/$mpi-again"/checkpoint-9 "$work/$mpi-again"/checkpoint-[12]?
    launch "$mpi" 3 $by_rank --steps_this_run 14 --resume_from_checkpoint auto --output "$work/$mpi-again"
    expect_code 0
    python3 "$reads" show "$work/$mpi-again" 12 3 22 | cmp -s - "$work/continued" || fail "interrupted again, they read others"
    launch "$mpi" 3 $by_rank --steps_this_run 22 --output "$work/$mpi-of-three"
    expect_code 0
    python3 "$reads" show "$work/$mpi-of-three" 12 3 22 >"$work/alone"
    [ "$(sort "$work/alone" "$work/continued" | uniq -d | wc -l)" -eq 0 ] || fail "an update as if they had begun the run"

    launch "$mpi" 2 $prepare --output "$work/$mpi-2"
    expect_code 0
    once "ranks: 2 on 1 host, connected by $mpi"
    grep -v '^stage \|^together ' "$out" | cmp -s - "$work/counts" || fail "other counts than one process prints"
    alike alone "$mpi-2"
    launch "$mpi" 3 $prepare --output "$work/$mpi-3"
    expect_code 0
    alike alone "$mpi-3"
    launch "$mpi" 2 pack "$hdf5" "$work/$mpi-packed/x" --threads 1
    expect_code 0
    alike packed "$mpi-packed"
    launch "$mpi" 4 $settings $parts --zero_stage 2 --output "$work/$mpi-stream-4"
    expect_code 0
    same stream "$mpi-stream-4"
    [ "$mpi" = "${mpis%%[[:space:]]*}" ] || continue # the rest does not depend on the MPI

    what="$mpi, a folder that the hosts do not share"
    timeout 60 $(launcher_of "$mpi") -n 1 "$BERTH" $prepare --output "$work/here" : -n 1 "$BERTH" $prepare --output "$work/there" \
        >"$out" 2>"$err" </dev/null
    code=$?
    expect_code 66
    once 'run the stage "text" first, until it is complete; if that was done, this rank does not see it'
    launch "$mpi" 2 pack "$work/nothing" "$work/none" --threads 1
    expect_code 66
    once "$work/nothing"
    launch "$mpi" 2 $prepare --output "$work/$mpi-2" --seed 3
    expect_code 78
    once "choose another output"

    interrupt "$mpi" TERM "$mpi-stopped"
    once "the next run makes the rest"
    run $large --output "$work/$mpi-stopped"
    expect_code 0
    make_whole
    alike $whole "$mpi-stopped"
    interrupt "$mpi" KILL "$mpi-killed"
    launch "$mpi" 3 $large --output "$work/$mpi-killed"
    expect_code 0
    make_whole
    alike $whole "$mpi-killed"

    launch "$mpi" 2 $settings $parts --zero_stage 1 --output "$work/$mpi-stream-2"
    expect_code 0
    same stream "$mpi-stream-2"
    launch "$mpi" 2 $settings --shard_order rank --output "$work/$mpi-rank" --verbose
    expect_code 0
    once "samples_per_second "
    what="files by rank and one stream"
    ! cmp -s "$work/stream/model.safetensors" "$work/$mpi-rank/model.safetensors" || fail "the same order"
    mkdir "$work/$mpi-resumed"
    cp -r "$work/$mpi-rank/checkpoint-3" "$work/$mpi-resumed"
    launch "$mpi" 2 $settings --shard_order rank --resume_from_checkpoint auto --output "$work/$mpi-resumed"
    expect_code 0
    same "$mpi-rank" "$mpi-resumed"
    launch "$mpi" 3 $settings --shard_order rank --output "$work/none"
    expect_code 78
    once "train_batch_size 16 is not a multiple of the number of processes, 3"
    launch "$mpi" 2 $settings --shard_order rank --virtual_ranks 2 --output "$work/none"
    expect_code 78
    once "shard_order rank cannot be combined with virtual_ranks"
    sed 's/^the$/held/; s/^who$/the/; s/^held$/who/' "$work/model/vocab.txt" >"$work/exchanged.txt"
    unlike "$mpi" $settings --output "$work/none" -- --vocab_file "$work/exchanged.txt"
    expect_code 78
    once "these shards were made with another vocabulary than $work/exchanged.txt"
    launch "$mpi" 3 $settings --shard_order rank --train_batch_size 18 --per_device_train_batch_size 2 \
        --dataloader_drop_last --output "$work/$mpi-rank-3"
    expect_code 0
done
[ -n "$mpis" ] || { echo "skipped: no mpirun or mpiexec of an MPI that a module was built for"; exit 77; }
finish
