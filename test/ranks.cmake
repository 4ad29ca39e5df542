# Tests that run on several ranks. Their main function ends all ranks when one has failed.
set(rank_sources ${CMAKE_CURRENT_SOURCE_DIR}/comm)
# This tells Catch's header what to define.
set_source_files_properties(${rank_sources}/case_listener.cpp
  PROPERTIES SKIP_PRECOMPILE_HEADERS TRUE)

add_library(gptrain_rank_main OBJECT
  ${rank_sources}/main.cpp ${rank_sources}/ranks.cpp ${rank_sources}/case_listener.cpp
  ${rank_sources}/delayed.cpp ${rank_sources}/in_flight.cpp)
target_include_directories(gptrain_rank_main PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${rank_sources})
target_link_libraries(gptrain_rank_main PUBLIC gptrain_flags gptrain::train gptrain_catch_runner)

# gptrain_rank_executable(<name> SOURCES <file>... [ALONE <file>...] LINKS <library>...)
# Catch2 cases for several ranks; the sources define the communicators under test (ranks.h). ALONE as
# for gptrain_test.
function(gptrain_rank_executable name)
  cmake_parse_arguments(RANKS "" "" "SOURCES;ALONE;LINKS" ${ARGN})
  add_executable(${name} ${RANKS_SOURCES} ${RANKS_ALONE})
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${GPTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  set_source_files_properties(${RANKS_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION TRUE)
  target_link_libraries(${name} PRIVATE gptrain_rank_main ${RANKS_LINKS})
endfunction()

# The settings of openmpi.sh, which gives the reasons, and one thread for each rank.
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/openmpi.sh rank_environment REGEX "^export ")
list(TRANSFORM rank_environment REPLACE "^export " "")
string(REPLACE " " ";" rank_environment "OMP_NUM_THREADS=1;${rank_environment}")

# gptrain_rank_test(<name> <executable> RANKS <n>... [LABELS <label>...] [ENVIRONMENT <A=B>...]
#   [TIMEOUT <seconds>] [CASES <name>])
# One CTest case for each number of ranks, with all Catch2 cases or those of that name.
function(gptrain_rank_test name executable)
  cmake_parse_arguments(TEST "" "TIMEOUT;CASES" "RANKS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  gptrain_tested(${executable} ${TEST_LABELS})
  foreach(ranks ${TEST_RANKS})
    add_test(NAME ${name}_${ranks}_ranks COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG}
      ${ranks} $<TARGET_FILE:${executable}> --abort ${TEST_CASES})
    set_tests_properties(${name}_${ranks}_ranks PROPERTIES TIMEOUT ${TEST_TIMEOUT}
      PROCESSORS ${all_jobs} COST 1000 SKIP_RETURN_CODE 77 LABELS "${TEST_LABELS}"
      ENVIRONMENT "${rank_environment};${TEST_ENVIRONMENT}")
  endforeach()
endfunction()
