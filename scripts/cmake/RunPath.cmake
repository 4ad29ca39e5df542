# The run path by which programs of the build folder find libraries outside the system's folders, such
# as an MPI in /opt. Unless the user asks for one in installed programs, cmake --install removes it
# (Install.cmake).
#
# CMake would link a run path for the build folder that ends in ':' if cmake --install changes it.
# That is an empty element: the loader would take libraries from the current folder.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(GPTRAIN_REMOVE_RUN_PATH FALSE)
if(NOT CMAKE_INSTALL_RPATH AND NOT CMAKE_INSTALL_RPATH_USE_LINK_PATH)
  set(GPTRAIN_REMOVE_RUN_PATH TRUE)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()
