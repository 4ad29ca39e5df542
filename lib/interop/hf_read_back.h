// The settings of an exported model as its config.json has them.
#pragma once

#include "interop/hf_classes.h"

namespace gptrain {

/// Error (bug) unless the model read from an exported config.json is the one that was written: it
/// names the key, with both values. Left out is what the class has not (hf_class_of), or what is
/// not read: dropout, windows that no layer has, and that a GPT-2 has no biases, which are written
/// as 0.
void check_read_back(const ModelShape& written, const ModelShape& read, HfClass hf_class);

}  // namespace gptrain
