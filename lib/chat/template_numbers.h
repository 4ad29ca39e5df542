// Python's numbers, for chat templates. Errors come from TemplateRun::fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "chat/template_value.h"

namespace gptrain {

/// The operators + - * / // % ** of two numbers. Error for whole numbers above 64 bits, a division
/// by 0 and powers that are not real.
TemplateValue arithmetic(const TemplateRun& run, std::string_view name, const TemplateValue& a,
                         const TemplateValue& b);

/// Python's int(), and int(float()) where that fails, as Jinja's filter; nothing if both fail.
std::optional<TemplateValue> whole_number_of(const TemplateRun& run, const TemplateValue& value);
/// Python's float(); nothing if it fails.
std::optional<double> real_number_of(const TemplateRun& run, const TemplateValue& value);

/// Jinja's filter round, to `digits` after the point. `method`: common, ceil or floor.
TemplateValue rounded(const TemplateRun& run, const TemplateValue& value, std::int64_t digits,
                      std::string_view method);

}  // namespace gptrain
