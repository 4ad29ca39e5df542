# cmake --install: the programs, man pages, completions, specs, Slurm scripts, pages and a
# modulefile. No installed file contains its own path, so a tree may be moved.
include(GNUInstallDirs)

install(TARGETS gptrain gpt-preprocess)
if(GPTRAIN_REMOVE_RUN_PATH)
  set(folder ${CMAKE_INSTALL_BINDIR})
  if(NOT IS_ABSOLUTE ${folder})
    set(folder "\${CMAKE_INSTALL_PREFIX}/${folder}")
  endif()
  foreach(program gptrain gpt-preprocess)
    install(CODE "file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}${folder}/${program}\")")
  endforeach()
endif()
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/gptrain)
file(GLOB batch_scripts CONFIGURE_DEPENDS scripts/slurm/*.sbatch)
install(PROGRAMS ${batch_scripts} DESTINATION ${CMAKE_INSTALL_DATADIR}/gptrain/slurm)
file(GLOB sourced_scripts CONFIGURE_DEPENDS scripts/slurm/*.sh)
install(FILES ${sourced_scripts} DESTINATION ${CMAKE_INSTALL_DATADIR}/gptrain/slurm)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The programs write their own man pages and completions, when they are installed.
# Not help/: the build folder has a target of that name.
set(made ${PROJECT_BINARY_DIR}/help_files)
file(MAKE_DIRECTORY ${made})
foreach(program gptrain gpt-preprocess)
  foreach(format man bash zsh fish)
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:${program}>\" help --format ${format}
      OUTPUT_FILE \"${made}/${program}.${format}\" COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
  install(FILES ${made}/${program}.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    RENAME ${program}.1)
  install(FILES ${made}/${program}.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${made}/${program}.zsh RENAME _${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${made}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()

# The modulefile finds the programs by its own place.
set(modules ${CMAKE_INSTALL_DATADIR}/gptrain/modulefiles/gptrain)
file(RELATIVE_PATH way_to_prefix /${modules} /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/modulefile.in ${made}/modulefile @ONLY)
install(FILES ${made}/modulefile DESTINATION ${modules} RENAME ${PROJECT_VERSION})
