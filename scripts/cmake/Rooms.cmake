# Compiler flags shared by all targets, and the function that declares a room of lib/.
add_library(gptrain_flags INTERFACE)
target_include_directories(gptrain_flags INTERFACE ${PROJECT_SOURCE_DIR}/lib)
target_compile_options(gptrain_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # Takes exponential time in nested calls, five sixths of a build; clang-tidy finds the same.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-sequence-point>
  # Results must not depend on which multiplications the compiler fuses with additions.
  -ffp-contract=off
  # g++ 12 reports overlaps in std::string that do not exist (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>>)

option(GPTRAIN_FUZZ "Fuzz targets with libFuzzer (clang), in place of their replay" OFF)
set(GPTRAIN_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")
if(GPTRAIN_SANITIZE)
  # Left out, as they take a third of the compile time: null and object-size, since the address
  # sanitizer stops at such accesses; vptr, since no bytes that we read become an object's type; and
  # alignment, which fuzzing looks for.
  set(left_out null,object-size,vptr)
  if(NOT GPTRAIN_FUZZ)
    string(APPEND left_out ,alignment)
  endif()
  target_compile_options(gptrain_flags INTERFACE -fsanitize=${GPTRAIN_SANITIZE}
    -fno-sanitize=${left_out} -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(gptrain_flags INTERFACE -fsanitize=${GPTRAIN_SANITIZE})
endif()
# g++ warns of every fence, which the thread sanitizer does not see. Our fences order only atomics,
# among which there is no race to report.
if(GPTRAIN_SANITIZE STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(gptrain_flags INTERFACE -Wno-tsan)
endif()
if(GPTRAIN_FUZZ)
  target_compile_options(gptrain_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# gptrain_room(<name> SOURCES <file>... LINKS <library>...)
# A static library gptrain_<name>, alias gptrain::<name>.
function(gptrain_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  add_library(gptrain_${name} STATIC ${ROOM_SOURCES})
  add_library(gptrain::${name} ALIAS gptrain_${name})
  target_link_libraries(gptrain_${name} PUBLIC gptrain_flags ${ROOM_LINKS})
endfunction()
