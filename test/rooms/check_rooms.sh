#!/usr/bin/env bash
# The check of the rooms accepts a small tree without violations and reports each kind of violation.
# Usage: check_rooms.sh CHECK
. "$(dirname "$0")/lib.sh"
mkdir -p cuda/runtime cuda/ops lib/base lib/meter lib/train app test
echo 'foreach(room base meter train)' >CMakeLists.txt
echo 'foreach(folder runtime ops .)' >cuda/CMakeLists.txt
mkdir docs
# picture LINE...: the picture of the rooms.
picture() {
    printf '%s\n' '```mermaid' flowchart "$@" '```' 'not --> drawn' >docs/design.md
}
drawn=('base --> train' 'base --> meter' 'base --> cuda' 'train --> app')
picture "${drawn[@]}"

# include FILE HEADER...: FILE includes these headers and nothing else.
include() {
    local file=$1
    shift
    printf '#include "%s"\n' "$@" >"$file"
}

tree_in_order() {
    rm -f lib/*/* cuda/*/* app/* test/*.cpp
    include lib/base/file.h base/error.h
    echo '#include <string>' >lib/base/error.h
    include lib/base/file.cpp base/file.h
    include lib/train/run.h base/file.h
    include lib/train/run.cpp train/run.h base/error.h
    include lib/meter/count.h base/error.h
    include cuda/ops/norm.cu cuda/runtime/stream.cuh
    include cuda/runtime/stream.cuh base/error.h
    include app/train.cpp start.h train/run.h
    include app/start.h base/error.h
}

tree_in_order
expect 0 ", 0 violations"

picture "${drawn[@]}" 'meter --> train'
expect 1 'the picture has an arrow from meter to train, which includes nothing of it'
picture 'base --> train' 'train --> app' 'base --> cuda'
expect 1 'docs/design.md: the picture lacks meter'
picture "${drawn[@]}"

include lib/base/error.h train/run.h
expect 1 'lib/base/error.h:1: base stands before train, it must not include "train/run.h"'

tree_in_order
include lib/train/run.cpp base/error.h train/run.h
expect 1 'lib/train/run.cpp:1: the first include should be the own header, "train/run.h"'

tree_in_order
include cuda/runtime/stream.cuh cuda/ops/norm.h
expect 1 'cuda/runtime/ stands before cuda/ops/'

# Two headers, or a source that closes the ring.
tree_in_order
include lib/base/error.h base/file.h
expect 1 'files include each other: lib/base/'
tree_in_order
include lib/base/error.cpp base/error.h base/file.h
expect 1 'files include each other: lib/base/'

# A ring of three, and rings outside lib/.
tree_in_order
include lib/train/loop.h train/run.h
include lib/train/save.h train/loop.h
include lib/train/run.cpp train/run.h train/save.h
expect 1 'files include each other: lib/train/'
tree_in_order
include cuda/ops/norm.cuh cuda/ops/rows.cuh
include cuda/ops/rows.cuh base/error.h
include cuda/ops/rows.cu cuda/ops/norm.cuh
expect 1 'files include each other: cuda/ops/'
tree_in_order
include app/start.h train.h
include app/train.h base/error.h
expect 1 'files include each other: app/'

# One name in two headers. Declarations without members, and specialisations, do not count as a
# second one.
tree_in_order
echo 'struct File {' >>lib/base/file.h
printf 'struct File;\ntemplate <>\nstruct Size<File> {\n' >>lib/train/run.h
expect 0 ", 0 violations"
echo 'class File : public Base {' >>lib/train/run.h
expect 1 'File is declared in lib/base/file.h, too'
mkdir data_tools
tree_in_order
echo 'struct File {' | tee -a lib/base/file.h >data_tools/file.h
expect 1 'File is declared in data_tools/file.h, too'
rm -r data_tools

# Code that computes uses no RunSpec; code that sets up a run, app/ and tests do.
tree_in_order
echo 'int steps(const RunSpec& spec);' | tee -a lib/train/run.h app/start.h >test/steps.cpp
echo 'class RunSpecimen;' >>lib/meter/count.h
expect 0 ", 0 violations"
echo 'int steps(const RunSpec& spec);' >>lib/meter/count.h
expect 1 'lib/meter/count.h:3: RunSpec is for what sets up, varies or describes a run; use RunPlan'

# Long files.
tree_in_order
printf '// a line\n%.0s' {1..400} >lib/train/loop.h
expect 0 ", 0 violations"
echo '// a line' >>lib/train/loop.h
expect 1 'lib/train/loop.h:401: the file has more than 400 lines; split it by idea'
mkdir lib/unicode
sed -i 's/base meter/base unicode meter/' CMakeLists.txt
mv lib/train/loop.h lib/unicode/unicode_tables.h
echo '#include "base/error.h"' >lib/unicode/read.h
picture "${drawn[@]}" 'base --> unicode'
expect 0 ", 0 violations"
printf 'echo\n%.0s' {1..401} >test/long.sh
expect 1 'test/long.sh:401: the file has more than 400 lines; split it by idea'

((failures == 0))
