#include "stored/saved_run.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/crc32c.h"

namespace gptrain {
namespace {

constexpr std::size_t max_sources = 10'000;  // as in a run spec

constexpr std::int64_t max_number = std::int64_t{1} << 60;  // sums of a few do not overflow
constexpr std::int64_t max_length = std::int64_t{1} << 31;  // of a sample, in tokens

/// A member in [low, high].
std::int64_t integer_from(const JsonReader& reader, const std::string& name, std::string_view key,
                          std::int64_t low, std::int64_t high = max_number) {
    const std::int64_t value = reader.integer(key);
    if (value < low || value > high)
        fail(ExitCode::bad_input, name, ": '", key, "' is out of range: ", value);
    return value;
}

std::vector<LengthChange> saved_changes(const JsonReader& source, const std::string& name) {
    std::vector<LengthChange> changes;
    if (!source.has("changes")) return changes;
    for (const Json& item : source.array("changes")) {
        const JsonReader change(item, name);
        changes.push_back({.seq_length = integer_from(change, name, "seq_length", 1, max_length),
                           .given = integer_from(change, name, "given", 0)});
    }
    return changes;
}

SourceProgress saved_progress(const JsonReader& source, const std::string& name,
                              std::int64_t seq_length) {
    SourceProgress progress = {.fingerprint = source.string("fingerprint"),
                               .pass = integer_from(source, name, "pass", 0),
                               .given = integer_from(source, name, "given", 0),
                               .seq_length = seq_length,
                               .changes = saved_changes(source, name + ".changes")};
    if (source.has("seq_length"))
        progress.seq_length = integer_from(source, name, "seq_length", 1, max_length);
    std::int64_t longest = progress.seq_length;
    for (const LengthChange& change : progress.changes)
        longest = std::max(longest, change.seq_length);
    progress.num_samples = integer_from(source, name, "num_samples", 1, max_number / longest);
    progress.needed = integer_from(source, name, "needed", 0, max_number / longest);
    return progress;
}

/// As written by run_identity (identity.h). `data`: everything else that the checkpoint records of
/// it.
DataPhase saved_phase(const Json& json, const std::string& name, const SavedData& data) {
    const JsonReader reader(json, name);
    DataPhase phase;
    phase.first_sample = integer_from(reader, name, "first_sample", 0);
    if (phase.first_sample > data.consumed_samples) {
        fail(ExitCode::bad_input, name, ": 'first_sample' is ", phase.first_sample, ", but only ",
             data.consumed_samples, " samples have been read");
    }
    phase.first_token = reader.has("first_token")
                            ? integer_from(reader, name, "first_token", 0)
                            : checked_mul(phase.first_sample, data.seq_length);
    const std::string source_name = name + ".sources";
    for (const Json& item : reader.array("sources")) {
        const JsonReader source(item, source_name);
        phase.sources.push_back(saved_progress(source, source_name, data.seq_length));
    }
    for (std::size_t i = 0; i < data.fingerprints.size(); ++i) {
        if (i < phase.sources.size() && phase.sources[i].fingerprint == data.fingerprints[i])
            continue;
        fail(ExitCode::bad_input, source_name, ": the training source ", i, " is missing");
    }
    return phase;
}

}  // namespace

Json to_json(const PeerAxes& list) {
    Json names = Json::array();
    for (const Axis axis : list)
        names.push_back(std::string(name_of(axis)));
    return names;
}

PeerAxes peer_axes(const Json& names, const std::string& source) {
    PeerAxes list;
    for (const Json& name : names) {
        const auto words = words_of(Axis{});
        const auto* const found = std::ranges::find_if(
            words, [&](const auto& word) { return name.is_string() && name == word.second; });
        if (found == words.end())
            fail(ExitCode::bad_input, source, ": 'peer_axes' has an unknown axis: ", name.dump());
        list.push_back(found->first);
    }
    return list;
}

Json to_json(const SavedRun& run) {
    Json json = {{"loss_scale", run.state.loss_scale},
                 {"clean_steps", run.state.clean_steps},
                 {"updates", run.state.updates},
                 {"skipped_steps", run.state.skipped_steps},
                 {"skipped_in_a_row", run.state.skipped_in_a_row},
                 {"losses", run.losses},
                 {"interval_loss", run.interval_loss},
                 {"goodput", to_json(run.goodput)},
                 {"spec", run.spec_yaml}};
    if (!run.expert_slices.is_null()) json["expert_slices"] = run.expert_slices;
    if (run.save_seconds > 0) json["save_seconds"] = run.save_seconds;
    if (run.newest_checkpoint) json["newest_checkpoint"] = *run.newest_checkpoint;
    if (run.peer_axes) json["peer_axes"] = to_json(*run.peer_axes);
    if (run.weights_only) json["weights_only"] = true;
    return json;
}

void record_save_time(CheckpointMeta& meta, double seconds) {
    meta.state["save_seconds"] = seconds;
}

SavedRun saved_run(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step, ": state");
    const JsonReader reader(meta.state, source);
    SavedRun run{};
    run.state.loss_scale = reader.number("loss_scale");
    run.state.clean_steps = reader.integer("clean_steps");
    run.state.updates = reader.integer("updates");
    run.state.skipped_steps = reader.integer("skipped_steps");
    run.state.skipped_in_a_row = reader.integer("skipped_in_a_row");
    run.losses = reader.array("losses");
    if (reader.has("interval_loss")) run.interval_loss = reader.object("interval_loss");
    if (reader.has("expert_slices")) run.expert_slices = reader.object("expert_slices");
    run.goodput = time_spent(reader.object("goodput"), source + ".goodput");
    run.spec_yaml = reader.string("spec");
    if (reader.has("save_seconds")) run.save_seconds = reader.number("save_seconds");
    if (reader.has("newest_checkpoint"))
        run.newest_checkpoint = reader.integer("newest_checkpoint");
    if (reader.has("peer_axes")) run.peer_axes = peer_axes(reader.array("peer_axes"), source);
    run.weights_only = reader.has("weights_only") && reader.boolean("weights_only");
    return run;
}

SavedData saved_data(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step, ": identity");
    const JsonReader identity(meta.identity, source);
    const std::string name = source + ".data";
    const JsonReader reader(identity.object("data"), name);
    SavedData data;
    for (const Json& item : reader.array("train")) {
        const std::string item_name = name + ".train";
        const JsonReader train(item, item_name);
        data.fingerprints.push_back(train.string("fingerprint"));
        data.weights.push_back(train.number("weight"));
        if (!(data.weights.back() > 0) || !std::isfinite(data.weights.back())) {
            fail(ExitCode::bad_input, item_name,
                 ": 'weight' is out of range: ", data.weights.back());
        }
    }
    if (data.fingerprints.empty() || data.fingerprints.size() > max_sources) {
        fail(ExitCode::bad_input, name, ".train: has ", data.fingerprints.size(),
             " sources; a run has 1 to ", max_sources);
    }
    data.num_samples = integer_from(reader, name, "num_samples", 1);
    const std::string training_name = source + ".training";
    const JsonReader training(identity.object("training"), training_name);
    data.seq_length = integer_from(training, training_name, "seq_length", 1, max_length);
    data.step = meta.step;
    data.consumed_samples = meta.data_position;
    if (data.consumed_samples > max_number / data.seq_length)
        fail(ExitCode::bad_input, source, ": too many samples: ", data.consumed_samples);
    if (reader.has("phase"))
        data.phase = saved_phase(reader.object("phase"), name + ".phase", data);
    return data;
}

std::string adapted_fingerprint(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step, ": identity");
    const JsonReader adapter(JsonReader(meta.identity, source).object("adapter"),
                             source + ".adapter");
    return adapter.string("init_from");
}

std::string saved_tokenizer(const CheckpointMeta& meta) {
    const std::string source = text("checkpoint of step ", meta.step, ": identity");
    const JsonReader identity(meta.identity, source);
    return JsonReader(identity.object("data"), source + ".data").string("tokenizer");
}

std::string spec_hash(const std::string& spec_yaml) {
    const std::uint32_t crc = crc32c(spec_yaml.data(), spec_yaml.size());
    std::string digits;
    for (int shift = 28; shift >= 0; shift -= 4)
        digits += "0123456789abcdef"[crc >> shift & 15];
    return digits;
}

}  // namespace gptrain
