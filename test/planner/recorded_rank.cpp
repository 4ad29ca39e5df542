#include "planner/recorded_rank.h"

#include <memory>

#include "base/text.h"
#include "meter/meter_communicator.h"

namespace gptrain::test {

std::string to_text(const CommOperation& operation) {
    return text(operation.name, " of ", operation.elements, " ", name_of(operation.dtype), " (",
                operation.detail, ")");
}

namespace {

class RecordingCommunicator final : public Communicator {
public:
    RecordingCommunicator(const RankGroup& group, std::int32_t index, CommList& list)
        : group_(group), index_(index), list_(list) {}

    int rank() const override { return group_.rank; }
    int size() const override { return group_.size; }

    Pending all_reduce(const Tensor& x, Reduce reduce) override {
        return issue({"all_reduce", x.dtype(), x.elements(), static_cast<int>(reduce)});
    }
    Pending reduce_scatter(const Tensor& to, const Tensor& from, int dim) override {
        check_parts(to, from);
        return issue({"reduce_scatter", from.dtype(), from.elements(), dim});
    }
    Pending all_gather(const Tensor& to, const Tensor& from, int dim) override {
        check_parts(from, to);
        return issue({"all_gather", to.dtype(), to.elements(), dim});
    }
    Pending all_to_all(const Tensor& to, const Tensor& from) override {
        GPTRAIN_CHECK(to.elements() == from.elements(), "all_to_all of unlike tensors");
        return issue({"all_to_all", from.dtype(), from.elements()});
    }
    Pending broadcast(const Tensor& x, int root) override {
        return issue({"broadcast", x.dtype(), x.elements(), root});
    }
    Pending send(const Tensor& x, int to) override {
        GPTRAIN_CHECK(to == 1 - rank(), "a channel has two ends");
        return issue({"send", x.dtype(), x.elements()});
    }
    Pending recv(const Tensor& x, int from) override {
        GPTRAIN_CHECK(from == 1 - rank(), "a channel has two ends");
        return issue({"recv", x.dtype(), x.elements()});
    }
    Pending send_recv(const Tensor& sent, int to, const Tensor& received, int from) override {
        const int shift = (to - rank() + size()) % size();
        GPTRAIN_CHECK(sent.elements() == received.elements() && sent.dtype() == received.dtype() &&
                          (from + shift) % size() == rank(),
                      "send_recv is not the same on all ranks");
        return issue({"send_recv", sent.dtype(), sent.elements(), shift});
    }
    void barrier() override { issue({"barrier"}).wait(); }

private:
    void check_parts(const Tensor& part, const Tensor& whole) const {
        GPTRAIN_CHECK(part.elements() * size() == whole.elements() && part.dtype() == whole.dtype(),
                      "the parts of ", size(), " ranks are not the whole");
    }
    Pending issue(const CommOperation& operation) {
        auto& own = list_.operations[static_cast<std::size_t>(index_)];
        const auto number = static_cast<std::int32_t>(own.size());
        own.push_back(operation);
        list_.events.push_back({index_, number, false});
        return Pending([this, number] { list_.events.push_back({index_, number, true}); });
    }

    RankGroup group_;
    std::int32_t index_;
    CommList& list_;
};

}  // namespace

CommunicatorFactory recording(CommList& list, std::vector<RankGroup>& groups) {
    return [&](const RankGroup& group) -> std::unique_ptr<Communicator> {
        const auto index = static_cast<std::int32_t>(groups.size());
        groups.push_back(group);
        list.operations.emplace_back();
        if (group.size == 1) return std::make_unique<MeterCommunicator>(0, 1);
        return std::make_unique<RecordingCommunicator>(group, index, list);
    };
}

}  // namespace gptrain::test
