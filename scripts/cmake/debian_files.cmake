# Adapts an installed tree to Debian's policy: a copyright file, changelogs and man pages compressed
# with gzip, and zsh's completions where Debian looks for them. CPack runs it before it packs.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/gptrain)

file(WRITE ${doc}/copyright
"gptrain: no license has been chosen yet.

Copyright (C) 2026 The gptrain maintainers

The owners of gptrain have not published it under a license. Until they do, all
rights are reserved: this package is for their own machines and for those to
whom they gave it, and must not be passed on.
")
execute_process(COMMAND date -R -u -d ${CPACK_GPTRAIN_DATE}
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog.Debian
"gptrain (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; changelog.gz lists what it changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(WRITE ${share}/lintian/overrides/gptrain
"# Nobody uploads this package to Debian, so no bug asked for it.
gptrain: initial-upload-closes-no-bugs *
")
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
file(GLOB pages ${share}/man/man1/*.1)
execute_process(COMMAND gzip -9n ${doc}/changelog ${doc}/changelog.Debian ${pages}
  COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
