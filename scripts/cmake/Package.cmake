# cpack -G DEB: a package for the Debian or Ubuntu release that it is built on.
set(GPTRAIN_MAINTAINER "The gptrain maintainers <gptrain@example.org>" CACHE STRING
  "Who answers for a package: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gptrain)
set(CPACK_PACKAGE_VENDOR "The gptrain maintainers")
set(CPACK_PACKAGE_CONTACT ${GPTRAIN_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "native trainer of GPT language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"gptrain trains GPT language models, from raw text to a model that writes,
with one native program, on a laptop's CPU or on many GPUs. It has data,
tensor, sequence, pipeline and context parallelism over MPI, checkpoints that
load on any mesh, evaluation, generation, an HTTP server, and a planner that
finds the fastest mesh of a machine.
.
gpt-preprocess turns text into the token files that it reads.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
# Seen by debian_files.cmake.
set(CPACK_GPTRAIN_DATE ${release_date})
include(CPack)
