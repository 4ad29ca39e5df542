# The preset tidy compiles the sources of a room as one, so that the headers of libraries are read
# once a room. These repeat a local name of another source of their room and stay alone.
set(alone
  app/generate.cpp app/inspect.cpp app/train.cpp
  lib/checkpoint/records.cpp lib/checkpoint/snapshot.cpp
  lib/data/indexed_writer.cpp
  lib/text/model_check.cpp)
foreach(source ${alone})
  cmake_path(GET source PARENT_PATH room)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} DIRECTORY ${PROJECT_SOURCE_DIR}/${room}
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION TRUE)
endforeach()
