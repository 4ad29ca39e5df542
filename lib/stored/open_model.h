// Opens a trained model with all that computing with it needs.
#pragma once

#include <filesystem>

#include "stored/model_source.h"

namespace gptrain {

/// The model at `path`, and if it is an adapter, the model that it adapts: at `adapted`, or else at
/// the init_from of its run, or where an adapter of PEFT names its base. All ranks call it
/// together. Errors: those of ModelSource, and (usage) if there is no such model, if the adapter
/// was trained for another one, or if `adapted` is given but the model is not an adapter.
ModelSource open_model(const std::filesystem::path& path, const MpiSession& ranks,
                       const std::filesystem::path& adapted = {});

}  // namespace gptrain
