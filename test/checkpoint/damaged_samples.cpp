// Damages a checkpoint at many places. Verification must find and name every damage, and a resumed
// run must report it and use the checkpoint before.
#include <random>

#include "catch.h"
#include "checkpoint/restart_point.h"
#include "saving.h"
#include "support/captured_stderr.h"
#include "support/proof.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

/// Two checkpoints of four ranks. The newer one gets damaged.
class Checkpoints {
public:
    explicit Checkpoints(const std::string& name)
        : folder_(name),
          older_(save_mesh(folder_.path(), mesh, 1)),
          newer_(save_mesh(folder_.path(), mesh, 2)),
          manifest_(read_manifest(newer_)) {}

    const fs::path& newer() const { return newer_; }
    const fs::path& older() const { return older_; }
    std::vector<fs::path> files() const {
        std::vector<fs::path> files{fs::directory_iterator(newer_), fs::directory_iterator()};
        std::sort(files.begin(), files.end());
        return files;
    }

    /// The text that the message on a damaged byte must contain after the path of its file.
    std::string name_of_damage(const fs::path& path, std::int64_t byte) const {
        if (path.filename() == "manifest.json") return "";
        for (const TensorRecord& tensor : manifest_.tensors) {
            for (const ExtentRecord& extent : tensor.extents) {
                // All are smaller than a block.
                const std::int64_t end = extent.byte_offset + extent.bytes();
                if (extent.file == path.filename() && extent.byte_offset <= byte && byte < end) {
                    return text(": dataset ", dataset_path(tensor, extent),
                                " is damaged in bytes [", extent.byte_offset, ", ", end, ")");
                }
            }
        }
        if (path.extension() == ".json") return ": is damaged (its CRC-32C does not match";
        return ": the HDF5 structure";
    }

    /// True if a run would now take the older one, and its warning names the damage.
    bool replaced(const std::string& damage) {
        const Taken taken = take();
        return taken.step == 1 && contains(taken.said, damage) &&
               contains(taken.said, "; skipping checkpoint step-000002");
    }

    /// True if a run would take the newer one all the same, and warns of the damage to model.h5.
    bool warned(const std::string& damage) {
        const Taken taken = take();
        return taken.step == 2 && contains(taken.said, damage) &&
               contains(taken.said, "; gptrain does not need it");
    }

    /// True if a run would take the newer one.
    bool whole() {
        const Taken taken = take();
        return taken.step == 2 && taken.said.empty();
    }

private:
    /// The checkpoint that a run loads, and its warnings.
    struct Taken {
        std::int64_t step = 0;  ///< of the checkpoint; 0 if the values are not those of its step
        std::string said;
    };
    Taken take() {
        HostBackend backend;
        RankState state({}, 0);
        auto point = RestartPoint::find({newer_, older_}, alone_);
        point->load(backend, state.source(), [] {});
        const std::int64_t step = point->folder() == newer_ ? 2 : 1;
        return {state.holds(step) ? step : 0, warnings_.take()};
    }

    static constexpr TestMesh mesh{2, 2, true};
    ScratchFolder folder_;
    fs::path older_;
    fs::path newer_;
    Manifest manifest_;
    CapturedStderr warnings_;
    MpiSession alone_;
};

/// How often damage was done, found, named correctly, and answered with the older checkpoint or, if
/// it was to model.h5, with a warning.
struct Tally {
    int done = 0;
    int found = 0;
    int named = 0;
    int replaced = 0;
    int warned = 0;

    /// `file`: the damaged one; empty if there are several.
    void add(Checkpoints& checkpoints, const std::string& name, const fs::path& file = {}) {
        const std::string message =
            error_of([&] { verify_checkpoint(checkpoints.newer(), VerifyDepth::full); });
        ++done;
        found += message.empty() ? 0 : 1;
        CAPTURE(name, message);
        const bool is_named = contains(message, name);
        CHECK(is_named);
        named += is_named ? 1 : 0;
        if (file.filename() == model_index_name) {
            const bool is_warned = checkpoints.warned(name);
            CHECK(is_warned);
            warned += is_warned ? 1 : 0;
        } else {
            const bool is_replaced = checkpoints.replaced(name);
            CHECK(is_replaced);
            replaced += is_replaced ? 1 : 0;
        }
    }
    std::string figures() const {
        const std::string of_view =
            warned > 0 ? text(", ", warned, " times a warning of model.h5 was enough") : "";
        return text(found, " found, ", named, " named, ", replaced,
                    " times the older checkpoint was taken", of_view);
    }
};

/// Offsets in a file of `size` bytes: both ends and random ones, `count` in all.
std::vector<std::int64_t> places_in(std::int64_t size, std::int64_t count, std::mt19937& random) {
    std::vector<std::int64_t> places = {0, size - 1};
    std::uniform_int_distribution<std::int64_t> anywhere(0, size - 1);
    while (std::ssize(places) < count)
        places.push_back(anywhere(random));
    return places;
}

/// The share of file `index` when `count` samples are divided among files.
std::int64_t share(std::int64_t count, std::size_t index, std::size_t files) {
    const auto i = static_cast<std::int64_t>(index);
    const auto n = static_cast<std::int64_t>(files);
    return count * (i + 1) / n - count * i / n;
}

}  // namespace

TEST_CASE("every flipped bit is found and named, and the older checkpoint is used if needed") {
    const std::int64_t positions = soak() ? 2000 : address_sanitizer ? 50 : 200;
    Checkpoints checkpoints("flips");
    const std::vector<fs::path> files = checkpoints.files();
    std::mt19937 random(7);
    Tally flips;
    for (std::size_t i = 0; i < files.size(); ++i) {
        File file(files[i], File::Mode::update);
        for (const std::int64_t place :
             places_in(file.size(), share(positions, i, files.size()), random)) {
            std::byte right{};
            file.read_at(place, {&right, 1});
            for (int bit = 0; bit < 8; ++bit) {
                CAPTURE(place, bit);
                const std::byte wrong = right ^ (std::byte{1} << bit);
                file.write_at(place, {&wrong, 1});
                flips.add(checkpoints,
                          files[i].string() + checkpoints.name_of_damage(files[i], place),
                          files[i]);
            }
            file.write_at(place, {&right, 1});
        }
    }
    CHECK(checkpoints.whole());
    CHECK(flips.done == 8 * positions);
    proof("bit-flips", flips.done, " flips, every bit of ", positions, " bytes of ", files.size(),
          " files: ", flips.figures());
}

TEST_CASE("every truncation is found and named, and the older checkpoint is used") {
    const std::int64_t lengths = soak() ? 500 : 50;
    Checkpoints checkpoints("truncations");
    const std::vector<fs::path> files = checkpoints.files();
    std::mt19937 random(11);
    Tally truncations;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::string contents = read_file(files[i], 1 << 24);
        File file(files[i], File::Mode::update);
        for (const std::int64_t length :
             places_in(std::ssize(contents), share(lengths, i, files.size()), random)) {
            CAPTURE(length);
            file.truncate(length);
            truncations.add(checkpoints, files[i].string(), files[i]);
            file.write_at(0, std::as_bytes(std::span(contents)));
        }
        // A longer file is wrong as well.
        Tally longer;
        file.truncate(std::ssize(contents) + 1);
        longer.add(checkpoints, files[i].string(), files[i]);
        file.truncate(std::ssize(contents));
    }
    CHECK(checkpoints.whole());
    CHECK(truncations.done == lengths);
    proof("truncations", truncations.done, " lengths of ", files.size(),
          " files: ", truncations.figures());
}

TEST_CASE("every file in the place of another is found, and the older checkpoint is used") {
    Checkpoints checkpoints("exchanged");
    const std::vector<fs::path> files = checkpoints.files();
    const fs::path& newer = checkpoints.newer();
    const fs::path aside = newer / "aside";
    Tally exchanged;
    for (std::size_t i = 0; i < files.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            const auto exchange = [&] {
                fs::rename(files[i], aside);
                fs::rename(files[j], files[i]);
                fs::rename(aside, files[j]);
            };
            exchange();
            exchanged.add(checkpoints, newer.string());
            exchange();
        }
    }
    Tally foreign;
    for (const fs::path& file : files) {
        // The index is the same at every step.
        if (file.filename() == "model.h5") continue;
        fs::rename(file, aside);
        fs::copy_file(checkpoints.older() / file.filename(), file);
        foreign.add(checkpoints, newer.string(), file);
        fs::rename(aside, file);
    }
    CHECK(checkpoints.whole());
    proof("exchanged-files", exchanged.done, " pairs of files exchanged: ", exchanged.figures(),
          "; ", foreign.done, " files of another step: ", foreign.figures());
}

}  // namespace gptrain::test
