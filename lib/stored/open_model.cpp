#include "stored/open_model.h"

#include <utility>

#include "stored/saved_run.h"
#include "stored/source_weights.h"

namespace gptrain {
namespace {

/// Where the model is that the adapter adapts. Error (usage) if the path does not exist.
std::filesystem::path place_of_adapted(const ModelSource& adapter, const RunSpec& spec,
                                       const std::filesystem::path& given) {
    std::filesystem::path path = given.empty() ? spec.init_from.value_or("") : given;
    if (given.empty() && is_peft_folder(path))
        path = peft_base(path, "give --adapted DIR, where the model is");
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
    fail(ExitCode::usage, adapter.folder().string(), ": is an adapter of ", path.string(),
         ", which is not there; give --adapted DIR, where the model is now");
}

void check_fingerprint(const ModelSource& adapter, const ModelSource& adapted,
                       const std::string& found) {
    const std::string expected = adapted_fingerprint(adapter.checkpoint().meta());
    if (found == expected) return;
    fail(ExitCode::usage, adapter.folder().string(),
         ": is an adapter of a model with the fingerprint ", expected, ", but ",
         adapted.folder().string(), " has ", found,
         "; give --adapted DIR, where the right model is");
}

}  // namespace

ModelSource open_model(const std::filesystem::path& path, const MpiSession& ranks,
                       const std::filesystem::path& adapted) {
    std::filesystem::path place;
    bool is_peft = false;
    ranks.run_on_all([&] {
        is_peft = is_peft_folder(path);
        if (!is_peft) return;
        place =
            adapted.empty() ? peft_base(path, "give --adapted DIR, where the model is") : adapted;
    });
    if (is_peft) return ModelSource(path, std::make_unique<ModelSource>(place, ranks), ranks);
    ModelSource source(path, ranks);
    bool is_adapter = false;
    ranks.run_on_all([&] {
        const RunSpec spec = source.spec();
        is_adapter = spec.adapter.has_value();
        if (is_adapter) {
            place = place_of_adapted(source, spec, adapted);
        } else if (!adapted.empty()) {
            fail(ExitCode::usage, "--adapted ", adapted.string(), ": ", source.folder().string(),
                 " is not an adapter; remove it");
        }
    });
    if (!is_adapter) return source;
    auto model = std::make_unique<ModelSource>(place, ranks);
    const std::string found = fingerprint(*model, ranks);
    ranks.run_on_all([&] { check_fingerprint(source, *model, found); });
    source.set_adapted(std::move(model));
    return source;
}

}  // namespace gptrain
