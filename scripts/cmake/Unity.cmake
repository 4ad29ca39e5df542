# Unity builds: the sources of a room are compiled as one, so that a header is read once a room in
# place of once a source. That halves the time of a full build. -DGPTRAIN_UNITY=OFF suits those who
# rebuild after every edit, and shows sources that lack an include.
option(GPTRAIN_UNITY "Compile the sources of a room as one" ON)

# These repeat a local name of another source of their room, or give a class a member of a local
# type, of which g++ warns in a file that is included.
set(alone
  lib/checkpoint/records.cpp lib/checkpoint/snapshot.cpp
  lib/cpu/gemm.cpp
  lib/data/indexed_writer.cpp
  lib/tokenizer/model_check.cpp lib/tokenizer/tokenizer.cpp)

# gptrain_unity(<folder>...): for every target declared in the folders.
function(gptrain_unity)
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    set_target_properties(${targets} PROPERTIES
      UNITY_BUILD ${GPTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  endforeach()
  foreach(source ${alone})
    cmake_path(GET source PARENT_PATH folder)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${source}
      DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTIES SKIP_UNITY_BUILD_INCLUSION TRUE)
  endforeach()
endfunction()
