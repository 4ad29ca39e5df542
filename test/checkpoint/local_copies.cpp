// Local copies of several ranks: made on nodes, each with its own disk, and loaded after some are
// gone.
#include "checkpoint/local_copies.h"

#include <fstream>
#include <map>

#include "catch.h"
#include "checkpoint/local_restart.h"
#include "checkpoint/restart_point.h"
#include "saving.h"
#include "support/common_folder.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

const MpiSession& ranks() {
    return session();
}

constexpr int ranks_of_node = 2;

/// The copies of node `node`, whose disk is a folder.
LocalFolder disk_of(const fs::path& folder, int node, CopyTier tier = CopyTier::disk) {
    const std::string_view name = tier == CopyTier::disk ? "disk-" : "memory-";
    return local_folder(folder / text(name, node), folder / "run", {}, node, tier);
}

LocalFolder own_disk(const fs::path& folder, CopyTier tier = CopyTier::disk) {
    return disk_of(folder, ranks().rank() / ranks_of_node, tier);
}

const LocalCourse first_course = {.id = "c0", .from = ""};

std::optional<LocalRestart> find_copies(const fs::path& folder,
                                        const LocalCourse& course = first_course) {
    return LocalRestart::find(own_disk(folder), course, ranks());
}

/// The newest copies of both tiers.
std::vector<LocalRestart> all_copies(const fs::path& folder) {
    std::vector<LocalRestart> all;
    for (const CopyTier tier : {CopyTier::memory, CopyTier::disk}) {
        auto found = LocalRestart::find(own_disk(folder, tier), first_course, ranks());
        if (found) all.push_back(std::move(*found));
    }
    return all;
}

/// This rank of a run whose data ranks hold the same values; a replica owns nothing.
struct CopyingRun {
    explicit CopyingRun(const fs::path& folder, CopyTier tier = CopyTier::disk)
        : state({1, ranks().size()}, ranks().rank()),
          arena(backend, MemorySpace::host, "snapshot", 1 << 20),
          copies(backend, arena, ranks(), own_disk(folder, tier), state.source(), [this] {
              if (taken_over) fail(ExitCode::hang, "taken over");
          }) {
        copies.begin_course(first_course, 0);
    }

    void save(std::int64_t step) {
        state.fill(step);
        copies.save(meta_for(step), state.source());
        // Changes after the call are not saved.
        state.clear();
    }

    HostBackend backend;
    RankState state;
    Arena arena;
    bool taken_over = false;
    LocalCopies copies;
};

/// The step whose state all ranks load; -1 if there are no copies, 0 if the state is another.
std::int64_t loaded_step(const fs::path& folder, const LocalCourse& course = first_course) {
    const auto restart = find_copies(folder, course);
    if (!restart) return -1;
    HostBackend backend;
    RankState state({1, ranks().size()}, ranks().rank());
    restart->load(backend, state.source());
    const bool right = state.holds(restart->meta().step) &&
                       restart->meta().identity == meta_for(restart->meta().step).identity;
    return ranks().max(right ? 0 : 1) == 0 ? restart->meta().step : 0;
}

int node_count() {
    return (ranks().size() + ranks_of_node - 1) / ranks_of_node;
}

/// The only save on a node.
fs::path only_save(const LocalFolder& disk) {
    std::vector<fs::path> saves;
    for (const auto& entry : fs::directory_iterator(disk.path()))
        saves.push_back(entry.path());
    REQUIRE(saves.size() == 1);
    return saves.front();
}

void flip_byte(const fs::path& file, std::streamoff at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    stream.seekg(at).get(byte);
    stream.seekp(at).put(static_cast<char>(byte ^ 1));
}

/// `folder` has a local copy that cannot be loaded. Without a checkpoint to fall back on, all say
/// so; with one, it is loaded.
void check_fallback(const fs::path& folder) {
    HostBackend backend;
    RankState state({1, ranks().size()}, ranks().rank());
    auto point = RestartPoint::find({}, ranks(), all_copies(folder));
    REQUIRE(point);
    CHECK(contains(common_error([&] { point->load(backend, state.source(), [] {}); }),
                   "the run has no checkpoint"));
    const fs::path checkpoints = folder / "checkpoints";
    ranks().run_on_first([&] {
        fs::create_directories(checkpoints);
        save_mesh(checkpoints, {1, ranks().size()}, 2);
    });
    point = RestartPoint::find({checkpoints / checkpoint_name(2)}, ranks(), all_copies(folder));
    REQUIRE(point);
    CHECK(point->meta().step == 3);
    int refused = 0;
    point->load(backend, state.source(), [&] { ++refused; });
    CHECK(point->meta().step == 2);
    CHECK(refused == 1);
    CHECK(state.holds(2));
}

}  // namespace

TEST_CASE("Each rank's copy goes to another node if no node has more than half of the ranks") {
    using Ranks = std::vector<int>;
    CHECK(copy_receivers({0}) == Ranks{MpiSession::nobody});
    CHECK(copy_receivers({0, 0}) == Ranks{-1, -1});
    CHECK(copy_receivers({0, 0, 2, 2}) == Ranks{2, 3, 0, 1});
    CHECK(copy_receivers({0, 1, 0, 1}) == Ranks{1, 0, 3, 2});
    CHECK(copy_receivers({0, 0, 2, 3}) == Ranks{2, 3, 0, 1});
    CHECK(copy_receivers({0, 0, 0, 3}) == Ranks{3, -1, -1, 2});
    Ranks nodes;
    for (int rank = 0; rank < 24; ++rank)
        nodes.push_back(rank / 8);
    const Ranks receivers = copy_receivers(nodes);
    for (std::size_t rank = 0; rank < nodes.size(); ++rank)
        CHECK(nodes[static_cast<std::size_t>(receivers[rank])] != nodes[rank]);
}

TEST_CASE("Ranks load their local copies, also those that only another node has") {
    const CommonFolder folder("local");
    CopyingRun run(folder.path());
    CHECK(loaded_step(folder.path()) == -1);
    run.save(1);
    CHECK(loaded_step(folder.path()) == -1);  // not complete
    run.copies.finish();
    CHECK(loaded_step(folder.path()) == 1);
    // Where another start has the output directory, none are completed, and none removed.
    run.save(9);
    run.taken_over = true;
    CHECK(contains(common_error([&] { run.copies.finish(); }), "taken over"));
    run.taken_over = false;
    CHECK(loaded_step(folder.path()) == 1);
    run.save(2);
    while (loaded_step(folder.path()) != 2)
        run.copies.poll();
    // Older ones are gone.
    for (int node = 0; node < node_count(); ++node)
        CHECK(local_save_step(only_save(disk_of(folder.path(), node)).filename()) == 2);

    if (ranks().size() != 2 * ranks_of_node) return;
    // Replaces one node after the other by one with an empty disk.
    for (int node = 0; node < node_count(); ++node) {
        ranks().run_on_first([&] { fs::remove_all(disk_of(folder.path(), node).run); });
        CHECK(loaded_step(folder.path()) == 2 + node);
        // The copies that this brought back are whole.
        CHECK(loaded_step(folder.path()) == 2 + node);
        run.save(3 + node);
        run.copies.finish();
    }
    // Both nodes are lost, and with them the copies of each other's ranks.
    ranks().run_on_first([&] {
        for (int node = 0; node < node_count(); ++node)
            fs::remove_all(disk_of(folder.path(), node).run);
    });
    CHECK(loaded_step(folder.path()) == -1);
}

TEST_CASE("Local copies that are incomplete, damaged or of another branch are not loaded") {
    const CommonFolder folder("faulty");
    CopyingRun run(folder.path());
    run.save(3);
    run.copies.finish();
    const int last = ranks().size() - 1;
    ranks().max(0);
    // Another node's copy stands in for a damaged one.
    const auto damage = [&](int node) {
        const fs::path copy = only_save(disk_of(folder.path(), node)) / copy_file_name(last);
        if (ranks().rank() == last && fs::exists(copy)) flip_byte(copy, 100);
        ranks().max(0);
    };
    damage(last / ranks_of_node);
    if (ranks().size() == 2 * ranks_of_node) {
        CHECK(loaded_step(folder.path()) == 3);
        damage(last / ranks_of_node);
    }
    for (int node = 0; node < node_count(); ++node)
        if (node != last / ranks_of_node) damage(node);
    const std::string fault = common_error([&] { loaded_step(folder.path()); });
    CHECK(contains(fault, ranks().size() == 1 ? "" : text("rank ", last)));
    CHECK(contains(fault, copy_file_name(last)));

    check_fallback(folder.path());

    // A manifest with a flipped byte is no copy.
    ranks().run_on_first([&] {
        for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
            if (entry.path().filename() == copy_manifest_name(last)) flip_byte(entry.path(), 40);
    });
    CHECK(loaded_step(folder.path()) == -1);

    run.save(5);
    run.copies.finish();
    CHECK(loaded_step(folder.path()) == 5);
    // One course continues from that save, the next from elsewhere.
    const LocalCourse second = {.id = "c1", .from = local_save_name(5, first_course.id)};
    run.copies.begin_course(second, 0);
    CHECK(loaded_step(folder.path(), second) == 5);
    CHECK(loaded_step(folder.path(), {.id = "c2", .from = ""}) == -1);
    run.copies.begin_course({.id = "c2", .from = ""}, 0);
    CHECK(loaded_step(folder.path(), second) == -1);
}

TEST_CASE("A course has its own copies, and one of those before it") {
    const LocalCourse course = local_course(to_text({.id = "c1", .from = "step-000005-c0"}));
    CHECK(course.includes("step-000007-c1"));
    CHECK(course.includes("step-000005-c0"));
    CHECK_FALSE(course.includes("step-000004-c0"));
    CHECK_FALSE(course.includes("step-000005-1732500000000000000"));
    // An output directory from before there were courses.
    const LocalCourse old = local_course(to_text(LocalCourse{}));
    CHECK(old.includes("step-000005-1732500000000000000"));
    CHECK_FALSE(old.includes("step-000005-c0"));
    // One that continues from copies in memory still has the local ones behind them.
    const LocalCourse two = local_course(to_text(
        {.id = "c2", .from = "step-000015-c1", .older = {"step-000010-c1"}, .reached = 17}));
    CHECK(two.from == "step-000015-c1");
    CHECK(two.includes("step-000010-c1"));
    CHECK_FALSE(two.includes("step-000005-c1"));
    CHECK(two.reached == 17);
    CHECK_FALSE(course.reached);
    const LocalCourse fresh = local_course(to_text({.id = "c3", .from = "", .reached = 2}));
    CHECK(fresh.from.empty());
    CHECK(fresh.reached == 2);
    const std::string id = new_course_id();
    CHECK(id != new_course_id());
    CHECK_FALSE(old.includes(local_save_name(5, id)));
}

TEST_CASE("Copies in memory come before local ones, and these before checkpoints") {
    const CommonFolder folder("tiers");
    CopyingRun disk(folder.path());
    CopyingRun memory(folder.path(), CopyTier::memory);
    const fs::path checkpoints = folder.path() / "checkpoints";
    ranks().run_on_first([&] {
        fs::create_directories(checkpoints);
        for (const std::int64_t step : {2, 4})
            save_mesh(checkpoints, {1, ranks().size()}, step);
    });
    disk.save(3);
    disk.copies.finish();
    memory.save(4);
    memory.copies.finish();
    const std::vector<fs::path> newest_first = {checkpoints / checkpoint_name(4),
                                                checkpoints / checkpoint_name(2)};
    HostBackend backend;
    RankState state({1, ranks().size()}, ranks().rank());
    auto point = RestartPoint::find(newest_first, ranks(), all_copies(folder.path()));
    REQUIRE(point);
    // Of the same step as the newest checkpoint.
    REQUIRE(point->local());
    CHECK(point->local()->tier() == CopyTier::memory);
    CHECK(point->untried_copies() == std::vector{local_save_name(3, first_course.id)});
    if (ranks().rank() == 0) CHECK(point->course() == newest_first);

    // Each tier takes the place of a damaged one before it.
    const int last = ranks().size() - 1;
    const auto damage = [&](CopyTier tier) {
        for (int node = 0; node < node_count(); ++node) {
            const fs::path copy =
                only_save(disk_of(folder.path(), node, tier)) / copy_file_name(last);
            if (ranks().rank() == last && fs::exists(copy)) flip_byte(copy, 100);
        }
        ranks().max(0);
    };
    const auto loaded = [&](const std::vector<fs::path>& candidates) {
        point = RestartPoint::find(candidates, ranks(), all_copies(folder.path()));
        point->load(backend, state.source(), [] {});
        CHECK(state.holds(point->meta().step));
        return point->meta().step;
    };
    damage(CopyTier::memory);
    CHECK(loaded({newest_first.back()}) == 3);
    CHECK(point->local()->tier() == CopyTier::disk);
    CHECK(point->untried_copies().empty());
    CHECK(loaded(newest_first) == 4);
    CHECK_FALSE(point->local());
    damage(CopyTier::disk);
    CHECK(loaded({newest_first.back()}) == 2);

    // A course keeps the copies that it may fall back on, until it has its own.
    memory.save(6);
    const LocalCourse second = {.id = "c1",
                                .from = local_save_name(6, first_course.id),
                                .older = {local_save_name(3, first_course.id)}};
    for (CopyingRun* run : {&disk, &memory})
        run->copies.begin_course(second, 6);
    const auto step_on = [&](CopyTier tier) {
        return local_save_step(only_save(own_disk(folder.path(), tier)).filename());
    };
    CHECK(step_on(CopyTier::memory) == 6);
    CHECK(step_on(CopyTier::disk) == 3);
    ranks().max(0);
    disk.save(9);
    disk.copies.finish();
    CHECK(step_on(CopyTier::disk) == 9);
    CHECK(bytes_of_copies(own_disk(folder.path(), CopyTier::memory)) > 0);
    ranks().max(0);
    memory.copies.remove_all();
    CHECK(bytes_of_copies(own_disk(folder.path(), CopyTier::memory)) == 0);
    CHECK_FALSE(fs::exists(own_disk(folder.path(), CopyTier::memory).run));
    CHECK(step_on(CopyTier::disk) == 9);
}

TEST_CASE("A local copy that cannot be written costs nothing but itself") {
    const CommonFolder folder("full");
    CopyingRun run(folder.path());
    run.save(1);
    run.copies.finish();
    const int last = ranks().size() - 1;
    const LocalFolder disk = own_disk(folder.path());
    // A file where the last node's folder should be.
    const fs::path blocked = disk.path();
    const bool blocks = ranks().rank() == last;
    if (blocks) fs::rename(blocked, blocked.string() + "-aside");
    if (blocks) fill(blocked, "x");
    ranks().max(0);
    run.save(2);
    run.copies.finish();
    ranks().max(0);
    if (blocks) fs::remove(blocked);
    if (blocks) fs::rename(blocked.string() + "-aside", blocked);
    ranks().max(0);
    CHECK(loaded_step(folder.path()) == 1);
    run.save(3);
    run.copies.finish();
    CHECK(loaded_step(folder.path()) == 3);
}

}  // namespace gptrain::test
