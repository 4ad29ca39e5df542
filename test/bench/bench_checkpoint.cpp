// Compares saving and loading with plain writes and reads of the same bytes: same memory, same
// number of threads, same folder, measured in alternating turns.
//
//   [mpirun -n N] bench_checkpoint FOLDER [MIB [REPEATS]]
//
// FOLDER is created and removed. MIB: state per rank (default 1024). Prints one JSON object. For
// each comparison: the medians in seconds, "ratio" (the median of the ratios of each turn) and
// "best_ratio" (the ratio of the best turns, which other load on the machine affects least). Higher
// is better, except for "stall".
//   save   a whole synchronous save, over parallel write and fsync of one file per rank; neither
//          removes older files
//   stall  how long an asynchronous save stalls training, over memcpy of the same state
//   load   finding the checkpoint, checking its structure and loading it, over a parallel read of
//          as many bytes of the same files with CRC-32C; from disk
//   load_cached   the same from the page cache
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel_for.h"
#include "checkpoint/folder.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "cpu/cpu_backend.h"
#include "timing.h"

using namespace gptrain;

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

double smallest(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
}

/// One rank's fp32 state: a range of rows of each tensor, in three groups as in training.
class State {
public:
    State(Backend& backend, const MpiSession& ranks, std::int64_t mib)
        : arena_(backend, MemorySpace::device, "state", (mib + 1) << 20) {
        constexpr std::int64_t tensors = 8;
        constexpr std::int64_t columns = 1024;
        const std::int64_t rows = (mib << 20) / (3 * tensors * columns * size_of(DType::f32));
        for (const std::string group : {"weight", "exp_avg", "exp_avg_sq"}) {
            for (std::int64_t i = 0; i < tensors; ++i) {
                Shard shard =
                    Shard::whole(text("h.", i, ".weight"), {rows * ranks.size(), columns});
                shard.flat_begin = rows * ranks.rank() * columns;
                shard.flat_end = shard.flat_begin + rows * columns;
                const Tensor values = arena_.allocate(DType::f32, {rows * columns});
                for (std::int64_t j = 0; j < values.elements(); ++j)
                    values.as<float>()[j] = static_cast<float>(i + j);
                shards_.push_back({group, shard, values});
            }
        }
    }
    StateSource source() const {
        return [this](const StateVisitor& visit) {
            for (const HeldState& state : shards_)
                visit({state.group, state.shard, state.values});
        };
    }
    /// The whole state: the tensors are adjacent in memory.
    std::span<std::byte> bytes() const {
        return {shards_.front().values.data(), static_cast<std::size_t>(arena_.used())};
    }

private:
    Arena arena_;
    std::vector<HeldState> shards_;
};

class Bench {
public:
    Bench(const MpiSession& ranks, const fs::path& folder, std::int64_t mib)
        : ranks_(ranks),
          folder_(folder),
          backend_(cpu::make_backend()),
          state_(*backend_, ranks, mib),
          snapshot_(*backend_, MemorySpace::host, "snapshot", (mib + 1) << 20),
          plain_(folder / text("plain-", ranks.rank())),
          copy_(state_.bytes().size()),
          sync_(saver(false)),
          async_(saver(true)) {}

    /// Runs every comparison once.
    void turn() {
        ++step_;
        const fs::path checkpoint = folder_ / checkpoint_name(step_);
        compare(
            "save", [&] { write_plain(); }, [&] { save(*sync_); });
        const fs::path shard = own_file(checkpoint);
        const auto plain = [&] { read_plain(shard); };
        const auto own = [&] {
            RestartPoint::find({checkpoint}, ranks_)->load(*backend_, state_.source(), [] {});
        };
        compare("load_cached", plain, own);
        compare("load", plain, own, [&] {
            for (const auto& entry : fs::directory_iterator(checkpoint))
                drop_from_cache(entry.path());
        });
        compare(
            "stall", [&] { std::memcpy(copy_.data(), state_.bytes().data(), copy_.size()); },
            [&] { async_->save(meta(), state_.source()); });
        async_->wait();
        ranks_.run_on_first([&] { fs::remove_all(checkpoint); });
    }

    Json results() const {
        Json all = {{"ranks", ranks_.size()},
                    {"bytes_of_a_rank", std::ssize(copy_)},
                    {"crc32c_gb_per_s", checksum_rate()}};
        for (const auto& [name, times] : times_) {
            all[name] = {{"plain_s", bench::median(times.plain)},
                         {"own_s", bench::median(times.own)},
                         {"ratio", bench::median(times.ratio)},
                         {"best_ratio", ratio(name, smallest(times.plain), smallest(times.own))}};
        }
        return all;
    }

private:
    struct Times {
        std::vector<double> plain;
        std::vector<double> own;
        std::vector<double> ratio;
    };

    CheckpointMeta meta() const {
        CheckpointMeta meta;
        meta.step = step_;
        return meta;
    }

    std::unique_ptr<CheckpointSaver> saver(bool async) {
        return std::make_unique<CheckpointSaver>(
            *backend_, snapshot_, ranks_,
            SaverOptions{{.folder = folder_, .keep_last = 1000}, async});
    }

    /// Time of the slowest rank; all start together.
    double seconds(const std::function<void()>& work) const {
        ranks_.max(0);
        const auto start = Clock::now();
        work();
        return static_cast<double>(ranks_.max((Clock::now() - start).count())) * 1e-9;
    }

    /// The order of the two alternates from turn to turn.
    void compare(
        const std::string& name, const std::function<void()>& plain,
        const std::function<void()>& own, const std::function<void()>& prepare = [] {}) {
        const bool own_first = step_ % 2 == 0;
        prepare();
        const double first = seconds(own_first ? own : plain);
        prepare();
        const double second = seconds(own_first ? plain : own);
        Times& times = times_[name];
        times.plain.push_back(own_first ? second : first);
        times.own.push_back(own_first ? first : second);
        times.ratio.push_back(ratio(name, times.plain.back(), times.own.back()));
    }
    static double ratio(const std::string& name, double plain, double own) {
        return name == "stall" ? own / plain : plain / own;
    }

    void write_plain() const {
        std::filesystem::remove(plain_);
        File file(plain_, File::Mode::create);
        for_blocks(
            [&](std::int64_t offset, std::span<std::byte> block) { file.write_at(offset, block); });
        file.sync();
    }

    void save(CheckpointSaver& saver) const {
        saver.save(meta(), state_.source());
        saver.wait();
    }

    /// This rank's file of the checkpoint.
    fs::path own_file(const fs::path& checkpoint) const {
        const std::string digits = text(ranks_.rank());
        return checkpoint / text("shard-", std::string(5 - digits.size(), '0'), digits, ".h5");
    }

    void read_plain(const fs::path& path) {
        const File file(path, File::Mode::read);
        std::atomic<std::uint32_t> all = 0;
        for_blocks([&](std::int64_t offset, std::span<std::byte> block) {
            file.read_at(offset, block);
            all ^= crc32c(block.data(), block.size());
        });
        checksums_ ^= all;
    }

    void for_blocks(
        const std::function<void(std::int64_t offset, std::span<std::byte> block)>& visit) const {
        const auto bytes = state_.bytes();
        parallel_for(div_ceil(std::ssize(bytes), checkpoint_block_bytes), checkpoint_threads,
                     [&](std::int64_t i) {
                         const auto begin = static_cast<std::size_t>(i * checkpoint_block_bytes);
                         const auto size =
                             std::min<std::size_t>(checkpoint_block_bytes, bytes.size() - begin);
                         visit(i * checkpoint_block_bytes, bytes.subspan(begin, size));
                     });
    }

    static void drop_from_cache(const fs::path& path) {
        const File file(path, File::Mode::read);
        ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    }

    /// On one core, from memory.
    double checksum_rate() const {
        std::vector<double> rates;
        for (int i = 0; i < 7; ++i) {
            const auto start = Clock::now();
            checksums_ ^= crc32c(copy_.data(), copy_.size());
            const std::chrono::duration<double> elapsed = Clock::now() - start;
            rates.push_back(static_cast<double>(copy_.size()) / elapsed.count() * 1e-9);
        }
        return bench::median(rates);
    }

    const MpiSession& ranks_;
    fs::path folder_;
    std::unique_ptr<Backend> backend_;
    State state_;
    Arena snapshot_;
    fs::path plain_;
    std::vector<std::byte> copy_;
    std::unique_ptr<CheckpointSaver> sync_;
    std::unique_ptr<CheckpointSaver> async_;
    std::int64_t step_ = 0;
    std::map<std::string, Times> times_;
    mutable std::uint32_t checksums_ = 0;  ///< kept so that the compiler does not drop the work
};

void run(const MpiSession& ranks, const fs::path& folder, std::int64_t mib, std::int64_t repeats) {
    ranks.run_on_first([&] { create_folders(folder); });
    Json results;
    {
        Bench bench(ranks, folder, mib);
        for (std::int64_t i = 0; i < repeats; ++i)
            bench.turn();
        results = bench.results();
    }
    ranks.run_on_first([&] {
        fs::remove_all(folder);
        print(to_line(results));
    });
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto mib = words.size() > 1 ? parse_int(words[1]) : 1024;
    const auto repeats = words.size() > 2 ? parse_int(words[2]) : 5;
    if (words.empty() || words.size() > 3 || !mib || !repeats || *mib < 1 || *repeats < 1) {
        warn("usage: bench_checkpoint FOLDER [MIB [REPEATS]]");
        return 2;
    }
    const MpiSession ranks;
    try {
        run(ranks, words[0], *mib, *repeats);
    } catch (const Error& error) {
        error_line("bench_checkpoint", error.what());
        ranks.abort_all(error.code());
    }
    return 0;
}
