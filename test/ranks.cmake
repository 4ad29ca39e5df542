# Tests that run as several ranks. Catch comes without its main function: the tests' own one
# ends all ranks when one has failed.
add_library(gptrain_catch_runner STATIC ${PROJECT_SOURCE_DIR}/test/comm/catch_runner.cpp)
target_include_directories(gptrain_catch_runner PRIVATE ${PROJECT_SOURCE_DIR}/test)
target_link_libraries(gptrain_catch_runner PUBLIC Catch2::Catch2)

function(gptrain_rank_executable name)
  cmake_parse_arguments(RANKS "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/test/comm/main.cpp
    ${PROJECT_SOURCE_DIR}/test/comm/ranks.cpp ${PROJECT_SOURCE_DIR}/test/comm/case_listener.cpp
    ${RANKS_SOURCES})
  target_include_directories(${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/test ${PROJECT_SOURCE_DIR}/test/comm)
  target_link_libraries(${name} PRIVATE gptrain_flags gptrain::train ${RANKS_LINKS}
    gptrain_catch_runner)
endfunction()

# For OpenMPI: tests may run as root and on fewer cores than ranks. It crashes now and then where it
# puts a description of the machine into shared memory. Its own memory is never given back, which the
# address sanitizer must not mind.
set(rank_environment OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rtc_hwloc_vmhole=none ASAN_OPTIONS=detect_leaks=0)

# gptrain_rank_test(<name> <executable> RANKS <n>... [LABELS <label>...] [ENVIRONMENT <A=B>...]
#   [TIMEOUT <seconds>])
# One CTest case for each number of ranks.
function(gptrain_rank_test name executable)
  cmake_parse_arguments(TEST "" "TIMEOUT" "RANKS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  foreach(ranks ${TEST_RANKS})
    add_test(NAME ${name}_${ranks}_ranks COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG}
      ${ranks} $<TARGET_FILE:${executable}> --abort)
    set_tests_properties(${name}_${ranks}_ranks PROPERTIES TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${ranks}
      SKIP_RETURN_CODE 77 LABELS "${TEST_LABELS}"
      ENVIRONMENT "${rank_environment};${TEST_ENVIRONMENT}")
  endforeach()
endfunction()
