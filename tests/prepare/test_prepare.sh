#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `berth prepare` and `berth pack`: text, shards, instances and packs from each kind of input; a second
# run that has nothing to do; what is refused before the first stage; files as Google's and NVIDIA's
# scripts take and write them; Ctrl-C.
. "$(dirname "$0")/lib.sh" prepare

cat >dump.xml <<'XML'
<mediawiki><siteinfo><base>https://x.org/wiki/Main</base></siteinfo>
<page><title>Bern</title><ns>0</ns><id>1</id><revision><text>'''Bern''' is the [[capital]]. It has {{unknown|5}} rivers.</text></revision></page>
<page><title>R</title><ns>0</ns><id>2</id><redirect title="Bern"/><revision><text/></revision></page>
</mediawiki>
XML
run 0 --wikipedia dump.xml --stages text --output data
grep -q '^2 pages: 1 article, 1 redirect, ' out || die "the counts"
grep -q '^1 sentence left out because of unknown templates$' out || die "no count of what is left out"
text=data/extracted/wikicorpus_en/AA/wiki_00
printf '<doc id="1" url="https://x.org/wiki?curid=1" title="Bern">\nBern\n\nBern is the capital.\n\n</doc>\n' |
    cmp -s - $text || die "the text"
run 0 --extracted data/extracted/wikicorpus_en --stages text --output none --file_size 1000
grep -qF 'note: file_size has no effect without a dump' err || die "no note on the size of files that are not written"
grep -qF 'note: extracted has no effect with stages text' err || die "no note on what this stage does not read"
before=$(stat -c %i $text)
run 0 --wikipedia dump.xml --stages text --output data --json
grep -q '"articles": *1,' out || die "the counts as JSON"
grep -q '"sentences_left_out": *1,' out || die "what an earlier run left out is not counted"
[ "$(stat -c %i $text)" = "$before" ] || die "a finished file was written again"

run 2 --wikipedia dump.xml --stages text,shard --output data
grep -q 'found "shard"' err || die "an unknown stage is not named"
run 2 --wikipedia dump.xml --output data
grep -q 'missing option vocab_file' err || die "a missing vocabulary"
run 2 --stages text --output data
grep -q 'no input' err || die "missing articles"
run 66 --wikipedia dump.xml --stages shards --output other
grep -q 'run the stage "text" first' err || die "a stage before another"
[ ! -e other/sharded* ] || die "a folder was made for nothing"
run 66 --wikipedia absent.xml --stages text --output other
grep -q 'absent.xml: no such file; expected a dump' err || die "the missing file"
[ ! -e other ] || die "a folder was made for nothing"
head -c 200 dump.xml >cut.xml
run 65 --wikipedia cut.xml --stages text --output other
grep -q 'cut.xml: unexpected end of file at byte 200' err || die "the position of the truncation"
[ ! -e other ] || die "a refused dump left $(find other)"
printf words >words.xml
mkdir kept
run 65 --wikipedia words.xml --stages text --output kept/made/below
grep -q 'words.xml: not XML; expected' err || die "a file that is not XML"
[ -z "$(ls -A kept)" ] || die "a refused file left $(find kept)"
run 78 --wikipedia cut.xml --stages text --output data
mkdir locked && chmod 555 locked
[ "$(id -u)" -eq 0 ] || run 73 --wikipedia dump.xml --stages text --output locked
# --- text to instances: each kind of input, merged, restarted, refused ---
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' . bern is the capital of a town river one two >vocab.txt
mkdir -p books
for i in 1 2 3 4 5 6 7 8 9; do
    printf 'Bern is the capital. The river is one of two. A town %s.\n\n' $i >>articles.txt
    printf 'The town is a town.\nOne river of two.\n' >books/book$i.txt
done
common="--vocab vocab.txt --shards 2 --max_seq_length 32 --max_predictions_per_seq 5"
hdf5=hdf5_lower_case_1_seq_len_32_max_pred_5_masked_lm_prob_0.15_random_seed_12345_dupe_factor_5
# shellcheck disable=SC2086
run 0 --text articles.txt $common --output made --pack
grep -q '^9 articles, 27 sentences in 2 shards for training and 1 for testing$' out || die "the shards"
grep -q ' instances, rows .* % full, ' out || die "the instances"
grep -q '^lengths, from the shortest eighth' out || die "the lengths"
grep -q '^efficiency [01].* (at best 1), ' out || die "the packs"
grep -q '^stage hdf5: .* MB of text per second and core$' out || die "the rates"
grep -q 'making 2 shards for training and 1 for testing, not 2 and 2: a shard needs two articles, and the text has 9' err ||
    die "the note on fewer shards"
# shellcheck disable=SC2086
run 78 --text articles.txt $common --shards 64 --output toomany
grep -q '9 articles are too few for 64 training .* set shards to at most 4 and test_shards to at most 1' err ||
    die "shards that the articles cannot fill"
[ ! -e toomany ] || die "shards that were refused left $(find toomany)"
# shellcheck disable=SC2086
run 78 --text articles.txt $common --test_shards 3 --output toomany
grep -q 'and 3 test shards' err || die "test shards that the articles cannot fill"
{ head -c 2200000 /dev/zero | tr '\0' 'x' | sed 's/xx/x /g'; printf '\n\n'; cat articles.txt; } >line.txt
# shellcheck disable=SC2086
run 0 --text line.txt $common --stages shards --output long
grep -q 'warning: .*lines of more than 1000000 words: 1, such as one of 1100000 in line.txt; each is' err ||
    die "a line of a million words"
for file in sharded_training_shards_2_test_shards_2_fraction_0.1/corpus/corpus_test_0.txt \
    $hdf5/corpus/corpus_training_1.hdf5 $hdf5/corpus/statistics.json \
    ${hdf5}_packed/corpus/mixed_strategies_part_0.hdf5 ${hdf5}_packed/corpus_metadata.json; do
    [ -f "made/$file" ] || die "no made/$file"
done
before=$(find made -type f ! -name .lock -printf '%i %p\n' | grep -v statistics | grep -v metadata | sort)
# shellcheck disable=SC2086
run 0 --text articles.txt $common --output made --pack --threads 3 --json
grep -q '"stages":{"shards":{"bytes":0,' out || die "a second run did something"
[ "$(find made -type f ! -name .lock -printf '%i %p\n' | grep -v statistics | grep -v metadata | sort)" = "$before" ] ||
    die "finished files were written again"
# shellcheck disable=SC2086
run 78 --text articles.txt $common --output made --whole_word_mask
grep -q 'made with whole_word_mask "false", but it is "true"' err || die "another setting"
# shellcheck disable=SC2086
run 0 --text articles.txt $common --output plain --strip_accents false --no_tokenize_chinese_chars
rm plain/$hdf5/corpus/corpus_training_1.hdf5
# shellcheck disable=SC2086
run 78 --text articles.txt $common --output plain --no_tokenize_chinese_chars
grep -q 'made with strip_accents "false", but it is "default"' err || die "the default of strip_accents"
# shellcheck disable=SC2086
run 78 --text articles.txt $common --output plain --strip_accents false
grep -q 'made with tokenize_chinese_chars "false", but it is "default"' err ||
    die "the default of tokenize_chinese_chars"
cp articles.txt articles-9.txt
printf 'One more. Town.\n' >>articles.txt
# shellcheck disable=SC2086
run 78 --text articles.txt $common --output made
# shellcheck disable=SC2086
run 0 --books books --text articles.txt $common --output merged --cased --format tfrecord
ls merged/tfrecord_lower_case_0_*/corpus/corpus_training_0.tfrecord >/dev/null || die "TFRecord"
# shellcheck disable=SC2086
run 0 --books books --extracted data/extracted $common --output both
ls both/hdf5_*/books_wiki_en_corpus/books_wiki_en_corpus_training_0.hdf5 >/dev/null || die "a merged corpus"
# shellcheck disable=SC2086
run 0 --text articles-9.txt $common --output named --name mine
cmp named/hdf5_*/mine/mine_training_0.hdf5 made/$hdf5/corpus/corpus_training_0.hdf5 && [ ! -e named/hdf5_*/corpus ] ||
    die "a corpus with a name of its own"
# shellcheck disable=SC2086
run 2 --text articles.txt $common --output other --format tfrecord --pack
# shellcheck disable=SC2086
run 2 --wikipedia dump.xml --extracted data/extracted $common --output other
printf 'good\n\377\n' >bad.txt
# shellcheck disable=SC2086
run 65 --text bad.txt $common --output other
grep -q 'bad.txt: byte 5: expected UTF-8' err || die "an invalid byte"
[ ! -e other ] || die "a refused text left $(find other)"
printf '[PAD]\n[UNK]\n' >poor.txt
run 65 --text articles.txt --vocab poor.txt --output early
grep -q 'poor.txt: the vocabulary has no \[CLS\]' err || die "a vocabulary without [CLS]"
# shellcheck disable=SC2086
run 65 --text articles.txt $common --max_seq_length 8193 --output early
grep -q 'max_seq_length: expected 5 to 8192, found 8193' err || die "rows that are too long"
# shellcheck disable=SC2086
run 65 --text articles.txt $common --max_seq_length 1025 --pack --output early
grep -q 'max_seq_length: expected at most 1024' err || die "packed rows that are too long"
# shellcheck disable=SC2086
run 66 --wikipedia dump.xml --books absent $common --output early
grep -q 'absent: no such file or folder' err || die "missing books"
[ ! -e early ] || die "a run that must fail was started"
mkdir -p part && cp -r data/extracted part && sed -i 's/"complete": true/"complete": false/' part/extracted/*/text.json
for folder in part/extracted part/extracted/wikicorpus_en; do
    # shellcheck disable=SC2086
    run 66 --extracted $folder $common --output other
    grep -q 'text.json: not complete' err || die "text that is not complete"
done

# --- stages by themselves: their input is whole ---
cp -r made gaps
shards=gaps/sharded_training_shards_2_test_shards_2_fraction_0.1/corpus instances=gaps/$hdf5/corpus
other="--vocab vocab.txt --shards 2 --max_seq_length 64 --max_predictions_per_seq 10"
printf 'Bern.\n' >$shards/corpus_training_1.txt
# shellcheck disable=SC2086
run 65 --text articles-9.txt $other --stages hdf5 --output gaps
grep -q 'corpus_training_1.txt: expected [0-9]* bytes, as in the manifest, found 6; run the stage "shards" first' err || die "a cut shard"
rm $shards/corpus_training_1.txt
# shellcheck disable=SC2086
run 65 --text articles-9.txt $other --stages hdf5 --output gaps
grep -q 'corpus_training_1.txt: listed in the manifest, but missing; run the stage "shards" first' err || die "a missing shard"
[ ! -e gaps/hdf5_*64* ] || die "gaps in the shards left $(find gaps/hdf5_*64*)"
rm $instances/corpus_training_0.hdf5
# shellcheck disable=SC2086
run 65 --text articles-9.txt $common --stages pack --output gaps
grep -q 'corpus_training_0.hdf5: listed in the manifest, but missing; run the stage "hdf5" first' err || die "a missing file of instances"
cp -r data cut-text
printf x >>cut-text/extracted/wikicorpus_en/AA/wiki_00
for folder in cut-text/extracted cut-text/extracted/wikicorpus_en; do
    # shellcheck disable=SC2086
    run 65 --extracted $folder $common --output other
    grep -q 'wiki_00: expected [0-9]* bytes, as in the manifest, found [0-9]*; run the stage "text" first' err || die "text of another size"
done
rm cut-text/extracted/wikicorpus_en/AA/wiki_00
run 65 --wikipedia dump.xml --stages shards --output cut-text
grep -q 'wiki_00: listed in the manifest, but missing; run the stage "text" first' err || die "missing text"

# --- what would end in the middle, or lose an input, is refused before the first stage ---
# shellcheck disable=SC2086
run 65 --text articles.txt --vocab vocab.txt --max_seq_length 128 --max_predictions_per_seq 10 --pack --output early
grep -q 'max_predictions_per_seq: expected at least 17 for the stage pack, found 10' err || die "a pack without room"
run 65 --text articles.txt --vocab vocab.txt --max_seq_length 128 --masked_lm_prob 0.25 --pack --output early
grep -q 'max_predictions_per_seq: expected at least 30 for the stage pack, found 20' err || die "a pack of many masks"
mkdir -p folder && cp articles.txt folder
ln -s folder link
for output in folder folder/out link/out; do
    # shellcheck disable=SC2086
    run 73 --text folder $common --output $output
    grep -q 'is in the input folder folder, whose files are all read as text' err || die "an output among the texts"
done
# shellcheck disable=SC2086
run 73 --books folder $common --output folder/out
# shellcheck disable=SC2086
run 73 --text made/sharded_*/corpus $common --output made
grep -q 'sharded_.*/corpus is in the input folder' err || die "the own shards as text"
[ "$(ls folder)" = articles.txt ] && [ ! -e early ] || die "a run that must fail was started"
# shellcheck disable=SC2086
run 0 --text folder $common --stages shards --output folder-out

# --- texts that are not as the rules expect ---
one_document="--vocab vocab.txt --max_seq_length 32 --max_predictions_per_seq 5"
for i in $(seq 40); do printf 'Bern is the capital of a town.\n'; done >lines-only.txt
# shellcheck disable=SC2086
run 0 --text lines-only.txt $one_document --output lines-only
grep -q 'making 1 shard for training and 0 for testing, not 256 and 256: .* and the text has 1$' err || die "one article"
grep -q 'warning: files made of a single document: 1, such as corpus_training_0.hdf5; .*expected an empty line after each article' err ||
    die "a shard of one document"
# shellcheck disable=SC2086
run 0 --text lines-only.txt $one_document --output lines-only
grep -q 'a single document: 1' err || die "a second run does not say it"
# shellcheck disable=SC2086
run 0 --input_file lines-only.txt --output_file lines-only.hdf5 $one_document
grep -q 'a single document: 1' err || die "a file of one document"
for i in $(seq 30); do printf 'Bern is the capital. The river is one of two. A town.\nOne town.\n\n'; done >usual.txt
# shellcheck disable=SC2086
run 0 --text usual.txt $common --output usual --test_shards 1
! grep -q 'warning\|UNK' err || die "a warning of an ordinary text"
for i in $(seq 30); do
    seq -s ' ' 60 | sed 's/[0-9]*/Bern/g'
    echo
done >long-lines.txt
# shellcheck disable=SC2086
run 0 --input_file long-lines.txt --output_file long-lines.hdf5 $one_document
grep -q 'warning: 1*[0-9][0-9] % of the instances have a random second segment, expected about half' err ||
    die "lines that stand alone"
grep -q 'warning: 100 % of the instances have lost more than half of their tokens' err || die "cut lines"
printf 'Bern is a town.\nA xylophone.\n\nThe river.\nOne.\n' >unknown.txt
# shellcheck disable=SC2086
run 0 --input_file unknown.txt --output_file unknown.hdf5 $one_document
grep -q '[1-9][0-9]*.[0-9] % of the tokens are \[UNK\]' err || die "words that the vocabulary lacks"
sed '$s/$/\nBern\nThe/' vocab.txt >capitals.txt
# shellcheck disable=SC2086
run 0 --input_file unknown.txt --output_file capitals.hdf5 ${one_document/vocab.txt/capitals.txt}
grep -q 'but 2 of the [0-9]* entries of capitals.txt have capital letters' err || die "a cased vocabulary"
for bytes in 'B\351rn.' 'Be\000rn.'; do
    printf "Bern.\nOne.\n\nA town.\n$bytes\n" >latin.txt
    # shellcheck disable=SC2086
    run 65 --input_file latin.txt --output_file latin.hdf5 $one_document
    grep -q 'latin.txt: byte [0-9]*: expected UTF-8 text, found byte 0x[E0][90]; convert' err || die "no text: $bytes"
    mkdir -p foreign/sharded_training_shards_1_test_shards_1_fraction_0.1/corpus
    cp latin.txt foreign/sharded_training_shards_1_test_shards_1_fraction_0.1/corpus/corpus_training_0.txt
    # shellcheck disable=SC2086
    run 65 --text plain $one_document --shards 1 --stages hdf5 --output foreign
    grep -q 'corpus_training_0.txt: byte [0-9]*: expected UTF-8' err || die "a shard of another program: $bytes"
done
printf 'Bern.\nOne.\n\nA town.\nB\351r\351n.\n' >latin.txt
# shellcheck disable=SC2086
run 0 --input_file latin.txt --output_file latin.hdf5 $one_document --tokenizer google
grep -q 'dropped byte sequences that are not UTF-8, as Google.s tokenizer does: 2$' err || die "bytes that Google drops"
gzip -k articles.txt
python3 - <<'PY' || die "compressed files"
import lzma, zipfile
data = open("dump.xml", "rb").read()
open("dump.xml.xz", "wb").write(lzma.compress(data))
with zipfile.ZipFile("dump.zip", "w") as packed:
    packed.writestr("dump.xml", data)
PY
# shellcheck disable=SC2086
run 65 --text articles.txt.gz $common --output packed-text
grep -q 'articles.txt.gz: compressed with gzip; decompress it first (gunzip)' err || die "a text in gzip"
# shellcheck disable=SC2086
run 65 --input_file articles.txt.gz --output_file packed.hdf5 $one_document
grep -q 'compressed with gzip' err || die "a file of sentences in gzip"
for case in "dump.xml.xz xz" "dump.zip zip"; do
    run 65 --wikipedia ${case% *} --stages text --output packed-text
    grep -q "${case% *}: compressed with ${case#* }; decompress" err || die "a dump in ${case#* }"
done

# --- lines and white space as Python has them ---
python3 - <<'PY' || die "the texts of lines"
spaces = [chr(c) for c in range(0x3100) if chr(c).isspace() and chr(c) not in "\r\n"] + ["\u3000\t\u00a0", "\u200b", "\u2800"]
ends = ["\n", "\r\n", "\r"]
lines = [part + ends[i % 3] for i, space in enumerate(spaces)
         for part in ("Bern is the capital.", f"The town {i % 2 * 'is '}a river.{space}", space, "One river.")]
open("lines.txt", "w", newline="").write("\ufeff" + "".join(lines))
with open("lines.txt", encoding="utf-8-sig") as text, open("plain.txt", "w") as plain:
    plain.writelines(line.rstrip() + "\n" for line in text)
PY
for file in lines plain; do
    run 0 --input_file $file.txt --output_file $file.hdf5 --vocab vocab.txt --max_seq_length 32 --max_predictions_per_seq 5 --rng python
    # shellcheck disable=SC2086
    run 0 --text $file.txt $common --stages shards --output shards-$file
done
cmp plain.hdf5 lines.hdf5 || die "other documents than those of Python's lines"
diff -r -x .lock -x shards.json shards-plain shards-lines >diff.txt || die "other articles than those of Python's lines"

# --- one file: nothing of the input is lost, no option is silently dropped ---
one="--vocab vocab.txt --max_seq_length 32 --max_predictions_per_seq 5"
mkdir -p texts && cp plain.txt texts && ln -s plain.txt link.txt && ln vocab.txt same-vocab.txt
for case in "plain.txt ./plain.txt" "link.txt plain.txt" "texts texts/plain.txt" "plain.txt same-vocab.txt"; do
    # shellcheck disable=SC2086
    run 73 --input_file ${case% *} --output_file ${case#* } $one
    grep -q 'is the same file as the input' err || die "an output that is an input: $case"
done
cmp -s plain.txt texts/plain.txt && head -n 1 vocab.txt | grep -q PAD || die "an input was changed"
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file plain-5.hdf5 $one
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file plain-set.hdf5 --dupe_factor 5 $one
cmp plain-5.hdf5 plain-set.hdf5 || die "another default of one file"
# The programs that it comes from, whose default is 10.
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file plain-10.hdf5 --dupe_factor 10 $one
for system in google habana; do
    # shellcheck disable=SC2086
    "$BERTH" as $system/create_pretraining_data.py --input_file plain.txt --output_file $system.hdf5 \
        --vocab_file ${one#--vocab } >out 2>err || die "create_pretraining_data.py of $system"
    cmp plain-10.hdf5 $system.hdf5 || die "not what create_pretraining_data.py of $system is"
done
for other in "--text plain.txt" "--wikipedia dump.xml" "--extracted x" "--books books" "--name corpus"; do
    # shellcheck disable=SC2086
    run 2 --input_file plain.txt --output_file other.hdf5 $one $other
    grep -q 'output_file takes the instances of input_file alone; leave out' err || die "another input: $other"
done
# Without sentences: the articles, one on each line.
printf 'one \n two\n\n\nthree\n' >articles-in.txt
mkdir -p articles-of-books && printf 'four\n\nfive' >articles-of-books/a.txt
run 0 --text articles-in.txt --books articles-of-books --output_file lines/of/articles.txt
printf 'four five\n\none  two\n\nthree\n\n' | cmp - lines/of/articles.txt || die "not an article on each line"
grep -qF '3 articles' out || die "no number of articles"
run 73 --text articles-in.txt --output_file ./articles-in.txt
run 2 --wikipedia dump.xml --output_file lines/of/articles.txt
grep -q 'option wikipedia: output_file takes articles of extracted text' err || die "a dump is no text"
run 2 --output_file lines/of/articles.txt
grep -q 'or articles: extracted, books or text' err || die "no input"
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file plain-5.hdf5 $one --output_dir x --stages text --pack --shards 3 \
    --test_shards 4 --fraction_test_set 0.2 --file_size 9
for unused in output_dir stages pack shards test_shards fraction_test_set file_size; do
    grep -q "note: $unused has no effect together with output_file" err || die "no note on $unused"
done

# --- files as Google's create_pretraining_data takes and writes them ---
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file tf_examples.tfrecord $one
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file TF_EXAMPLES.TFRECORD $one
cmp tf_examples.tfrecord TF_EXAMPLES.TFRECORD || die "a name that ends in .TFRECORD is not TFRecord"
run 0 --input_file plain.txt --output_file asked.hdf5 --format tfrecord $one
cmp tf_examples.tfrecord asked.hdf5 || die "a name that ends in .tfrecord is not TFRecord"
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file kept.tfrecord --format hdf5 $one
cmp kept.tfrecord plain-5.hdf5 || die "--format hdf5 is not HDF5"
# shellcheck disable=SC2086
run 0 --input_file plain.txt --output_file dealt-0.tfrecord,dealt-1.tfrecord,dealt-2.tf_record $one
python3 - <<'PY' || die "instances are not dealt out in turn"
def records(path):
    data, at, found = open(path, "rb").read(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at:at + 8], "little") + 16
        found.append(data[at:at + size])
        at += size
    return found
whole = records("tf_examples.tfrecord")
parts = [records(name) for name in ("dealt-0.tfrecord", "dealt-1.tfrecord", "dealt-2.tf_record")]
assert len(whole) > 6 and [whole[i::3] for i in range(3)] == parts
PY
{ cat plain.txt; echo; cat lines.txt; } >both.txt
# shellcheck disable=SC2086
run 0 --input_file both.txt --output_file both.hdf5 $one
mkdir -p listed && cp plain.txt "listed/a 1.txt" && cp lines.txt "listed/b,2.txt"
# shellcheck disable=SC2086
run 0 --input_file "plain.txt,lines.txt" --output_file list.hdf5 $one
# shellcheck disable=SC2086
run 0 --input_file "listed/*.txt" --output_file pattern.hdf5 $one
# shellcheck disable=SC2086
run 0 --input_file "listed/a*,lines.txt" --output_file mixed.hdf5 $one
for file in list pattern mixed; do
    cmp both.hdf5 $file.hdf5 || die "other instances of a $file of texts"
done
# shellcheck disable=SC2086
run 0 --input_file "listed/b,2.txt" --output_file comma.hdf5 $one
# shellcheck disable=SC2086
run 0 --input_file lines.txt --output_file no-comma.hdf5 $one
cmp comma.hdf5 no-comma.hdf5 || die "a name with a comma is taken apart"
# shellcheck disable=SC2086
run 66 --input_file "listed/*.none" --output_file none.hdf5 $one
grep -q 'listed/\*.none: no file matches this pattern' err || die "a pattern without files"
# shellcheck disable=SC2086
run 66 --input_file "plain.txt,absent.txt" --output_file none.hdf5 $one
grep -q absent.txt err || die "an absent file of a list"
# shellcheck disable=SC2086
run 2 --input_file "plain.txt,,lines.txt" --output_file none.hdf5 $one
grep -q 'a path in this list is empty' err || die "an empty name"
# shellcheck disable=SC2086
run 2 --input_file plain.txt --output_file none.hdf5,none.hdf5 $one
grep -q 'none.hdf5 is named twice' err || die "an output that is named twice"
ln -s . here
for same in ./none.hdf5 here/none.hdf5 "$PWD/none.hdf5"; do
    # shellcheck disable=SC2086
    run 2 --input_file plain.txt --output_file "none.hdf5,$same" $one
    grep -q 'none.hdf5 is named twice' err || die "an output that is named twice, as $same"
done
# shellcheck disable=SC2086
run 73 --input_file "plain.txt,lines.txt" --output_file none.hdf5,lines.txt $one
grep -q 'is the same file as the input' err || die "the second output is the second input"
[ ! -e none.hdf5 ] || die "an output of a refused line"

# --- berth pack ---
"$BERTH" pack made/$hdf5/corpus packed --json >out 2>err || die "pack"
grep -q '"speed_up_limit":' out || die "pack as JSON"
cmp packed/mixed_strategies_part_0.hdf5 made/${hdf5}_packed/corpus/mixed_strategies_part_0.hdf5 ||
    die "the command packs differently from the stage"
rm -r packed # what the message says is enough to start again
"$BERTH" pack made/$hdf5/corpus packed --seed 5 >out 2>err
[ $? -eq 78 ] && grep -q 'or remove the folder packed and packed_pack.json$' err || die "another seed"
rm packed_pack.json
"$BERTH" pack made/$hdf5/corpus packed --seed 5 >out 2>err || die "another seed after removing both"
rm -r packed packed_pack.json
"$BERTH" pack made/$hdf5/corpus packed >out 2>err || die "pack again"
"$BERTH" pack made/$hdf5/corpus longer --max_seq_length 64 >out 2>err
[ $? -eq 78 ] && grep -q 'corpus: max_seq_length is 64, but the rows have 32 tokens' err || die "rows of another length"
[ -z "$(ls -d longer* 2>/dev/null)" ] || die "rows of another length were packed"
"$BERTH" pack made/$hdf5/corpus packed --max_seq_length 32 >out 2>err || die "rows of the length asked for"
# Habana's program, in its own words.
"$BERTH" as pack_pretraining_data_pytorch.py --input_dir made/$hdf5/corpus --output_dir theirs --max_sequence_length 32 \
    --max_sequences_per_pack 3 >out 2>err || die "Habana's program"
cmp packed/mixed_strategies_part_0.hdf5 theirs/mixed_strategies_part_0.hdf5 || die "Habana's program packs differently"
"$BERTH" as pack_pretraining_data_pytorch.py --input_dir made/$hdf5/corpus --output_dir longer \
    --max_sequences_per_pack 2 >out 2>err
[ $? -eq 2 ] && grep -q 'max_sequences_per_pack: "2" is not available; a row holds up to three instances' err ||
    die "two instances a row"
"$BERTH" pack --input_dir made/$hdf5/corpus --output_dir longer >out 2>err
[ $? -eq 2 ] && grep -q 'unknown option --input_dir' err || die "options in place of arguments"
"$BERTH" pack made/sharded* packed2 >out 2>err
[ $? -eq 66 ] || die "pack of other files"
"$BERTH" pack books packed3 >out 2>err
[ $? -eq 66 ] || die "pack of other files"

# --- Ctrl-C, then resuming ---
for i in $(seq 400); do printf 'Bern is the capital. The river %s is one. Two.\n\n' "$i"; done >many.txt
for dupe_factor in 100 400 1600; do # with the first it may end before it gets the signal
    many="--text many.txt $common --shards 64 --dupe_factor $dupe_factor"
    rm -rf stopped
    # shellcheck disable=SC2086
    "$BERTH" prepare $many --output stopped >out 2>err &
    until [ -f "$(echo stopped/sharded_*/corpus/corpus_training_0.txt)" ] || ! kill -0 $! 2>/dev/null; do
        sleep 0.01
    done
    kill -INT $! 2>/dev/null
    wait $!
    status=$?
    [ $status -eq 0 ] || break
done
[ $status -eq 130 ] || die "after Ctrl-C: exit code $status, dupe_factor $dupe_factor"
# shellcheck disable=SC2086
run 0 $many --output stopped
# shellcheck disable=SC2086
run 0 $many --output whole
diff -r -x .lock whole stopped >diff.txt || die "another result after Ctrl-C: $(head -n 3 diff.txt)"

# --- the real sample, at small size ---
sample=${BERTH_DATA:-$(dirname "$0")/../../../shared/data}
dump=$sample/wikipedia/enwiki-sample.xml.bz2 vocab=$sample/vocab/bert-base-uncased-vocab.txt
if [ -f "$dump" ] && [ -f "$vocab" ]; then
    run 0 --wikipedia "$dump" --vocab "$vocab" --output real --shards 4 --dupe_factor 1 --pack --json
    grep -q '"articles":105,' out || die "the sample's articles"
    python3 - out <<'PY' || die "the sample's figures: $(cat out)"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["training_shards"] == 4 and r["test_shards"] == 4 and r["empty_shards"] == 0
assert 5000 < r["instances"] < 6500 and 0.85 < r["fill"] < 0.97
assert abs(r["masked"] / r["predictions"] - 0.8) < 0.01 and abs(r["kept"] / r["predictions"] - 0.1) < 0.01
assert sum(r["lengths"]) == r["instances"] and max(r["lengths"]) == r["lengths"][7]
assert 0.5 < r["random_next"] / r["instances"] < 0.56
assert 0.96 < r["pack"]["efficiency"] <= 1 and r["pack"]["speed_up"] <= r["pack"]["speed_up_limit"]
PY
else
    echo "no $dump: skipping the real sample"
fi
echo "prepare: all good"
