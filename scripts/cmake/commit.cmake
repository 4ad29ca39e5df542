# Writes a source that defines gptrain::built_commit, unless it is there already. Run at every build
# with SOURCE_DIR and OUTPUT. Only a checkout's own git counts, not that of a folder around it.
set(commit unknown)
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${SOURCE_DIR} --no-optional-locks
      describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${said})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "version.h"

std::string_view gptrain::built_commit() {
    return "@commit@";
}
]])
