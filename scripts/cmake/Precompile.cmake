# Precompiled headers: the standard library, nlohmann-json and, for tests, Catch2 are parsed once in
# place of once a source. Sources still include what they use: a build with -DGPTRAIN_PRECOMPILE=OFF
# shows it.
option(GPTRAIN_PRECOMPILE "Parse the headers of other libraries once" ON)

set(standard_headers
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view>
  <thread> <unordered_map> <utility> <variant> <vector>)

# gptrain_precompiled_headers(<name> HEADERS <header>... LINKS <library>...)
# A target <name> that others reuse. They need the same compile options.
function(gptrain_precompiled_headers name)
  if(NOT GPTRAIN_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(PRECOMPILED "" "" "HEADERS;LINKS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  target_link_libraries(${name} PRIVATE gptrain_flags ${PRECOMPILED_LINKS})
  target_precompile_headers(${name} PRIVATE ${standard_headers} ${PRECOMPILED_HEADERS})
  set_target_properties(${name} PROPERTIES GPTRAIN_NOT_PRECOMPILED TRUE)
endfunction()

# Lets every target declared in and below the folders reuse them, but for targets with the property
# GPTRAIN_NOT_PRECOMPILED.
function(gptrain_reuse_headers name)
  if(NOT GPTRAIN_PRECOMPILE)
    return()
  endif()
  foreach(folder ${ARGN})
    get_property(inner DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    gptrain_reuse_headers(${name} ${inner})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      get_target_property(excluded ${target} GPTRAIN_NOT_PRECOMPILED)
      if(type MATCHES "EXECUTABLE|STATIC|OBJECT" AND NOT excluded)
        target_precompile_headers(${target} REUSE_FROM ${name})
      endif()
    endforeach()
  endforeach()
endfunction()
