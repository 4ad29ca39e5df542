#include <array>
#include <set>
#include <vector>

#include "catch.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// All ways to write the number of ranks as a product of four axes.
std::vector<MeshShape> shapes_of(std::int64_t ranks) {
    std::vector<MeshShape> shapes;
    for (std::int64_t data = 1; data <= ranks; ++data) {
        for (std::int64_t pipeline = 1; pipeline <= ranks; ++pipeline) {
            for (std::int64_t context = 1; context <= ranks; ++context) {
                const std::int64_t three = data * pipeline * context;
                if (ranks % three == 0) shapes.push_back({data, pipeline, context, ranks / three});
            }
        }
    }
    return shapes;
}

/// True if two places differ on this axis only.
bool together_on(Axis axis, const MeshPlace& a, const MeshPlace& b) {
    const bool model = axis == Axis::model;
    // With one rank of experts, all ranks with tokens of a layer are copies.
    const bool tokens = axis == Axis::tokens || axis == Axis::expert_copies;
    // Without groups of owners, all ranks with the same parameters are copies.
    const bool replicas = axis == Axis::dp_cp || axis == Axis::shard_copies || tokens;
    return (a.tp == b.tp || axis == Axis::tp || model || tokens) &&
           (a.pp == b.pp || axis == Axis::pp || model) &&
           (a.cp == b.cp || axis == Axis::cp || replicas) &&
           (a.dp == b.dp || axis == Axis::dp || replicas);
}

}  // namespace

TEST_CASE("Every axis of every mesh connects the ranks that it should") {
    const auto backend = cpu::make_backend();
    const int ranks = session().size();
    for (const MeshShape& shape : shapes_of(ranks)) {
        const Mesh mesh = session().running()
                              ? mpi_mesh(session(), shape, {}, *backend, &progress())
                              : one_rank_mesh();
        for (int i = 0; i < axes; ++i) {
            const auto axis = static_cast<Axis>(i);
            Communicator& comm = mesh[axis];
            std::vector<double> expected;
            for (int rank = 0; rank < ranks; ++rank) {
                if (together_on(axis, place_of(rank, shape), mesh.place())) {
                    if (rank == session().rank()) CHECK(comm.rank() == std::ssize(expected));
                    expected.push_back(rank);
                }
            }
            REQUIRE(comm.size() == std::ssize(expected));
            const Array all(*backend, DType::i32, {comm.size()});
            const Tensor own = all->slice(0, comm.rank(), 1);
            put(*backend, own, [](std::int64_t) { return session().rank(); });
            comm.all_gather(*all, own, 0).wait();
            REQUIRE(all.values() == expected);
        }
    }
}

TEST_CASE("Sharers of keys, the ends of the pipeline and its channels are connected") {
    const auto backend = cpu::make_backend();
    for (MeshShape shape : shapes_of(session().size())) {
        const int stages = static_cast<int>(shape.pipeline);
        MeshConnections connections;
        shape.kv = shape.tensor % 2 == 0 ? 2 : 1;
        connections.split_tied_embedding = stages > 1;
        // As interleaved stages need them: activations go round in a ring, gradients the other way.
        for (int stage = 0; stage < stages && stages > 1; ++stage) {
            const int next = (stage + 1) % stages;
            connections.channels.push_back({stage, next});
            if (stages > 2) connections.channels.push_back({next, stage});
        }
        if (!session().running()) continue;
        const Mesh mesh = mpi_mesh(session(), shape, connections, *backend, &progress());
        const MeshPlace& place = mesh.place();
        CHECK(mesh.kv().size() == shape.kv);
        CHECK(mesh.kv().rank() == place.tp % shape.kv);
        const bool end = stages > 1 && (place.pp == 0 || place.pp == stages - 1);
        CHECK(mesh.embedding_ends().size() == (end ? 2 : 1));
        if (end) CHECK(mesh.embedding_ends().rank() == (place.pp == 0 ? 0 : 1));
        if (stages == 1) continue;

        const auto exchanged = [&](int to, int from) {
            const Array sent(*backend, DType::i32, {1});
            const Array received(*backend, DType::i32, {1});
            put(*backend, *sent, [](std::int64_t) { return session().rank(); });
            Pending coming = mesh.channel({from, place.pp}).recv(*received, 0);
            mesh.channel({place.pp, to}).send(*sent, 1).wait();
            coming.wait();
            MeshPlace sender = place;
            sender.pp = from;
            CHECK(received.values() ==
                  std::vector<double>{static_cast<double>(rank_of(sender, shape))});
        };
        const int next = (place.pp + 1) % stages;
        const int before = (place.pp + stages - 1) % stages;
        exchanged(next, before);
        exchanged(before, next);
    }
}

namespace {

/// Counts its objects, and the uses of all of them.
struct Counted final : OneRankCommunicator {
    struct Counts {
        int alive = 0;
        int used = 0;
    };
    explicit Counted(Counts& counts) : all(counts) { ++all.alive; }
    ~Counted() override { --all.alive; }
    void barrier() override { ++all.used; }
    std::int64_t held_bytes() const override { return 100; }
    Counts& all;
};

}  // namespace

TEST_CASE("Groups on a part of an axis are neighbours there, or the ranks across them") {
    const MeshShape shape = {.data = 4, .pipeline = 2, .context = 2, .tensor = 3, .kv = 4};
    const SubAxis neighbours = {Axis::kv, Axis::dp_cp, &MeshShape::kv};
    const SubAxis across = {Axis::kv, Axis::dp_cp, &MeshShape::kv, true};
    for (std::int64_t rank = 0; rank < shape.size(); ++rank) {
        const MeshPlace place = place_of(rank, shape);
        const auto parent = place.dp * shape.context + place.cp;  // of 8
        const auto rank_at = [&](std::int64_t index) {
            return rank_of({.dp = narrow<int>(index / shape.context),
                            .pp = place.pp,
                            .cp = narrow<int>(index % shape.context),
                            .tp = place.tp},
                           shape);
        };
        const RankGroup near = group_in(Axis::kv, digits_of(neighbours, shape), rank);
        CHECK(near.id == rank_at(parent / 4 * 4));
        CHECK(near.rank == parent % 4);
        CHECK(near.size == 4);
        const RankGroup far = group_in(Axis::kv, digits_of(across, shape), rank);
        CHECK(far.id == rank_at(parent % 4));
        CHECK(far.rank == parent / 4);
        CHECK(far.size == 2);
    }
}

TEST_CASE("The ranks that divide the experts are neighbours on tp, then cp, then dp") {
    using Ranks = std::vector<std::int64_t>;
    const auto members = [](Axis axis, std::int64_t first, const MeshShape& shape) {
        Ranks ranks;
        for (std::int64_t rank = 0; rank < shape.size(); ++rank) {
            const RankGroup group = group_on(axis, rank, shape);
            if (group.id != first) continue;
            CHECK(group.rank == std::ssize(ranks));
            ranks.push_back(rank);
        }
        for (const std::int64_t rank : ranks)
            CHECK(group_on(axis, rank, shape).size == std::ssize(ranks));
        return ranks;
    };
    const MeshShape two = {.data = 2, .context = 2, .tensor = 2, .expert = 2};
    CHECK(members(Axis::experts, 0, two) == Ranks{0, 1});
    CHECK(members(Axis::experts, 6, two) == Ranks{6, 7});
    CHECK(members(Axis::expert_copies, 1, two) == Ranks{1, 3, 5, 7});
    const MeshShape four = {.data = 2, .context = 2, .tensor = 2, .expert = 4};
    CHECK(members(Axis::experts, 4, four) == Ranks{4, 5, 6, 7});
    CHECK(members(Axis::expert_copies, 2, four) == Ranks{2, 6});
    const MeshShape eight = {.data = 2, .context = 2, .tensor = 2, .expert = 8};
    CHECK(members(Axis::experts, 0, eight) == Ranks{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(members(Axis::expert_copies, 5, eight) == Ranks{5});
    const MeshShape data = {.data = 8, .expert = 4};
    CHECK(members(Axis::experts, 4, data) == Ranks{4, 5, 6, 7});
    CHECK(members(Axis::expert_copies, 3, data) == Ranks{3, 7});
    const MeshShape part = {.tensor = 8, .expert = 4};
    CHECK(members(Axis::experts, 0, part) == Ranks{0, 1, 2, 3});
    CHECK(members(Axis::expert_copies, 1, part) == Ranks{1, 5});
    // Every stage has its own.
    const MeshShape stages = {.data = 2, .pipeline = 2, .tensor = 2, .expert = 4};
    CHECK(members(Axis::experts, 4, stages) == Ranks{4, 5, 6, 7});
    CHECK(members(Axis::expert_copies, 4, stages) == Ranks{4});
    const MeshShape none = {.data = 2, .tensor = 2};
    CHECK(members(Axis::experts, 2, none) == Ranks{2});
}

TEST_CASE("A mesh uses each of its communicators once at the start, and counts their memory") {
    MeshConnections connections;
    connections.split_tied_embedding = true;
    connections.channels = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
    Counted::Counts counts;
    const Mesh mesh({.pipeline = 3}, {.pp = 1}, connections,
                    [&](const RankGroup&) { return std::make_unique<Counted>(counts); });
    mesh.warm_up();
    CHECK(counts.alive > std::ssize(connections.channels));
    CHECK(counts.used == counts.alive);
    CHECK(mesh.held_bytes() == 100 * counts.alive);
}

TEST_CASE("Axes with the same groups share a communicator if they send the same") {
    const MeshShape shape = {.data = 2, .tensor = 2};
    MeshConnections connections;
    CHECK(twin_of(Axis::model, shape, connections) == Axis::tp);
    connections.traffic[static_cast<std::size_t>(Axis::tp)].all_pairs = false;
    CHECK_FALSE(twin_of(Axis::model, shape, connections));
    // The ends of a pipeline that share nothing are no group.
    CHECK_FALSE(twin_of(Axis::embedding_ends, {.pipeline = 2}, MeshConnections()));
}

TEST_CASE("A mesh of another size than the world is refused") {
    const auto backend = cpu::make_backend();
    const MeshShape shape = {.tensor = session().size() + 1};
    try {
        mpi_mesh(session(), shape, {}, *backend, &progress());
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::usage);
        CHECK(std::string(error.what()).find(text("needs ", shape.size(), " ranks")) !=
              std::string::npos);
    }
}

TEST_CASE("Ranks exchange texts of any length") {
    const auto text_of = [](int rank) {
        return std::string(static_cast<std::size_t>(rank * rank * 100),
                           static_cast<char>('a' + rank));
    };
    const std::vector<std::string> texts = session().exchange(text_of(session().rank()));
    REQUIRE(std::ssize(texts) == session().size());
    for (int rank = 0; rank < session().size(); ++rank)
        CHECK(texts[static_cast<std::size_t>(rank)] == text_of(rank));
    // Too large to be sent before the receive is posted.
    const auto large_text_of = [&](int rank) { return text_of(rank) + std::string(1 << 20, 'x'); };
    const auto gathered = session().gather(large_text_of(session().rank()));
    REQUIRE(std::ssize(gathered) == (session().rank() == 0 ? session().size() : 0));
    for (int rank = 0; rank < std::ssize(gathered); ++rank)
        CHECK(gathered[static_cast<std::size_t>(rank)] == large_text_of(rank));
    CHECK(session().scatter(large_text_of) == large_text_of(session().rank()));
    CHECK(session().scatter(text_of) == text_of(session().rank()));
    CHECK(session().broadcast(large_text_of(session().rank())) == large_text_of(0));
    CHECK(session().broadcast(text_of(session().rank())) == "");
    CHECK(session().local_size() == session().size());
    CHECK(session().local_rank() == session().rank());
    CHECK(session().node() == 0);
}

TEST_CASE("Ranks merge their texts in the order of ranks") {
    const auto merged = session().reduce(
        text(session().rank()),
        [](const std::string& lower, const std::string& higher) { return lower + ' ' + higher; });
    std::string expected;
    for (int rank = 0; rank < session().size() && session().rank() == 0; ++rank)
        expected += text(rank == 0 ? "" : " ", rank);
    CHECK(merged == expected);
}

TEST_CASE("Ranks reduce numbers") {
    const std::int64_t ranks = session().size();
    const std::int64_t rank = session().rank();
    CHECK(session().max(-1 - rank) == -1);
    CHECK(session().max(rank << 40) == (ranks - 1) << 40);
    CHECK(session().sum(rank << 40) == (ranks * (ranks - 1) / 2) << 40);
    std::array<double, 2> values = {0.5, static_cast<double>(rank)};
    session().sum(values);
    CHECK(values == std::array<double, 2>{0.5 * static_cast<double>(ranks),
                                          0.5 * static_cast<double>(ranks * (ranks - 1))});
    // Bits that all ranks have cancel out in pairs.
    const std::uint64_t common = std::uint64_t{1} << 63;
    const std::uint64_t own = std::uint64_t{1} << rank;
    CHECK(session().exclusive_or(common | own) ==
          (ranks % 2 == 0 ? 0 : common) + (std::uint64_t{1} << ranks) - 1);
}

TEST_CASE("A fault of one rank is thrown by all") {
    const int last = session().size() - 1;
    try {
        session().run_on_all([&] {
            if (session().rank() == last) fail(ExitCode::bad_input, "a file of ", last);
        });
        FAIL("no error");
    } catch (const CommonError& error) {
        CHECK(error.code() == ExitCode::bad_input);
        const std::string expected =
            last > 0 ? text("rank ", last, ": a file of ", last) : "a file of 0";
        CHECK(error.what() == expected);
    }
    session().run_on_all([] {});
}

TEST_CASE("A fault in work that all ranks share, or before it, is thrown by all once") {
    const int ranks = session().size();
    const auto message_of = [](const std::function<void()>& work) -> std::string {
        try {
            session().run_on_all(work);
        } catch (const CommonError& error) {
            CHECK(error.code() == ExitCode::io);
            return error.what();
        }
        return "none";
    };
    const auto fault_of = [&](int rank) {
        return ranks > 1 ? text("rank ", rank, ": no disk") : "no disk";
    };
    const auto fail_on = [](int rank) {
        if (session().rank() == rank) fail(ExitCode::io, "no disk");
    };
    CHECK(message_of([&] { session().run_on_all([&] { fail_on(ranks - 1); }); }) ==
          fault_of(ranks - 1));
    CHECK(message_of([&] {
              fail_on(0);
              session().run_on_all([] {});
          }) == fault_of(0));
    CHECK(message_of([] { session().run_on_all([] {}); }) == "none");
}

}  // namespace gptrain::test
