// The date that a template writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/template_value.h"

namespace gptrain {

/// The local time, or in UTC that of the environment variable SOURCE_DATE_EPOCH. Seconds from 1970
/// to what the clock shows; -1 if the variable is no such number.
std::int64_t template_time();
/// From now on templates write this time, so that one program, or processes that work together,
/// write the same; without it they write template_time(). To be called before threads render.
void fix_template_time(std::int64_t seconds);

/// The time of templates in this format of Python's strftime, in English. Error if a directive is
/// not supported or the time is -1.
std::string now_text(const TemplateRun& run, std::string_view format);

}  // namespace gptrain
