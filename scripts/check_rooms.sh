#!/usr/bin/env bash
# Checks who includes whom. The rooms of lib/ stand in the order of the data flow in the top
# CMakeLists.txt; a room includes itself and rooms before it, and each third-party library is seen
# by one room only (docs/design.md, "Rooms"). A source includes its own header first. No files
# include each other in a ring, where x.h and x.cpp count as one file. Prints each violation as
# file:line. cuda/ stands behind lib/meter; what lies there is seen by itself, by tests and by app/
# alone, and CUDA, cuBLASLt and NCCL by nobody else. Inside cuda/ the folders stand in the order of
# cuda/CMakeLists.txt, with the same rule as rooms. No two headers of the namespace gptrain declare
# one name: the linker would use one of the two without a warning. Outside of app/ and tests, only
# what sets up, varies or describes a run uses RunSpec (docs/design.md, "Boundaries"). No source or
# script has more than 400 lines, except a table that a script wrote. The picture in docs/design.md
# has every room, and an arrow only to a room that includes the one that it comes from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rooms=$(sed -n 's/^foreach(room \(.*\))$/\1/p' CMakeLists.txt)
if [[ -z $rooms ]]; then
    echo "error: CMakeLists.txt: no line 'foreach(room ...)' that lists the rooms of lib/" >&2
    exit 1
fi
folders=$(sed -n 's/^foreach(folder \(.*\))$/\1/p' cuda/CMakeLists.txt)
if [[ -z $folders ]]; then
    echo "error: cuda/CMakeLists.txt: no line 'foreach(folder ...)' that lists the folders of cuda/" >&2
    exit 1
fi
mapfile -d '' sources < <(git ls-files -z --cached --others --exclude-standard -- \
    'lib/*.h' 'lib/*.cpp' 'app/*.h' 'app/*.cpp' 'data_tools/*.h' 'data_tools/*.cpp' \
    'test/*.h' 'test/*.cpp' 'test/*.cuh' 'cuda/*.h' 'cuda/*.cpp' 'cuda/*.cuh' 'cuda/*.cu')
mapfile -d '' scripts < <(git ls-files -z --cached --others --exclude-standard -- \
    '*.sh' '*.py' '*.js')
if ((${#sources[@]} == 0)); then
    echo "error: git knows no sources here; run this in a clone" >&2
    exit 1
fi
# The ends of the picture's arrows.
picture=$(awk '/^```/ { inside = $0 == "```mermaid"; next } inside && / --> / { print $1, $3 }' \
    docs/design.md)

awk -v rooms="$rooms" -v folders="$folders" -v picture="${picture//$'\n'/ }" '
    BEGIN {
        count = split(rooms, names)
        for (i = 1; i <= count; ++i) position[names[i]] = i
        # Next to the rooms of lib/, and not above one: meter and cuda do not know each other.
        position["cuda"] = position["meter"] + 0.5
        closed["cuda"] = "cpu meter"
        count = split(folders, names)
        for (i = 1; i <= count; ++i)
            folder_position[names[i] == "." ? "cuda" : "cuda/" names[i]] = i
        # Where a header may be seen: its pattern, the places, the name of its library.
        allow("^nlohmann/", "base", "nlohmann-json")
        allow("^yaml-cpp/", "spec", "yaml-cpp")
        allow("^mpi\\.h$", "comm", "MPI")
        allow("^(oneapi/dnnl/)?dnnl", "cpu", "oneDNN")
        allow("^sentencepiece", "tokenizer", "sentencepiece")
        allow("^zlib\\.h$", "codec", "zlib")
        allow("^zstd\\.h$", "codec", "libzstd")
        allow("^microhttpd\\.h$", "serve", "libmicrohttpd")
        allow("^(hdf5|hdf5_hl|H5[A-Za-z]*)\\.h$", "checkpoint", "HDF5")
        cuda_headers = "^(cuda[A-Za-z0-9_]*\\.h|cublas.*|nccl.*|nvtx3/.*|cub/.*|cooperative_groups.*)$"
        allow(cuda_headers, "cuda", "CUDA")
        allow("^CLI/", "help app data_tools", "CLI11")
        allow("^catch2/", "", "Catch2")
        most_lines = 400
        is_table["lib/unicode/unicode_tables.h"] = 1
        # Knows named shards only.
        closed["checkpoint"] = "model schedule optim"
        # Who uses RunSpec; whatever else computes gets a RunPlan.
        spec_users = "^lib/((spec|stored|metrics|report|search|train|infer|answers)/.*" \
                     "|(interop/hf_folder|calibrate/probes|calibrate/probe_run)" \
                     "[.](h|cpp))$"
        for (i = 1; i < ARGC; ++i) is_source[ARGV[i]] = 1
    }
    function allow(pattern, places, library) {
        pattern_of[++libraries] = pattern
        places_of[libraries] = " " places " "
        library_of[libraries] = library
    }
    function violation(what) {
        printf "%s:%d: %s\n", FILENAME, FNR, what
        ++violations
    }
    function folder_of(file) {
        sub(/\/[^\/]*$/, "", file)
        return file
    }
    # The header of a source that has one, else the file itself.
    function with_header(file,    header) {
        header = file
        sub(/\.(cpp|cu)$/, ".h", header)
        return header in is_source ? header : file
    }
    # The file that an include names, if it is one of ours.
    function path_of(header) {
        if ("lib/" header in is_source) return "lib/" header
        if (header in is_source) return header
        if (folder_of(FILENAME) "/" header in is_source) return folder_of(FILENAME) "/" header
        return "test/" header in is_source ? "test/" header : ""
    }
    # A header and its source count as one file.
    function without_extension(file) {
        sub(/\.[^.\/]*$/, "", file)
        return file
    }
    function add_edge(from, to) {
        if (to == "" || from == to || (from, to) in is_edge) return
        is_edge[from, to] = 1
        included[from] = included[from] " " to
    }
    # Prints the rings that `file` is in or leads to; `path` is how it was reached.
    function find_rings(file, path,    files, count, i, place_in_path) {
        place_in_path = index(path " ", " " file " ")
        if (place_in_path > 0) {
            printf "files include each other:%s %s\n", substr(path, place_in_path), file
            ++violations
        } else if (!(file in visited)) {
            count = split(included[file], files)
            for (i = 1; i <= count; ++i) find_rings(files[i], path " " file)
            visited[file] = 1
        }
    }
    FNR == most_lines + 1 && !(FILENAME in is_table) {
        violation("the file has more than " most_lines " lines; split it by idea")
    }
    FILENAME ~ /\.(sh|py|js)$/ { next }
    FNR == 1 {
        split(FILENAME, parts, "/")
        place = parts[1] == "lib" ? parts[2] : parts[1]
        in_room = place in position
        is_kernel = FILENAME ~ /\.cuh?$/
        # Included first, which shows that it compiles on its own.
        own_header = with_header(FILENAME)
        if (!in_room || own_header == FILENAME) own_header = ""
        if (parts[1] == "lib" && !in_room)
            violation("lib/" place " is not in the list of rooms in CMakeLists.txt")
        inner = folder_of(FILENAME)
        if (place == "cuda" && !(inner in folder_position))
            violation(inner "/ is not in the list of folders in cuda/CMakeLists.txt")
        is_outer = place == "app" || place == "test"
    }
    !is_outer && FILENAME !~ spec_users && /(^|[^A-Za-z0-9_])RunSpec([^A-Za-z0-9_]|$)/ {
        violation("RunSpec is for what sets up, varies or describes a run; use RunPlan, or add the " \
                  "file to spec_users here and to docs/design.md, \"Boundaries\"")
    }
    FILENAME ~ /^(lib|app|data_tools)\/.*\.h$/ && FILENAME !~ /^lib\/cpu\// &&
    /^(struct|class|enum class) [A-Za-z0-9_]+( .*)?$/ {
        name = $0
        sub(/^(struct|class|enum class) /, "", name)
        sub(/[^A-Za-z0-9_].*/, "", name)
        if (name in declared && before !~ /^template/)
            violation(name " is declared in " declared[name] ", too")
        if (before !~ /^template/) declared[name] = FILENAME
    }
    { before = $0 }
    match($0, /^[ \t]*#[ \t]*include[ \t]*[<"][^>"]+[>"]/) {
        header = substr($0, RSTART, RLENGTH)
        quoted = header ~ /"$/
        sub(/^[^<"]*[<"]/, "", header)
        sub(/[>"]$/, "", header)
        ++includes
        if (quoted) add_edge(without_extension(FILENAME), without_extension(path_of(header)))
        if (own_header != "") {
            sub(/^lib\//, "", own_header)
            if (header != own_header)
                violation("the first include should be the own header, \"" own_header "\"")
            own_header = ""
        }

        # Tests see every library: they make hostile files and read fixtures.
        for (i = 1; i <= libraries && place != "test"; ++i)
            if (header ~ pattern_of[i] && index(places_of[i], " " place " ") == 0)
                violation(library_of[i] " is not seen in " place ": <" header ">")
        if (place == "test" && header ~ /^catch2\// &&
            FILENAME !~ /^test\/(catch\.h|comm\/case_listener\.cpp)$/)
            violation("tests include \"catch.h\", which knows both versions of Catch2")

        if (is_kernel && header ~ cuda_headers)
            violation("kernels include no header of CUDA: <" header ">")

        folder = header
        if (!sub(/\/.*/, "", folder)) folder = ""
        uses[place, folder] = 1
        if (folder in position) {
            if (!quoted) violation("an own header is included with quotes: <" header ">")
            if (folder == "cuda" && place != "cuda" && place != "app" && place != "test")
                violation("cuda/ is not seen in " place ": \"" header "\"")
            if (in_room && position[folder] > position[place])
                violation(place " stands before " folder ", it must not include \"" header "\"")
            if (in_room && index(" " closed[place] " ", " " folder " "))
                violation(place " must not know " folder ": \"" header "\"")
            if (place == "cuda" && folder == "cuda") {
                if (folder_position[folder_of(header)] > folder_position[inner])
                    violation(inner "/ stands before " folder_of(header) \
                              "/, it must not include \"" header "\"")
            }
        } else if (in_room && quoted) {
            violation("\"" header "\" does not name a room (\"room/file.h\")")
        }
        if (place != "test" && (header ~ /\.\.\// || folder == "test" ||
                                (folder == "app" || folder == "data_tools") && folder != place))
            violation(place " must not include \"" header "\"")
    }
    # Compares the picture with the includes.
    function check_picture(    count, ends, i, name) {
        count = split(picture, ends)
        for (i = 1; i < count; i += 2) {
            is_drawn[ends[i]] = is_drawn[ends[i + 1]] = 1
            if (!((ends[i + 1], ends[i]) in uses)) {
                printf "docs/design.md: the picture has an arrow from %s to %s, which includes " \
                       "nothing of it\n", ends[i], ends[i + 1]
                ++violations
            }
        }
        for (name in position) {
            if (name in is_drawn) continue
            printf "docs/design.md: the picture lacks %s\n", name
            ++violations
        }
    }
    END {
        for (file in included) find_rings(file, "")
        check_picture()
        printf "Rooms: %d includes in %d files, %d violations.\n", includes, ARGC - 1, violations
        exit violations > 0
    }
' "${sources[@]}" "${scripts[@]}"
